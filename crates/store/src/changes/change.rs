//! One commit, as those who follow the changes see it.

use super::guard::Guard;
use super::operations::Operations;
use crate::state::names::{Names, TableChange};
use base::{CommitTs, DatabaseId};
use std::sync::Arc;

/// What is known of a commit besides its record.
#[derive(Debug)]
pub(super) struct Current {
    pub number: CommitTs,
    pub time_ms: u64,
    pub tables: Vec<TableChange>,
    /// As of this commit.
    pub names: Arc<Names>,
}

/// One committed transaction, at which a [`Feed`](super::Feed) stands.
#[derive(Clone, Copy, Debug)]
pub struct Change<'f> {
    pub(super) guard: &'f Guard,
    pub(super) fork: u32,
    pub(super) record: &'f [u8],
    pub(super) current: &'f Current,
}

impl<'f> Change<'f> {
    /// Returns the number of the commit. Numbers have no gaps.
    pub fn commit_number(&self) -> u64 {
        self.current.number.0
    }

    /// Returns when the commit was made, in milliseconds since 1970, by the time of the database. 0: that is not known,
    /// because nobody had followed the changes since the database was opened.
    pub fn time_ms(&self) -> u64 {
        self.current.time_ms
    }

    /// Returns the id of the database.
    pub fn database(&self) -> DatabaseId {
        self.guard.store.database
    }

    /// Returns the fork of the database: 0 until it was restored from a backup, and then another with each restore.
    pub fn fork(&self) -> u32 {
        self.fork
    }

    /// Returns what the commit did to tables as a whole.
    pub fn tables(&self) -> &'f [TableChange] {
        &self.current.tables
    }

    /// Returns the operations: first the changes of tables as wholes, then, table by table, range deletes, puts and
    /// deletes. Repeated in this order they lead to the state after the commit. A key that a large transaction wrote
    /// several times can occur several times: the last counts.
    ///
    /// # Errors
    /// Those of reading what the record names.
    pub fn operations(&self) -> base::Result<Operations<'f>> {
        Operations::begin(*self)
    }
}
