//! The directory of a database, and the files in it.
//!
//! The contract of every implementation of the trait:
//!
//! 1. The process sees every call at once. A power loss sees a create, rename or remove only if [`Dir::sync`]
//!    returned after it; [`File::sync`] makes a file's bytes durable, never its name.
//! 2. Creates, renames and removes since the last sync may be lost one by one, in any combination.
//! 3. A rename replaces its target in one step: no crash leaves neither of the two.
//! 4. Handles outlive names: a file that was removed or replaced stays readable and writable through its handles.
//! 5. A directory is what was opened, not its path: when it is moved, its files move with it.
//!
//! Opening a file that does not exist fails with [`ErrorKind::Io`](base::ErrorKind::Io), not with `Missing`, and
//! creating one that exists does not fail with `Exists`. Those two kinds describe tables and keys, and a commit that
//! cannot write its log must not look like one of them. A caller that expects a file to be absent reads [`Dir::list`]
//! first.

use crate::File;
use base::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// A flat directory of files. Names are plain: not empty, no separator, not `.` or `..`; others are
/// [`ErrorKind::Invalid`](base::ErrorKind::Invalid).
pub trait Dir: Send + Sync + Debug {
    /// Creates an empty file, open for reading and writing. [`ErrorKind::Io`](base::ErrorKind::Io) if the name is
    /// taken.
    fn create(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens a file for reading and writing. [`ErrorKind::Io`](base::ErrorKind::Io) if there is none.
    fn open(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens a file for reading alone, which needs no right to write; calls that write may fail.
    /// [`ErrorKind::Io`](base::ErrorKind::Io) if there is none.
    fn open_to_read(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open(name)
    }

    /// Renames a file and replaces any file of the new name. [`ErrorKind::Io`](base::ErrorKind::Io) if there is no
    /// `from`. Open handles keep the name that they were opened under.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a name. [`ErrorKind::Io`](base::ErrorKind::Io) if there is none.
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the names of all files, sorted.
    fn list(&self) -> Result<Vec<String>>;

    /// Makes every create, rename and remove before this call durable.
    fn sync(&self) -> Result<()>;

    /// Takes the exclusive lock `name` without waiting. The lock ends when the [`Lock`] is dropped or the process ends.
    /// [`ErrorKind::Locked`](base::ErrorKind::Locked), with the owner's process id, if the lock is taken, even by
    /// another handle in this process.
    fn lock(&self, name: &str) -> Result<Box<dyn Lock>>;

    /// Takes the exclusive lock of the existing file `name`, and leaves its bytes unchanged. Otherwise the same as
    /// [`Dir::lock`].
    fn lock_existing(&self, name: &str) -> Result<Box<dyn Lock>>;

    /// Takes the lock `name` in shared mode: it excludes [`Dir::lock`], but no other shared holder. Otherwise the same
    /// as [`Dir::lock`]. Changes no file. If there is no file to lock and none can be created, for example on a
    /// read-only file system, it succeeds and excludes nothing.
    fn lock_shared(&self, name: &str) -> Result<Box<dyn Lock>>;

    /// Checks that the path by which the directory was opened still leads to it, and that each of `files`, opened here,
    /// still has its name. Costs one system call, and two for each file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](base::ErrorKind::Io), with what happened to the directory or the file. Data written after that
    /// may be unreachable by any path.
    fn check_in_place(&self, files: &[&dyn File]) -> Result<()>;

    /// Returns the name of this directory for messages: its path.
    fn describe(&self) -> String;
}

/// A lock, exclusive or shared, released when dropped.
pub trait Lock: Send + Sync + Debug {}

/// Rejects a name that is not a plain file name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(Error::invalid(format!("{name:?} is not a plain file name")));
    }
    Ok(())
}

/// The holders of a lock that is kept in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holders {
    /// One exclusive holder.
    Owner,
    /// The number of shared holders.
    Readers(usize),
}

impl Holders {
    /// Adds `who` to the holders of the lock `name`. Returns whether that was possible.
    pub fn join<K: Ord>(locks: &mut BTreeMap<K, Holders>, name: K, who: Holders) -> bool {
        match (locks.get_mut(&name), who) {
            (None, who) => locks.insert(name, who).is_none(),
            (Some(Holders::Readers(count)), Holders::Readers(more)) => {
                *count += more;
                true
            }
            (Some(_), _) => false,
        }
    }

    /// Removes one holder of the lock `name`.
    pub fn leave<K: Ord>(locks: &mut BTreeMap<K, Holders>, name: &K) {
        match locks.get_mut(name) {
            Some(Holders::Readers(count)) if *count > 1 => *count -= 1,
            _ => drop(locks.remove(name)),
        }
    }
}
