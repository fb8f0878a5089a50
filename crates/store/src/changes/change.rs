//! One commit, as a reader of changes sees it.

use super::guard::Guard;
use super::operations::Operations;
use crate::state::names::{Names, TableChange};
use base::op::{Decoder, Op};
use base::{CommitTs, DatabaseId};
use std::sync::Arc;

/// The facts about a commit besides its record.
#[derive(Debug)]
pub(super) struct Current {
    pub number: CommitTs,
    pub time_ms: u64,
    pub tables: Vec<TableChange>,
    /// The names of tables as of this commit.
    pub names: Arc<Names>,
}

/// The committed transaction at which a [`Feed`](super::Feed) stands.
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

    /// Returns when the commit was made, in milliseconds since 1970, by the database's time. 0 means that the time is
    /// unknown: the database had not had a reader of changes since it was opened.
    pub fn time_ms(&self) -> u64 {
        self.current.time_ms
    }

    /// Returns the id of the database.
    pub fn database(&self) -> DatabaseId {
        self.guard.store.database
    }

    /// Returns the fork of the database: 0 until it is restored from a backup, and another number after each restore.
    pub fn fork(&self) -> u32 {
        self.fork
    }

    /// Returns the changes that the commit made to whole tables.
    pub fn tables(&self) -> &'f [TableChange] {
        &self.current.tables
    }

    /// Returns whether the transaction was so large that parts of it were written before its commit. Then the
    /// operations can have a key several times.
    pub fn is_in_parts(&self) -> bool {
        let first = Decoder::begin(self.record).and_then(|mut operations| operations.next());
        matches!(first, Some((_, Op::Attach { .. })))
    }

    /// Returns the operations: first the changes of whole tables, then, table by table, range deletes, puts and
    /// deletes. Applied in this order they lead to the state after the commit. A key that a large transaction wrote
    /// several times can occur several times: the last operation counts.
    ///
    /// # Errors
    /// Those of reading what the record refers to.
    pub fn operations(&self) -> base::Result<Operations<'f>> {
        Operations::begin(*self)
    }
}
