//! The check that what a feed reads is still kept for it.

use crate::state::feeds::Hold;
use crate::state::store::Store;
use base::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The store that is read, and the hold that keeps its data.
#[derive(Debug)]
pub(super) struct Guard {
    pub store: Arc<Store>,
    pub hold: Arc<Hold>,
}

impl Guard {
    /// Returns an error if the data may have been freed.
    pub fn check(&self) -> Result<()> {
        self.store.check_open()?;
        // A writer in another process may have come since: this process's log does not contain what it writes.
        self.store.processes.check_not_beside("following the changes", "Database::changes")?;
        if self.hold.is_revoked() { Err(self.too_old()) } else { Ok(()) }
    }

    /// Discards the result of a read if the data may have been replaced meanwhile.
    pub fn judge<T>(&self, read: Result<T>) -> Result<T> {
        if read.is_err() {
            self.check()?;
        }
        read
    }

    #[cold]
    fn too_old(&self) -> Error {
        let (most, last) = (self.store.max_changes_bytes, self.hold.held().last.0);
        let oldest = self
            .store
            .oldest_feed()
            .map_or_else(|_| String::new(), |oldest| format!(" of commit {oldest} or later"));
        let message = format!(
            "the changes after commit {last} are no longer kept: more than {most} bytes waited for this \
             reader; begin again with a copy of the database{oldest}"
        );
        Error::new(ErrorKind::TooOld, message)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.store.feeds.leave(&self.hold);
    }
}
