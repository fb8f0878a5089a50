//! Checks that the files of an open database are in place, and that no other process writes them.
//!
//! Locks keep other writers out. But a directory can be moved or deleted while a database in it is open, and some file
//! systems do not keep locks. So the store checks:
//!
//! 1. The path still leads to the directory, the data file and the newest log segment still have their names
//!    ([`io::Dir::check_in_place`]), and that segment still has its length. Otherwise no path leads to later commits.
//! 2. The directory holds no log segment that this log did not make. A process that opens a database which was not
//!    closed begins a new generation of the log, with a segment of its own.
//! 3. The superblock is the one that this store wrote last.
//!
//! | when | what |
//! |---|---|
//! | four times a second; when a log segment is made (`log`) | 1 |
//! | when a checkpoint begins; when the database is closed | 1, 2, 3 |
//! | before a checkpoint's space map, the last step that can be undone | 3 |
//!
//! A violation latches the database.

use crate::state::store::Store;
use crate::state::superblock::Superblock;
use base::{Error, ErrorKind, Result};
use io::File;

impl Store {
    /// Runs check 1: the database is still where it was opened. Call it four times a second. It costs six system calls.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] with what happened to the files, which latches; then [`ErrorKind::Latched`].
    pub fn check_in_place(&self) -> Result<()> {
        self.latch.check()?;
        let (segment, len_bytes) = self.log.current_segment();
        let whole = |segment: &dyn File| match segment.len()? {
            found if found < len_bytes => Err(cut(segment.name(), len_bytes, found)),
            _ => Ok(()),
        };
        let looked = self.dir.check_in_place(&[&*self.data, &*segment]).and_then(|()| whole(&*segment));
        looked.map_err(|cause| self.latch.set(cause))
    }

    /// Runs checks 1, 2 and 3. `last` is the superblock that this store wrote last.
    ///
    /// # Errors
    /// As [`Store::check_in_place`]; those of listing the directory and of reading the superblocks,
    /// which do not latch.
    pub(crate) fn check_ownership(&self, last: &Superblock) -> Result<()> {
        self.check_in_place()?;
        if let Some(name) = self.log.foreign_segment()? {
            return Err(self.latch.set(foreign(&format!("it created the log segment {name}"))));
        }
        self.check_superblock(last)
    }

    /// Runs check 3.
    ///
    /// # Errors
    /// As [`Store::check_ownership`].
    pub(crate) fn check_superblock(&self, last: &Superblock) -> Result<()> {
        if last.is_newest_in(&*self.data)? {
            return Ok(());
        }
        let what =
            format!("superblock {}, the last that this process wrote, was overwritten", last.checkpoint.0);
        Err(self.latch.set(foreign(&what)))
    }
}

#[cold]
fn cut(name: &str, expected: u64, found: u64) -> Error {
    let message =
        format!("{name} was truncated while the database was open: it had {expected} bytes, and has {found}");
    Error::new(ErrorKind::Io, message)
}

#[cold]
fn foreign(what: &str) -> Error {
    let message = format!(
        "another process changed the database while this process had it open for writing: {what}; close \
         the database in all processes, and open it again in one"
    );
    Error::new(ErrorKind::Io, message)
}
