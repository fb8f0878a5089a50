//! A directory in process memory, for databases that need not outlive the process and for tests.
//!
//! Each file has a lock. Nothing is ever lost, so [`Dir::sync`] and [`File::sync`] have nothing to do. The simulated
//! disk of [`crate::sim`] simulates losses.

use crate::dir::{Holders, check_name};
use crate::file::{checked_end, place_in_map};
use crate::{Dir, File, FileId, Lock, LogMap};
use base::sync::{Mutex, RwLock, RwLockReadGuard, lock};
use base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A directory in memory. Cloning it gives another handle to the same directory.
///
/// ```
/// use pando_io::{Dir, File, MemDir};
/// let dir = MemDir::new();
/// dir.create("data")?.write_at(b"aspen", 0)?;
/// let mut bytes = [0; 5];
/// dir.open("data")?.read_exact_at(&mut bytes, 0)?;
/// assert_eq!(&bytes, b"aspen");
/// # Ok::<(), base::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemDir {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    files: Mutex<BTreeMap<String, Arc<RwLock<Vec<u8>>>>>,
    locked: Mutex<BTreeMap<String, Holders>>,
}

impl MemDir {
    /// Creates an empty directory.
    pub fn new() -> MemDir {
        MemDir::default()
    }

    /// Returns every file with its bytes, all at one instant: what a process that is killed at this moment leaves.
    ///
    /// Writes wait meanwhile. Takes as long as copying all bytes.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let files = lock(&self.shared.files);
        // All locks are taken before the first copy. No other code holds two, so none waits for one while it holds
        // another.
        let held: Vec<_> = files.iter().map(|(name, bytes)| (name, read(bytes))).collect();
        held.into_iter().map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
    }

    fn take(&self, name: &str, who: Holders) -> Result<Box<dyn Lock>> {
        check_name(name)?;
        if !Holders::join(&mut lock(&self.shared.locked), name.to_owned(), who) {
            let owner = std::process::id();
            return Err(Error::new(
                ErrorKind::Locked,
                format!("{name} in memory is held by process {owner}"),
            ));
        }
        Ok(Box::new(MemLock { name: name.into(), shared: Arc::clone(&self.shared) }))
    }
}

/// Creates a directory with these files.
impl From<BTreeMap<String, Vec<u8>>> for MemDir {
    fn from(files: BTreeMap<String, Vec<u8>>) -> MemDir {
        let files = files.into_iter().map(|(name, bytes)| (name, Arc::new(RwLock::new(bytes)))).collect();
        MemDir { shared: Arc::new(Shared { files: Mutex::new(files), ..Shared::default() }) }
    }
}

impl Dir for MemDir {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let mut files = lock(&self.shared.files);
        if files.contains_key(name) {
            return Err(Error::new(ErrorKind::Io, format!("{name} exists already in memory")));
        }
        let bytes = Arc::new(RwLock::new(Vec::new()));
        files.insert(name.into(), Arc::clone(&bytes));
        Ok(Arc::new(MemFile { name: name.into(), bytes }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let bytes = lock(&self.shared.files).get(name).cloned().ok_or_else(|| missing(name))?;
        Ok(Arc::new(MemFile { name: name.into(), bytes }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut files = lock(&self.shared.files);
        let bytes = files.remove(from).ok_or_else(|| missing(from))?;
        files.insert(to.into(), bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        lock(&self.shared.files).remove(name).map(drop).ok_or_else(|| missing(name))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(lock(&self.shared.files).keys().cloned().collect())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.take(name, Holders::Owner)
    }

    fn lock_existing(&self, name: &str) -> Result<Box<dyn Lock>> {
        check_name(name)?;
        if !lock(&self.shared.files).contains_key(name) {
            return Err(missing(name));
        }
        self.take(name, Holders::Owner)
    }

    fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.take(name, Holders::Readers(1))
    }

    fn check_in_place(&self, files: &[&dyn File]) -> Result<()> {
        let held = lock(&self.shared.files);
        for file in files {
            let found = held.get(file.name()).ok_or_else(|| missing(file.name()))?;
            if id_of(found) != file.id()? {
                let message = format!("{} was replaced by another file in memory", file.name());
                return Err(Error::new(ErrorKind::Io, message));
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".into()
    }
}

/// Returns the id of a file: the address of its bytes in memory.
fn id_of(bytes: &Arc<RwLock<Vec<u8>>>) -> FileId {
    FileId { volume: 0, number: Arc::as_ptr(bytes) as usize as u64 }
}

fn read(bytes: &RwLock<Vec<u8>>) -> RwLockReadGuard<'_, Vec<u8>> {
    bytes.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cold]
fn missing(name: &str) -> Error {
    Error::new(ErrorKind::Io, format!("there is no {name} in memory"))
}

#[derive(Debug)]
struct MemLock {
    name: String,
    shared: Arc<Shared>,
}

impl Lock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        Holders::leave(&mut lock(&self.shared.locked), &self.name);
    }
}

#[derive(Debug)]
struct MemFile {
    name: String,
    bytes: Arc<RwLock<Vec<u8>>>,
}

impl MemFile {
    fn change<T>(&self, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        change(&mut self.bytes.write().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn look<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&read(&self.bytes))
    }
}

impl File for MemFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.look(|bytes| {
            let rest = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, new: &[u8], offset: u64) -> Result<()> {
        let end = checked_end(&self.name, offset, new.len() as u64)? as usize;
        self.change(|bytes| {
            if end > bytes.len() && !new.is_empty() {
                grow(&self.name, bytes, end)?;
            }
            if !new.is_empty() {
                bytes[offset as usize..end].copy_from_slice(new);
            }
            Ok(())
        })
    }

    fn len(&self) -> Result<u64> {
        Ok(self.look(|bytes| bytes.len() as u64))
    }

    fn id(&self) -> Result<FileId> {
        Ok(id_of(&self.bytes))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let len = checked_end(&self.name, 0, len)? as usize;
        self.change(|bytes| {
            if len > bytes.len() {
                return grow(&self.name, bytes, len);
            }
            bytes.truncate(len);
            if bytes.capacity() / 4 > len {
                bytes.shrink_to(2 * len);
            }
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> Result<bool> {
        let longer = len > self.len()?;
        if longer { self.set_len(len).map(|()| true) } else { Ok(true) }
    }

    /// Does not set memory aside for later, because that memory would be in use.
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        if offset == 0 { self.allocate(len) } else { Ok(false) }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        if len > self.len()? {
            return Err(Error::invalid(format!("{} is shorter than a mapping of {len} bytes", self.name)));
        }
        Ok(Some(Arc::new(MemMap { bytes: Arc::clone(&self.bytes), len })))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let end = checked_end(&self.name, offset, len)?;
        self.change(|bytes| {
            let end = end.min(bytes.len() as u64);
            bytes[offset.min(end) as usize..end as usize].fill(0);
        });
        Ok(())
    }
}

/// Extends `bytes` by zeros to `len`. Returns an error instead of aborting if memory does not suffice.
fn grow(name: &str, bytes: &mut Vec<u8>, len: usize) -> Result<()> {
    bytes.try_reserve(len - bytes.len()).map_err(|refused| {
        Error::new(ErrorKind::Full, format!("cannot hold {len} bytes of {name} in memory")).caused_by(refused)
    })?;
    bytes.resize(len, 0);
    Ok(())
}

#[derive(Debug)]
struct MemMap {
    bytes: Arc<RwLock<Vec<u8>>>,
    len: u64,
}

impl LogMap for MemMap {
    fn write(&self, offset: u64, new: &[u8]) -> Result<()> {
        let at = place_in_map(offset, new, self.len);
        let mut bytes = self.bytes.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        match bytes.get_mut(at..at + new.len()) {
            Some(place) => {
                place.copy_from_slice(new);
                Ok(())
            }
            None => Err(Error::new(ErrorKind::Io, "the mapped file was cut in memory")),
        }
    }
}
