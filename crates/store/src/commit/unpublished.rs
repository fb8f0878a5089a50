//! Failures of a commit's append, and between the append and the publication.
//!
//! From the append on, memory and log may differ: a memtable may have only a part of the commit, and the log has all of
//! it. Errors latch where they occur. A panic latches here, while the commit lock is still held: no other commit is
//! appended, and each checkpoint looks at the latch after it has sealed the memtables that it absorbs.

use crate::state::store::Store;
use base::{Error, ErrorKind, Lsn};

impl Store {
    /// Handles a failed append. Another commit may have taken the room that this one reserved. If making more fails,
    /// nothing was written, and only this commit fails; a failed write latches.
    #[cold]
    pub(super) fn append_failed(&self, cause: Error) -> Error {
        let is_refused = cause.kind() == ErrorKind::Latched;
        let cause = self.latch_if_written(cause);
        if self.log.is_latched() && !is_refused { indeterminate(&cause) } else { cause }
    }

    /// Sets the latch because an append failed with `cause`, and returns `cause`. If nothing was written, and the
    /// append may be repeated, the latch is left alone.
    #[cold]
    pub(crate) fn latch_if_written(&self, cause: Error) -> Error {
        let is_repeatable = cause.kind() != ErrorKind::Latched && !self.log.is_latched();
        if is_repeatable { cause } else { self.latch.set(cause) }
    }
}

#[cold]
pub(super) fn indeterminate(cause: &Error) -> Error {
    let message = "the disk failed while the commit was being written; open the database again and read \
                   back whether the commit is there";
    Error::new(ErrorKind::Indeterminate, message).caused_by(cause.to_string())
}

/// A commit that was appended to the log and is not published yet.
#[derive(Debug)]
#[must_use = "dropping it latches the store"]
pub(crate) struct Unpublished<'s> {
    store: &'s Store,
    end: Lsn,
}

impl<'s> Unpublished<'s> {
    /// Begins to guard a commit whose record ends at `end`.
    #[inline]
    pub fn new(store: &'s Store, end: Lsn) -> Self {
        Unpublished { store, end }
    }

    /// Returns the LSN after the record.
    #[inline]
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Ends the guard: the commit is published.
    #[inline]
    pub fn published(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unpublished<'_> {
    #[cold]
    fn drop(&mut self) {
        let message = format!(
            "a commit panicked after its record was appended to the log before LSN {}; close the database \
             and open it again",
            self.end
        );
        let cause = Error::new(ErrorKind::Latched, message);
        // A commit that waits for the commit lock has looked at the store's latch already.
        self.store.stop_writing(cause.duplicate());
        self.store.log.stop(&cause);
    }
}
