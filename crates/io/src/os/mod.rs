//! Files and directories of the operating system.
//!
//! The system calls that keep each promise:
//!
//! | promise | Linux | macOS |
//! |---|---|---|
//! | [`File::sync`] | `fdatasync`: data, and the length | `fcntl(F_FULLFSYNC)`: `fsync` stops at the drive's cache |
//! | [`Dir::sync`] | `fsync` of the directory | `fcntl(F_FULLFSYNC)` of the directory |
//! | [`Dir::lock`] and its siblings | `flock`: belongs to the open file, dies with the process | the same |
//! | [`File::map`] | `mmap(MAP_SHARED)`; `fdatasync` covers what was stored | none: `fsync` need not cover stores |
//! | [`File::allocate`] | `fallocate`, where files may be mapped | none |
//! | [`File::discard`] | `fallocate(FALLOC_FL_PUNCH_HOLE)` | nothing |
//!
//! As locks belong to open files, two handles of one process exclude each other.
//!
//! Every name is resolved relative to the open directory (`openat`, `renameat`, `unlinkat`), never to the path by which
//! the directory was found: a directory that was moved aside keeps its files, and another one that took its path is
//! never touched. [`Dir::check_in_place`] distinguishes the two.
//!
//! Reading order: this file (directories), `file.rs` (open files), `lock.rs` (locks).

mod file;
mod lock;

use crate::dir::check_name;
use crate::file::FileId;
use crate::{Dir, File, Lock};
use base::{Error, ErrorKind, Result, background};
use file::OsFile;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of the operating system.
///
/// ```no_run
/// use pando_io::{Dir, OsDir};
/// let dir = OsDir::create("/var/lib/ledger")?;
/// let file = dir.create("data")?;
/// file.write_at(b"aspen", 0)?;
/// file.sync()?; // the bytes,
/// dir.sync()?; // and the name
/// # Ok::<(), base::Error>(())
/// ```
#[derive(Debug)]
pub struct OsDir {
    /// The path under which the directory was found: for messages, and to check whether it is still there.
    path: PathBuf,
    handle: fs::File,
    id: FileId,
}

impl OsDir {
    /// Opens a directory. [`ErrorKind::Missing`] if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<OsDir> {
        let given = path.as_ref();
        let failed = |error: io::Error| {
            let what = format!("open the directory {}", given.display());
            match error.kind() {
                io::ErrorKind::NotFound => {
                    Error::new(ErrorKind::Missing, format!("cannot {what}")).caused_by(error)
                }
                _ => Error::io(what, error),
            }
        };
        // The path is absolute from now on, because the process may change its working directory.
        let path = given.canonicalize().map_err(failed)?;
        let handle = fs::File::open(&path).map_err(failed)?;
        let metadata = handle.metadata().map_err(failed)?;
        if !metadata.is_dir() {
            return Err(Error::invalid(format!("{} is not a directory", given.display())));
        }
        Ok(OsDir { path, handle, id: id_of(&metadata) })
    }

    /// Opens a directory, after creating it and any missing parents. What was created is durable.
    pub fn create(path: impl AsRef<Path>) -> Result<OsDir> {
        let path = std::path::absolute(path.as_ref())
            .map_err(|error| Error::io(format_args!("find {}", path.as_ref().display()), error))?;
        let missing: Vec<&Path> = path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
        // A run that was killed between the two steps below may have left the lowest existing directory not yet
        // durable.
        if let Some(parent) = path.ancestors().nth(missing.len()).and_then(Path::parent) {
            sync_entries(parent).or_else(|error| if is_forbidden(&error) { Ok(()) } else { Err(error) })?;
        }
        for directory in missing.into_iter().rev() {
            match fs::create_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io(
                        format_args!("create the directory {}", directory.display()),
                        error,
                    ));
                }
                _ => directory.parent().map_or(Ok(()), sync_entries)?,
            }
        }
        OsDir::open(path)
    }

    /// Returns the path, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens `name` in this directory, even if the directory was moved.
    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<fs::File> {
        let mode = Mode::from_raw_mode(0o666); // less what the process's mask takes away
        Ok(retry_on_intr(|| openat(&self.handle, name, flags | OFlags::CLOEXEC, mode))?.into())
    }

    fn open_file(&self, name: &str, flags: OFlags, call: &str) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let path = self.path.join(name);
        match self.open_at(name, flags) {
            Ok(handle) => Ok(Arc::new(OsFile::new(name, path, handle))),
            Err(error) => Err(Error::io(format_args!("{call} {}", path.display()), error)),
        }
    }

    /// Returns the file that `name` leads to now, or `None` if there is no such name.
    fn look_up(&self, name: &str) -> io::Result<Option<FileId>> {
        match retry_on_intr(|| statat(&self.handle, name, AtFlags::empty())) {
            Ok(found) => Ok(Some(FileId { volume: found.st_dev, number: found.st_ino })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks whether the path still leads to this directory, and reports what happened to it if not. If this process
    /// may not look any longer, the check succeeds.
    fn check_path(&self) -> Result<()> {
        let path = self.path.display();
        match fs::metadata(&self.path) {
            Ok(found) if id_of(&found) == self.id => Ok(()),
            Ok(_) => Err(displaced(format!("another directory took the place of {path}"))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(displaced(format!("the directory {path} was moved or deleted")))
            }
            Err(_) => Ok(()),
        }
    }
}

impl Dir for OsDir {
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, "create")
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_file(name, OFlags::RDWR, "open")
    }

    fn open_to_read(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_file(name, OFlags::RDONLY, "open")
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        retry_on_intr(|| renameat(&self.handle, from, &self.handle, to)).map_err(|error| {
            let path = self.path.join(from);
            Error::io(format_args!("rename {} to {to}", path.display()), error.into())
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        // While the file is open, it keeps its disk space when its name is removed.
        let file = if background::is_throttled() { self.open_at(name, OFlags::WRONLY).ok() } else { None };
        retry_on_intr(|| unlinkat(&self.handle, name, AtFlags::empty())).map_err(|error| {
            Error::io(format_args!("remove {}", self.path.join(name).display()), error.into())
        })?;
        if let Some(file) = file {
            file::shrink(&file);
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |error: Errno| Error::io(format_args!("list {}", self.path.display()), error.into());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.handle).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_file = match entry.file_type() {
                FileType::RegularFile => true,
                // Some file systems do not say.
                FileType::Unknown => {
                    let found = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
                }
                _ => false,
            };
            // Names that are not UTF-8, and directories such as lost+found, are ignored.
            if is_file {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self) -> Result<()> {
        self.handle
            .sync_all()
            .map_err(|error| Error::io(format_args!("sync the directory {}", self.path.display()), error))
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Lock>> {
        lock::exclusive(self, name, lock::Target::Note)
    }

    fn lock_existing(&self, name: &str) -> Result<Box<dyn Lock>> {
        lock::exclusive(self, name, lock::Target::Data)
    }

    fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>> {
        lock::shared(self, name)
    }

    fn check_in_place(&self, files: &[&dyn File]) -> Result<()> {
        self.check_path()?;
        for file in files {
            let path = self.path.join(file.name());
            let found = self
                .look_up(file.name())
                .map_err(|error| Error::io(format_args!("find {}", path.display()), error))?;
            match found {
                Some(found) if found == file.id()? => {}
                Some(_) => {
                    return Err(displaced(format!("{} was replaced by another file", path.display())));
                }
                None => return Err(displaced(format!("{} was deleted or renamed", path.display()))),
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }
}

/// Returns an error that says what happened to an open database's files.
#[cold]
fn displaced(what: String) -> Error {
    let advice = "close the database, put its files back in place, and open it again";
    Error::new(ErrorKind::Io, format!("{what} while the database was open; {advice}"))
}

fn id_of(metadata: &fs::Metadata) -> FileId {
    FileId { volume: metadata.dev(), number: metadata.ino() }
}

fn sync_entries(directory: &Path) -> Result<()> {
    OsDir::open(directory)?.sync()
}

/// Returns whether `error` denies this process even a look: then it did not create anything there either.
fn is_forbidden(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::PermissionDenied)
}
