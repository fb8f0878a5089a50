//! A directory through which nothing can be written.
//!
//! A database that is opened read-only uses it, so that correctness does not depend on each writer's care. A call that
//! would change a byte, a name or a length fails with [`ErrorKind::ReadOnly`], and an exclusive lock becomes a shared
//! one.

use crate::{Dir, File, FileId, Lock, LogMap};
use base::{Error, ErrorKind, Result};
use std::sync::Arc;

/// A read-only view of a directory.
///
/// ```
/// use pando_io::{Dir, MemDir, ReadOnlyDir};
/// use std::sync::Arc;
/// let dir = Arc::new(MemDir::new());
/// dir.create("data")?.write_at(b"aspen", 0)?;
/// let read_only = ReadOnlyDir::new(dir);
/// let refused = read_only.open("data")?.write_at(b"birch", 0).unwrap_err();
/// assert_eq!(refused.kind(), base::ErrorKind::ReadOnly);
/// # Ok::<(), base::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadOnlyDir {
    dir: Arc<dyn Dir>,
}

impl ReadOnlyDir {
    /// Creates a read-only view of `dir`.
    pub fn new(dir: Arc<dyn Dir>) -> ReadOnlyDir {
        ReadOnlyDir { dir }
    }
}

#[cold]
fn refused(what: std::fmt::Arguments<'_>) -> Error {
    Error::new(ErrorKind::ReadOnly, format!("cannot {what}: the database was opened read-only"))
}

impl Dir for ReadOnlyDir {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        Err(refused(format_args!("create {name}")))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(ReadOnlyFile { file: self.dir.open_to_read(name)? }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Err(refused(format_args!("rename {from} to {to}")))
    }

    fn remove(&self, name: &str) -> Result<()> {
        Err(refused(format_args!("remove {name}")))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.dir.list()
    }

    fn sync(&self) -> Result<()> {
        Err(refused(format_args!("sync the directory")))
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.dir.lock_shared(name)
    }

    fn lock_existing(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.dir.lock_shared(name)
    }

    fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.dir.lock_shared(name)
    }

    fn check_in_place(&self, files: &[&dyn File]) -> Result<()> {
        self.dir.check_in_place(files)
    }

    fn describe(&self) -> String {
        self.dir.describe()
    }
}

#[derive(Debug)]
struct ReadOnlyFile {
    file: Arc<dyn File>,
}

impl File for ReadOnlyFile {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        Err(refused(format_args!("write {} bytes at {offset} of {}", bytes.len(), self.name())))
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn id(&self) -> Result<FileId> {
        self.file.id()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        Err(refused(format_args!("set {len} as the length of {}", self.name())))
    }

    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        Err(refused(format_args!("allocate {len} bytes at {offset} of {}", self.name())))
    }

    fn sync(&self) -> Result<()> {
        Err(refused(format_args!("sync {}", self.name())))
    }

    fn map(&self, _len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        Ok(None)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        Err(refused(format_args!("discard {len} bytes at {offset} of {}", self.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDir;

    #[test]
    fn nothing_changes_and_readers_share() -> Result<()> {
        let dir = MemDir::new();
        dir.create("data")?.write_at(b"aspen", 0)?;
        let view = ReadOnlyDir::new(Arc::new(dir.clone()));
        let file = view.open("data")?;
        let refusals = [
            view.create("new").map(drop),
            view.rename("data", "new"),
            view.remove("data"),
            view.sync(),
            file.write_at(b"x", 0),
            file.set_len(0),
            file.allocate(9).map(drop),
            file.sync(),
            file.discard(0, 5),
        ];
        assert!(refusals.iter().all(|r| matches!(r, Err(e) if e.kind() == ErrorKind::ReadOnly)));
        assert!(file.map(5)?.is_none());
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0)?;
        assert_eq!((&bytes, view.list()?.len()), (b"aspen", 1));
        let held = (view.lock("lock")?, view.lock_shared("lock")?);
        assert_eq!(dir.lock("lock").map_err(|error| error.kind()).err(), Some(ErrorKind::Locked));
        drop(held);
        let owner = dir.lock("lock")?;
        assert_eq!(view.lock("lock").map_err(|error| error.kind()).err(), Some(ErrorKind::Locked));
        drop(owner);
        view.lock("lock").map(drop)
    }
}
