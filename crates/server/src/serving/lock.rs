//! The lock that allows one server for each directory. It ends with the process, even if that is killed.

use pando::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// The file that is locked. It holds the id of the process that has the lock, for messages.
const NAME: &str = "server.lock";

/// The lock of a directory, held until this is dropped.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    /// Locks the directory.
    ///
    /// # Errors
    /// `Locked` if another server has locked it.
    pub fn take(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        let failed = |what: &str| {
            let what = format!("{what} {}", path.display());
            move |error| Error::io(what, error)
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = (&mut file).take(32).read_to_string(&mut owner);
                let message = format!(
                    "{} is already served by another server (process {}); stop that one first",
                    dir.display(),
                    owner.trim()
                );
                return Err(Error::new(ErrorKind::Locked, message));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(failed("write"))?;
        Ok(DirLock { _file: file })
    }
}
