//! What the commit lock guards.

use crate::state::room::Credit;
use crate::state::view::SealedMemtable;
use base::{CommitTs, Lsn, TableId};
use memtable::{Memtable, Writer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the commit lock guards.
#[derive(Debug)]
pub(crate) struct Committer {
    /// The right to write to the open memtable.
    pub writer: Writer,
    /// The open memtable.
    pub open: Arc<Memtable>,
    /// Where the log was when it was opened.
    pub opened_at: Lsn,
    /// The last timestamp given.
    pub last: CommitTs,
    /// Sealed memtables that a read-write transaction may still have to be validated against, newest first.
    pub history: Vec<SealedMemtable>,
    /// Transactions that began before this can no longer be validated.
    pub history_floor: CommitTs,
    /// `Sync` commits whose flush has not come yet, oldest first, each with the log's end behind it.
    pub unsynced: VecDeque<(CommitTs, Lsn)>,
    /// What was committed since the database was opened, by table.
    pub written: BTreeMap<TableId, Written>,
    /// Whether every row of the catalog is known: the log was replayed to its end.
    pub may_drop: bool,
    /// The time by which the newest checkpoint drops what has expired.
    pub dropping_at_ms: u64,
    /// What may be committed before room on the disk is seen to again.
    pub room: Credit,
}

/// Commits to a table, and the puts, deletes and range deletes in them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub commits: u64,
    pub operations: u64,
    /// About: what several tables share in a commit goes to each by its operations.
    pub bytes: u64,
}

impl Committer {
    /// A committer that goes on from `last`.
    pub fn new(open: Arc<Memtable>, opened_at: Lsn, writer: Writer, last: CommitTs) -> Self {
        let (history, unsynced, written) = (Vec::new(), VecDeque::new(), BTreeMap::new());
        Committer {
            writer,
            open,
            opened_at,
            last,
            history,
            history_floor: CommitTs(0),
            unsynced,
            written,
            may_drop: false,
            dropping_at_ms: 0,
            room: Credit::default(),
        }
    }
}
