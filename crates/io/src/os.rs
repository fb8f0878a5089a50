//! Files and directories of the operating system.
//!
//! Which call keeps which promise:
//!
//! | promise | Linux | macOS |
//! |---|---|---|
//! | [`File::sync`] | `fdatasync`: data, and the length | `fcntl(F_FULLFSYNC)`: `fsync` stops at the drive's cache |
//! | [`Dir::sync`] | `fsync` of the directory | `fcntl(F_FULLFSYNC)` of the directory |
//! | [`Dir::lock`], [`Dir::lock_shared`] | `flock`: belongs to the open file, dies with the process | the same |
//! | [`File::map`] | `mmap(MAP_SHARED)`; `fdatasync` covers what was stored | none: `fsync` need not cover stores |
//! | [`File::allocate`] | `fallocate`, where files may be mapped | none |
//! | [`File::discard`] | `fallocate(FALLOC_FL_PUNCH_HOLE)` | nothing |
//!
//! As locks belong to open files, two handles of one process exclude each other.
//!
//! The standard library makes the first three choices (`sync_data`, `sync_all`, `try_lock`), and repeats calls that
//! a signal interrupted.

use crate::dir::check_name;
use crate::file::{LONGEST_FILE_BYTES, checked_end};
use crate::{Dir, File, Lock, LogMap, holders};
use base::sync::atomic::{AtomicU64, Ordering};
use base::{Error, ErrorKind, Result, leisure};
use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// After so many bytes written the disk begins.
const WRITEBACK_BYTES: u64 = 1 << 20;
/// What one call writes at most, if there is time.
const PIECE_BYTES: usize = 64 << 10;

/// A directory of the operating system.
///
/// ```no_run
/// use io::{Dir, OsDir};
/// let dir = OsDir::create("/var/lib/ledger")?;
/// let file = dir.create("data")?;
/// file.write_at(b"aspen", 0)?;
/// file.sync()?; // the bytes,
/// dir.sync()?; // and the name
/// # Ok::<(), base::Error>(())
/// ```
#[derive(Debug)]
pub struct OsDir {
    path: PathBuf,
    handle: fs::File,
}

impl OsDir {
    /// Opens a directory. [`ErrorKind::Missing`] if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<OsDir> {
        let given = path.as_ref();
        let failed = |error| refused(format_args!("open the directory {}", given.display()), error);
        // Absolute from now on: the process may change its working directory.
        let path = given.canonicalize().map_err(failed)?;
        if !path.is_dir() {
            return Err(Error::invalid(format!("{} is not a directory", given.display())));
        }
        let handle = fs::File::open(&path).map_err(failed)?;
        Ok(OsDir { path, handle })
    }

    /// Opens a directory, after creating it and its parents where they are missing. What was created is durable.
    pub fn create(path: impl AsRef<Path>) -> Result<OsDir> {
        let path = std::path::absolute(path.as_ref())
            .map_err(|error| refused(format_args!("find {}", path.as_ref().display()), error))?;
        let missing: Vec<&Path> = path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
        // A run that was killed between the two steps below may have left the lowest one that is there.
        if let Some(parent) = path.ancestors().nth(missing.len()).and_then(Path::parent) {
            sync_entries(parent).or_else(|error| if is_forbidden(&error) { Ok(()) } else { Err(error) })?;
        }
        for directory in missing.into_iter().rev() {
            match fs::create_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(refused(format_args!("create the directory {}", directory.display()), error));
                }
                _ => directory.parent().map_or(Ok(()), sync_entries)?,
            }
        }
        OsDir::open(path)
    }

    /// The path, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_with(&self, options: &OpenOptions, call: &str, name: &str) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let path = self.path.join(name);
        let handle =
            options.open(&path).map_err(|error| refused(format_args!("{call} {}", path.display()), error))?;
        Ok(Arc::new(OsFile { name: name.into(), path, handle, written: AtomicU64::new(0) }))
    }
}

impl Dir for OsDir {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_with(OpenOptions::new().read(true).write(true).create_new(true), "create", name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_with(OpenOptions::new().read(true).write(true), "open", name)
    }

    fn open_to_read(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_with(OpenOptions::new().read(true), "open", name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let (from, to) = (self.path.join(from), self.path.join(to));
        fs::rename(&from, &to)
            .map_err(|error| refused(format_args!("rename {} to {}", from.display(), to.display()), error))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let path = self.path.join(name);
        // Open, it keeps its room when its name goes.
        let file = if leisure::has_time() { OpenOptions::new().write(true).open(&path).ok() } else { None };
        fs::remove_file(&path).map_err(|error| refused(format_args!("remove {}", path.display()), error))?;
        if let Some(file) = file {
            shrink(&file);
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |error| refused(format_args!("list {}", self.path.display()), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Names that are not UTF-8, and directories such as lost+found, are nobody's here.
            if entry.file_type().map_err(failed)?.is_file() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self) -> Result<()> {
        self.handle
            .sync_all()
            .map_err(|error| refused(format_args!("sync the directory {}", self.path.display()), error))
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>> {
        check_name(name)?;
        Ok(Box::new(OsLock::take(&self.path.join(name))?))
    }

    fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>> {
        check_name(name)?;
        share(&self.path.join(name))
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }
}

fn sync_entries(directory: &Path) -> Result<()> {
    OsDir::open(directory)?.sync()
}

/// Whether this process may not even look: then it did not create anything there either.
fn is_forbidden(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::PermissionDenied)
}

/// What the system answered to `what`, with the kinds that callers tell apart.
#[cold]
fn refused(what: std::fmt::Arguments<'_>, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(ErrorKind::Missing, format!("cannot {what}")).caused_by(error),
        io::ErrorKind::AlreadyExists => {
            Error::new(ErrorKind::Exists, format!("cannot {what}")).caused_by(error)
        }
        _ => Error::io(what, error),
    }
}

/// A lock file that is never removed (whoever waits to open it must find the same one); its content is the owner's
/// process id while it is held, for the message alone.
#[derive(Debug)]
struct OsLock {
    handle: fs::File,
    owner: u32,
}

impl OsLock {
    fn take(path: &Path) -> Result<OsLock> {
        let failed = |error| refused(format_args!("lock {}", path.display()), error);
        let handle = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match handle.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path, &handle)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let owner = std::process::id();
        handle.set_len(0).map_err(failed)?;
        handle.write_all_at(owner.to_string().as_bytes(), 0).map_err(failed)?;
        Ok(OsLock { handle, owner })
    }
}

impl Lock for OsLock {}

/// A lock that others may have too. It says nothing in the file: that would be a write.
#[derive(Debug)]
struct OsSharedLock {
    handle: fs::File,
    owner: u32,
}

/// What stands for a lock where there is no file to lock and none can be made.
#[derive(Debug)]
struct NothingToLock;

impl Lock for OsSharedLock {}
impl Lock for NothingToLock {}

impl Drop for OsSharedLock {
    fn drop(&mut self) {
        // As with an exclusive one: a forked child must not give up what its parent holds.
        if std::process::id() == self.owner {
            let _ = self.handle.unlock();
        }
    }
}

fn share(path: &Path) -> Result<Box<dyn Lock>> {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    let failed = |error| refused(format_args!("lock {}", path.display()), error);
    let handle = match OpenOptions::new().read(true).open(path) {
        Ok(handle) => handle,
        Err(error) if error.kind() == NotFound => {
            match OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path) {
                Ok(handle) => handle,
                Err(error) if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) => {
                    return Ok(Box::new(NothingToLock));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Err(error) => return Err(failed(error)),
    };
    match handle.try_lock_shared() {
        Ok(()) => Ok(Box::new(OsSharedLock { handle, owner: std::process::id() })),
        Err(TryLockError::WouldBlock) => Err(held(path, &handle)),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        // After a fork the child has the same open file: the lock is its parent's to give up.
        if std::process::id() == self.owner {
            // The lock is given up when the file is closed at the latest; only the courtesy can fail here.
            let _ = self.handle.set_len(0);
            let _ = self.handle.unlock();
        }
    }
}

#[cold]
fn held(path: &Path, handle: &fs::File) -> Error {
    let owner = match holders::of(handle).as_slice() {
        [] => {
            written_owner(handle).map_or_else(|| "another process".into(), |owner| format!("process {owner}"))
        }
        [owner] => format!("process {owner}"),
        [first, more @ ..] => format!("process {first} and {} more that read it", more.len()),
    };
    Error::new(ErrorKind::Locked, format!("{} is held by {owner}: close that one first", path.display()))
}

/// The owner that the lock file names: right as long as the lock is an exclusive one.
fn written_owner(handle: &fs::File) -> Option<u32> {
    let mut text = [0; 10];
    let read = handle.read_at(&mut text, 0).unwrap_or(0);
    std::str::from_utf8(&text[..read]).ok()?.parse().ok()
}

/// Gives a nameless file's room back bit by bit, with pauses: while the file system frees 64 MiB at once, and tells the
/// disk, whoever flushes another file waits for 12 ms. What is not done here is when the file is closed. A file that
/// somebody has linked to is his, and stays as it is.
fn shrink(file: &fs::File) {
    let Ok(metadata) = file.metadata() else { return };
    let mut left = if metadata.nlink() == 0 { metadata.len() } else { 0 };
    while left > WRITEBACK_BYTES {
        left -= WRITEBACK_BYTES;
        if file.set_len(left).is_err() {
            return;
        }
        leisure::pause();
    }
}

/// How much of so many bytes one call writes. Whoever has time writes them bit by bit: the kernel copies what it is
/// given in one go, into pages of memory that it may have to find first.
fn bytes_at_once(bytes: usize) -> usize {
    if bytes > PIECE_BYTES && leisure::has_time() { PIECE_BYTES } else { bytes.max(1) }
}

#[derive(Debug)]
struct OsFile {
    name: String,
    path: PathBuf,
    handle: fs::File,
    /// Bytes written since the file was opened.
    written: AtomicU64,
}

impl OsFile {
    /// Has the disk begin with every [`WRITEBACK_BYTES`] that were written, so that the sync at the end of a long write
    /// finds little left to do, and whoever else waits for the disk waits behind little: work that has time lets the
    /// disk rest behind each.
    fn note_written(&self, bytes: u64) {
        // Relaxed: a count that orders nothing.
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        if before / WRITEBACK_BYTES != (before + bytes) / WRITEBACK_BYTES {
            self.begin_sync();
            leisure::pause();
        }
    }

    #[cold]
    fn failed(&self, call: std::fmt::Arguments<'_>, error: io::Error) -> Error {
        refused(format_args!("{call} of {}", self.path.display()), error)
    }
}

impl File for OsFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if offset.saturating_add(buffer.len() as u64) > LONGEST_FILE_BYTES {
            return Ok(0); // no file reaches so far, but the system would call it an invalid argument
        }
        let mut filled = 0;
        while filled < buffer.len() {
            match self.handle.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(self.failed(format_args!("read {} bytes at {offset}", buffer.len()), error));
                }
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        checked_end(&self.name, offset, bytes.len() as u64)?;
        let mut at = offset;
        for piece in bytes.chunks(bytes_at_once(bytes.len())) {
            if at > offset {
                leisure::pause();
            }
            self.handle
                .write_all_at(piece, at)
                .map_err(|error| self.failed(format_args!("write {} bytes at {at}", piece.len()), error))?;
            at += piece.len() as u64;
        }
        self.note_written(bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        let metadata =
            self.handle.metadata().map_err(|error| self.failed(format_args!("find the length"), error))?;
        Ok(metadata.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        checked_end(&self.name, 0, len)?;
        self.handle.set_len(len).map_err(|error| self.failed(format_args!("set {len} as the length"), error))
    }

    #[cfg(target_os = "linux")]
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        checked_end(&self.name, offset, len)?;
        let failed = |error| self.failed(format_args!("allocate {len} bytes at {offset}"), error);
        // Copy-on-write file systems reserve room for the first write alone, if at all.
        if len == 0 || !crate::map::is_safe_on(&self.handle).map_err(failed)? {
            return Ok(false);
        }
        match rustix::io::retry_on_intr(|| fallocate(&self.handle, FallocateFlags::empty(), offset, len)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(failed(error.into())),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate_at(&self, _offset: u64, _len: u64) -> Result<bool> {
        Ok(false)
    }

    fn room_bytes(&self) -> Result<Option<u64>> {
        let found = rustix::fs::fstatvfs(&self.handle)
            .map_err(|error| self.failed(format_args!("find the free room"), error.into()))?;
        Ok(Some(found.f_bavail.saturating_mul(found.f_frsize)))
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync_data().map_err(|error| self.failed(format_args!("sync the data"), error))
    }

    #[cfg(target_os = "linux")]
    fn begin_sync(&self) {
        crate::writeback::begin(&self.handle);
    }

    #[cfg(target_os = "linux")]
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        if len > self.len()? {
            return Err(Error::invalid(format!(
                "{} is shorter than a mapping of {len} bytes",
                self.path.display()
            )));
        }
        let failed = |error| self.failed(format_args!("map {len} bytes"), error);
        if len == 0 || !crate::map::is_safe_on(&self.handle).map_err(failed)? {
            return Ok(None);
        }
        Ok(Some(Arc::new(crate::map::SharedMap::new(&self.handle, len).map_err(failed)?)))
    }

    #[cfg(not(target_os = "linux"))]
    fn map(&self, _len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        Ok(None)
    }

    #[cfg(target_os = "linux")]
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        if len == 0 {
            return Ok(());
        }
        checked_end(&self.name, offset, len)?;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::io::retry_on_intr(|| fallocate(&self.handle, punch, offset, len)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.failed(format_args!("discard {len} bytes at {offset}"), error.into())),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn discard(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }
}
