//! Locks between processes: `flock`, which belongs to an open file and ends with it or with the process.
//!
//! A database has two locks. The lock file keeps processes apart while there is no data file yet, and holds the owner's
//! process id for messages. People delete lock files that look stale, and the next process then creates a new one. So
//! the data file is locked as well: deleting it deletes the database.

use super::{OsDir, id_of};
use crate::dir::check_name;
use crate::{Lock, holders};
use base::{Error, ErrorKind, Result};
use rustix::fs::OFlags;
use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How often an opener retries after it locked a file whose name was removed in the meantime.
const ATTEMPTS: u32 = 16;

/// The most digits of a process id.
const NOTE_BYTES: usize = 10;

/// The purpose of a file that is locked exclusively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A lock file: created if it is missing. It holds the owner's process id while it is locked.
    Note,
    /// A file whose bytes stay as they are.
    Data,
}

/// A file that is locked for as long as this lives.
#[derive(Debug)]
struct OsLock {
    handle: fs::File,
    owner: u32,
    has_note: bool,
}

/// The lock that is returned where there is no file to lock and none can be created.
#[derive(Debug)]
struct NothingToLock;

impl Lock for OsLock {}
impl Lock for NothingToLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        // After a fork the child has the same open file, and its lock belongs to the parent.
        if std::process::id() == self.owner {
            // The lock is released when the file is closed at the latest; only the removal of the note can fail here.
            if self.has_note {
                let _ = self.handle.set_len(0);
            }
            let _ = self.handle.unlock();
        }
    }
}

pub(super) fn exclusive(dir: &OsDir, name: &str, target: Target) -> Result<Box<dyn Lock>> {
    check_name(name)?;
    let flags = match target {
        Target::Note => OFlags::RDWR | OFlags::CREATE,
        Target::Data => OFlags::RDWR,
    };
    let handle = take(dir, name, flags, fs::File::try_lock)?;
    let owner = std::process::id();
    let has_note = target == Target::Note;
    if has_note {
        check_note(&dir.path.join(name), &handle)?;
        // The id is for messages alone. A full disk has no space for it, and must still be opened, to delete something.
        let _ = handle.set_len(0).and_then(|()| handle.write_all_at(owner.to_string().as_bytes(), 0));
    }
    Ok(Box::new(OsLock { handle, owner, has_note }))
}

/// Checks that a lock file holds nothing but a process id: the file of another program is not overwritten. After a loss
/// of power the id can be zero bytes.
fn check_note(path: &Path, handle: &fs::File) -> Result<()> {
    let mut bytes = [0; NOTE_BYTES + 1];
    let read = handle.read_at(&mut bytes, 0).map_err(|error| failed(path, error))?;
    if read <= NOTE_BYTES && bytes[..read].iter().all(|byte| byte.is_ascii_digit() || *byte == 0) {
        return Ok(());
    }
    let message = format!(
        "{} is not a lock file of Pando; move it elsewhere, or use another directory",
        path.display()
    );
    Err(Error::new(ErrorKind::Foreign, message))
}

/// Takes a shared lock. It writes nothing to the file, because a reader must not write.
pub(super) fn shared(dir: &OsDir, name: &str) -> Result<Box<dyn Lock>> {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    check_name(name)?;
    let is_missing = |error: &io::Error| error.kind() == NotFound;
    if open(dir, name, OFlags::RDONLY).is_err_and(|error| is_missing(&error)) {
        match dir.open_at(name, OFlags::RDWR | OFlags::CREATE) {
            Err(error) if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) => {
                return Ok(Box::new(NothingToLock));
            }
            Err(error) => return Err(failed(&dir.path.join(name), error)),
            Ok(_) => {}
        }
    }
    let handle = take(dir, name, OFlags::RDONLY, fs::File::try_lock_shared)?;
    Ok(Box::new(OsLock { handle, owner: std::process::id(), has_note: false }))
}

/// Opens a file to lock it. One of another user, which this process may only read, is locked as well. NFS grants an
/// exclusive lock only on a file that is open for writing, so that is tried first.
///
/// A name that leads to a pipe must not block: without the flag, opening one to read waits for a writer.
fn open(dir: &OsDir, name: &str, flags: OFlags) -> io::Result<fs::File> {
    let open_at = |flags| dir.open_at(name, flags | OFlags::NONBLOCK);
    match open_at(flags) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && flags == OFlags::RDWR => {
            open_at(OFlags::RDONLY)
        }
        opened => opened,
    }
}

/// Opens and locks the file of this name. If the file loses its name between the two steps, the next opener would lock
/// a different file. So only the lock of the file that still has the name counts.
fn take(
    dir: &OsDir,
    name: &str,
    flags: OFlags,
    try_lock: fn(&fs::File) -> std::result::Result<(), TryLockError>,
) -> Result<fs::File> {
    let path: PathBuf = dir.path.join(name);
    for _ in 0..ATTEMPTS {
        let handle = open(dir, name, flags).map_err(|error| failed(&path, error))?;
        check_regular(&path, &handle)?;
        match try_lock(&handle) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(&path, &handle)),
            Err(TryLockError::Error(error)) => return Err(failed(&path, error)),
        }
        let locked = handle.metadata().map_err(|error| failed(&path, error))?;
        if dir.look_up(name).map_err(|error| failed(&path, error))? == Some(id_of(&locked)) {
            return Ok(handle);
        }
    }
    Err(Error::new(
        ErrorKind::Io,
        format!("cannot lock {}: another process keeps deleting it", path.display()),
    ))
}

/// Checks that what is to be locked is a regular file: a pipe or a device can be locked, too, but is not ours.
fn check_regular(path: &Path, handle: &fs::File) -> Result<()> {
    if handle.metadata().map_err(|error| failed(path, error))?.is_file() {
        return Ok(());
    }
    let message =
        format!("{} is not a regular file; move it elsewhere, or use another directory", path.display());
    Err(Error::new(ErrorKind::Foreign, message))
}

#[cold]
fn failed(path: &Path, error: io::Error) -> Error {
    Error::io(format_args!("lock {}", path.display()), error)
}

#[cold]
fn held(path: &Path, handle: &fs::File) -> Error {
    let mut owners = holders::of(handle);
    if owners.is_empty() {
        owners.extend(written_owner(handle));
    }
    let (this, wait) = (std::process::id(), "wait until it closes the database, or end it");
    let owner = match owners.as_slice() {
        [] => format!("another process; {wait}"),
        [owner] if *owner == this => {
            format!(
                "process {owner}, which is this one; use the database where it is open, or close it there"
            )
        }
        [owner] => format!("process {owner}; {wait}"),
        [first, more @ ..] => format!("process {first} and {} more readers; {wait}", more.len()),
    };
    Error::new(ErrorKind::Locked, format!("{} is locked by {owner}", path.display()))
}

/// Returns the owner that the lock file names. It is right while the lock is an exclusive one. Other files hold no
/// number.
fn written_owner(handle: &fs::File) -> Option<u32> {
    let mut text = [0; NOTE_BYTES];
    let read = handle.read_at(&mut text, 0).unwrap_or(0);
    std::str::from_utf8(&text[..read]).ok()?.parse().ok()
}
