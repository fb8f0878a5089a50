//! Whether the files are still this store's own, and where its path leads.
//!
//! Locks keep other writers out. But a directory can be moved aside or deleted under an open database, and there are
//! ways around locks: file systems that do not keep them, a machine that resumes from an old image. So the store looks:
//!
//! 1. whether the path still leads to the directory, and the data file and the log's newest segment have their names
//!    ([`io::Dir::check_in_place`]), and that segment its length: otherwise nobody finds what is committed from now on;
//! 2. whether the directory has a log segment that this log did not make: whoever opens a database that was not closed
//!    begins a generation of its own;
//! 3. whether the superblock is the one that this store wrote last.
//!
//! It looks four times a second, at 1; where a segment is made ready, at 1 (`log`); at the beginning of a checkpoint,
//! at all three; before a checkpoint's space map, the last step that can be undone, at 3; when it closes, at all three.
//! Whatever it finds latches the database.

use crate::store::Store;
use crate::superblock::Superblock;
use base::{Error, ErrorKind, Result};
use io::File;

impl Store {
    /// Checks that the database is still where it was opened. To be called four times a second. Costs seven
    /// system calls.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] with what became of the files, which latches; then [`ErrorKind::Latched`].
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

    /// Checks all three. `last` is the superblock that this store wrote last.
    ///
    /// # Errors
    /// As [`Store::check_in_place`]; those of listing the directory and of reading the superblocks,
    /// which do not latch.
    pub(crate) fn check_ownership(&self, last: &Superblock) -> Result<()> {
        self.check_in_place()?;
        if let Some(name) = self.log.foreign_segment()? {
            return Err(self.latch.set(foreign(&format!("it has made the log segment {name}"))));
        }
        self.check_superblock(last)
    }

    /// Checks the third.
    ///
    /// # Errors
    /// As [`Store::check_ownership`].
    pub(crate) fn check_superblock(&self, last: &Superblock) -> Result<()> {
        if last.is_newest_in(&*self.data)? {
            return Ok(());
        }
        let what = format!("superblock {}, which this one wrote last, was overwritten", last.checkpoint.0);
        Err(self.latch.set(foreign(&what)))
    }
}

#[cold]
fn cut(name: &str, expected: u64, found: u64) -> Error {
    let message =
        format!("{name} was cut while the database was open: it had {expected} bytes, and has {found}");
    Error::new(ErrorKind::Io, message)
}

#[cold]
fn foreign(what: &str) -> Error {
    let message = format!(
        "another process has changed the database although this one has it open for writing: {what}; close \
         all but one, and open it again"
    );
    Error::new(ErrorKind::Io, message)
}
