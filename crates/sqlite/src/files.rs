//! Databases that SQLite opens by the path of their directory, for the shared library.
//!
//! A process opens a directory once, and its connections share that. The last one that closes closes the database. All
//! of this happens under one lock, so that a connection is not opened while the last one closes.
//!
//! What is shared is a directory, not its path: programs delete a database while they have a connection to it, and make
//! a new one of the same name. The new connection is one to the new directory, as SQLite has it with files.
//!
//! A second process cannot write: it opens the database for reading, beside the first one. After a fork the child
//! forgets what its parent had open, and opens it as any other second process.

use crate::failure::{CANTOPEN, Failure, Outcome};
use pando::{Database, ErrorKind};
use std::collections::BTreeMap;
use std::fs;
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
}

/// Returns whether a name is that of a directory for Pando: it is a directory, or ends in `.pando` and is no file.
pub(crate) fn is_ours(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_dir(),
        Err(_) => path.extension().is_some_and(|ending| ending == ENDING),
    }
}

/// Opens the database in a directory. If another process writes it, this one reads it.
pub(crate) fn open(path: &Path, how: How) -> Outcome<(Database, Shared)> {
    let mut guard = lock();
    let open = of_this_process(&mut guard);
    for key in directory(path).iter().flat_map(|directory| candidates(directory, how)) {
        if let Some((db, uses)) = open.get_mut(&key) {
            *uses += 1;
            return Ok((db.clone(), Shared { key }));
        }
    }
    let before = directory(path);
    let (db, is_read_only) = open_anew(path, how)?;
    // The directory may have been created just now.
    let opened = directory(path).filter(|now| before.as_ref().is_none_or(|before| before == now));
    let displaced =
        || Failure::new(CANTOPEN, format!("{} was deleted or replaced while it was opened", path.display()));
    let key = (opened.ok_or_else(displaced)?, is_read_only);
    let (db, uses) = open.entry(key.clone()).or_insert((db, 0));
    *uses += 1;
    Ok((db.clone(), Shared { key }))
}

/// Returns what a connection can share. A reader of this process does not keep another connection from writing.
fn candidates(directory: &Directory, how: How) -> Vec<(Directory, bool)> {
    let all = if how.is_read_only { &[true, false][..] } else { &[false] };
    all.iter().map(|&is_read_only| (directory.clone(), is_read_only)).collect()
}

fn open_anew(path: &Path, how: How) -> Outcome<(Database, bool)> {
    if how.is_read_only {
        return Ok((Database::open_read_only(path).map_err(failed)?, true));
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
            Ok(db) => return Ok((db, false)),
            Err(error) if error.kind() != ErrorKind::Locked => return Err(failed(error)),
            Err(_) => {}
        }
        let db = Database::open_read_only(path).map_err(failed)?;
        // If nobody writes now, the writer has ended since.
        tries += 1;
        if db.is_beside_writer() || tries == TRIES {
            return Ok((db, true));
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

/// A directory without a database is one that cannot be opened; other errors keep their codes.
fn failed(error: pando::Error) -> Failure {
    match error.kind() {
        ErrorKind::Missing => Failure::new(CANTOPEN, error.to_string()),
        _ => error.into(),
    }
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

/// Returns what this process has open. After a fork that is nothing.
fn of_this_process(guard: &mut Option<(u32, Open)>) -> &mut Open {
    let this = std::process::id();
    if guard.as_ref().is_some_and(|&(process, _)| process != this) {
        // What the parent has open is not the child's to close.
        std::mem::forget(guard.take());
    }
    &mut guard.get_or_insert_with(|| (this, Open::new())).1
}

impl Shared {
    /// Uses the database once more.
    pub(crate) fn again(&self) -> Shared {
        let mut guard = lock();
        if let Some((_, uses)) = of_this_process(&mut guard).get_mut(&self.key) {
            *uses += 1;
        }
        Shared { key: self.key.clone() }
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
