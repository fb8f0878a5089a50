//! Databases that SQLite opens by the path of their directory, for the shared library.
//!
//! A process opens a directory once, and its connections share that. The last one that closes closes the database. All
//! of this happens under one lock, so that a connection is not opened while the last one closes.
//!
//! What is shared is a directory, not its path: programs delete a database while they have a connection to it, and make
//! a new one of the same name. The new connection is one to the new directory, as SQLite has it with files.
//!
//! What the user may only read is opened for reading, as SQLite does with a file. A second process cannot write: it
//! opens the database for reading, beside the first one. After a fork the child forgets what its parent had open, and
//! opens it as any other second process.

use crate::failure::{CANTOPEN, Failure, Outcome, cause};
use pando::{Database, Error, ErrorKind};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The end of the names of directories that are created where they do not exist.
const ENDING: &str = "pando";

/// What this process has open: the directory and whether it only reads, the database, and how many connections use it.
type Open = BTreeMap<(Directory, bool), (Database, usize)>;

/// What identifies a directory that exists: its device and its number there.
#[cfg(unix)]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Directory(u64, u64);

/// What identifies a directory that exists: its path.
#[cfg(not(unix))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Directory(std::path::PathBuf);

static OPEN: Mutex<Option<(u32, Open)>> = Mutex::new(None);

/// How often a database is opened for writing, if its writer each time ends before this process reads beside it.
const TRIES: usize = 3;

/// How SQLite opens a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How {
    pub is_read_only: bool,
    pub may_create: bool,
}

/// A use of a database that is open. Dropping the last one closes it.
#[derive(Debug)]
pub(crate) struct Shared {
    key: (Directory, bool),
    /// Whether the user may only read the database.
    pub is_forbidden: bool,
}

/// Returns whether a name is that of a directory for Pando: it is a directory, or ends in `.pando` and is no file.
pub(crate) fn is_ours(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_dir(),
        Err(_) => path.extension().is_some_and(|ending| ending == ENDING),
    }
}

/// Opens the database in a directory. If another process writes it, or if the user may only read it, this one reads it.
pub(crate) fn open(path: &Path, how: How) -> Outcome<(Database, Shared)> {
    let mut guard = lock();
    let open = of_this_process(&mut guard);
    for key in directory(path).iter().flat_map(|directory| candidates(directory, how)) {
        if let Some((db, uses)) = open.get_mut(&key) {
            *uses += 1;
            return Ok((db.clone(), Shared { key, is_forbidden: false }));
        }
    }
    let before = directory(path);
    let (db, right) = open_anew(path, how)?;
    // The directory may have been created just now.
    let opened = directory(path).filter(|now| before.as_ref().is_none_or(|before| before == now));
    let displaced =
        || Failure::new(CANTOPEN, format!("{} was deleted or replaced while it was opened", path.display()));
    let key = (opened.ok_or_else(displaced)?, right != Right::Write);
    let (db, uses) = open.entry(key.clone()).or_insert((db, 0));
    *uses += 1;
    Ok((db.clone(), Shared { key, is_forbidden: right == Right::ReadAlone }))
}

/// Returns what a connection can share. A reader of this process does not keep another connection from writing.
fn candidates(directory: &Directory, how: How) -> Vec<(Directory, bool)> {
    let all = if how.is_read_only { &[true, false][..] } else { &[false] };
    all.iter().map(|&is_read_only| (directory.clone(), is_read_only)).collect()
}

/// What a connection can do with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Write,
    /// It reads now, because another process writes, or because the program asks for no more.
    Read,
    /// The user may only read it.
    ReadAlone,
}

fn open_anew(path: &Path, how: How) -> Outcome<(Database, Right)> {
    if how.is_read_only {
        return Ok((Database::open_read_only(path).map_err(failed)?, Right::Read));
    }
    let is_named_ours = path.extension().is_some_and(|ending| ending == ENDING);
    let mut tries = 0;
    loop {
        let opened = match how.may_create && is_named_ours {
            true => {
                check_parent(path)?;
                Database::create(path)
            }
            false => Database::open(path),
        };
        match opened {
            Ok(db) => return Ok((db, Right::Write)),
            Err(error) if is_forbidden(&error) => {
                // If it cannot be read either, or does not exist, the first error says more.
                let db = Database::open_read_only(path).map_err(|_| failed(error))?;
                return Ok((db, Right::ReadAlone));
            }
            Err(error) if error.kind() != ErrorKind::Locked => return Err(failed(error)),
            Err(_) => {}
        }
        let db = Database::open_read_only(path).map_err(failed)?;
        // If nobody writes now, the writer has ended since.
        tries += 1;
        if db.is_beside_writer() || tries == TRIES {
            return Ok((db, Right::Read));
        }
    }
}

/// Checks that the directory exists in which a database is to be created, as SQLite does: a path with a mistake makes
/// no directories.
fn check_parent(path: &Path) -> Outcome<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) if !parent.is_dir() => {
            Err(Failure::new(CANTOPEN, format!("there is no directory {}", parent.display())))
        }
        _ => Ok(()),
    }
}

/// A directory without a database is one that cannot be opened, and so is one that the user may not open; other errors
/// keep their codes.
fn failed(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Missing => Failure::new(CANTOPEN, error.to_string()),
        _ if is_forbidden(&error) => Failure::new(CANTOPEN, error.to_string()),
        _ => error.into(),
    }
}

/// Returns whether the user may not do this: by the rights of the files, or because their file system is mounted for
/// reading only.
fn is_forbidden(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    cause(error).is_some_and(|cause| matches!(cause.kind(), PermissionDenied | ReadOnlyFilesystem))
}

/// Returns the directory that a path names now.
fn directory(path: &Path) -> Option<Directory> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).ok().map(|found| Directory(found.dev(), found.ino()))
    }
    #[cfg(not(unix))]
    {
        fs::canonicalize(path).ok().map(Directory)
    }
}

fn lock() -> MutexGuard<'static, Option<(u32, Open)>> {
    // The map is whole between its calls, so a panic elsewhere leaves nothing half done.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what this process has open. A forked child begins with nothing.
fn of_this_process(guard: &mut Option<(u32, Open)>) -> &mut Open {
    let this = std::process::id();
    if guard.as_ref().is_some_and(|&(process, _)| process != this) {
        // What the parent has open is not the child's to close.
        std::mem::forget(guard.take());
    }
    &mut guard.get_or_insert_with(|| (this, Open::new())).1
}

impl Shared {
    /// Returns whether a path names another directory, or none.
    pub(crate) fn has_moved(&self, path: &Path) -> bool {
        directory(path).as_ref() != Some(&self.key.0)
    }

    /// Uses the database once more.
    pub(crate) fn again(&self) -> Shared {
        let mut guard = lock();
        if let Some((_, uses)) = of_this_process(&mut guard).get_mut(&self.key) {
            *uses += 1;
        }
        Shared { key: self.key.clone(), is_forbidden: self.is_forbidden }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut guard = lock();
        let open = of_this_process(&mut guard);
        let Some((_, uses)) = open.get_mut(&self.key) else { return };
        *uses -= 1;
        if *uses == 0 {
            open.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{IOERR, READONLY};
    use crate::state::{Begin, State};

    #[test]
    fn what_cannot_be_opened_has_sqlites_code() {
        let of = |code| Error::io("open data", io::Error::from_raw_os_error(code));
        let code = |error: Error| failed(error.within("opening")).code;
        // EACCES, EROFS, ENFILE, EMFILE; EIO.
        assert_eq!([13, 30, 23, 24].map(|error| code(of(error))), [CANTOPEN; 4]);
        assert_eq!(code(of(5)), IOERR);
        // After it is open, a file that is missing is one that cannot be opened, and a right is not expected to change.
        assert_eq!([13, 24, 5].map(|error| Failure::from(of(error)).code), [IOERR, CANTOPEN, IOERR]);
        assert_eq!(code(Error::new(ErrorKind::Io, "outer").caused_by(of(24))), CANTOPEN);
    }

    #[cfg(unix)]
    #[test]
    fn a_database_that_the_user_may_only_read_is_opened_for_reading() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().expect("a directory for the test");
        let path = scratch.path().join("a.pando");
        let how = How { is_read_only: false, may_create: true };
        let name = path.to_str().expect("it is UTF-8");
        drop(State::in_directory(name, how).expect("it is created"));
        let allow = |mode: u32| {
            let files =
                fs::read_dir(&path).expect("it is there").map(|entry| entry.expect("an entry").path());
            for entry in files.chain([path.clone(), scratch.path().to_owned()]) {
                let mode = if entry.is_dir() { mode | 0o500 } else { mode | 0o400 };
                fs::set_permissions(&entry, fs::Permissions::from_mode(mode)).expect("it is ours");
            }
        };
        allow(0);
        if fs::write(scratch.path().join("probe"), "").is_ok() {
            eprintln!("skipped: the rights of files do not bind this user");
            return;
        }
        let created = State::in_directory(&name.replace("a.pando", "b.pando"), how);
        assert_eq!(created.expect_err("it cannot be created").code, CANTOPEN);
        let mut state = State::in_directory(name, how).expect("it can be read");
        assert!(state.is_read_only());
        let begin = Begin {
            is_write: true,
            is_autocommit: true,
            is_immediate: false,
            savepoints: 0,
            is_outermost: false,
            is_synced: true,
        };
        let failure = state.begin(begin).expect_err("it only reads");
        assert_eq!((failure.code, failure.message.contains("was opened read-only")), (READONLY, true));
        state.begin(Begin { is_write: false, ..begin }).expect("it reads");
        drop(state);
        allow(0o200);
        assert!(!State::in_directory(name, how).expect("it is opened").is_read_only());
    }
}
