//! The state that the commit lock guards.

use crate::state::reserve::Allowance;
use crate::state::view::SealedMemtable;
use base::{CommitTs, Lsn, TableId};
use memtable::{Memtable, Writer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The state that the commit lock guards.
#[derive(Debug)]
pub(crate) struct Committer {
    /// The right to write to the open memtable.
    pub writer: Writer,
    /// The open memtable.
    pub open: Arc<Memtable>,
    /// The log's position when the open memtable was opened.
    pub opened_at: Lsn,
    /// The length of the large values to which the open memtable refers, in bytes.
    pub large_bytes: u64,
    /// The last timestamp that was given.
    pub last: CommitTs,
    /// The sealed memtables against which a read-write transaction may still have to be validated, newest first.
    pub history: Vec<SealedMemtable>,
    /// The timestamp before which a transaction must not have begun, because it can no longer be validated.
    pub history_floor: CommitTs,
    /// The `Sync` commits that wait for their flush, oldest first, each with the log's end after it.
    pub unsynced: VecDeque<(CommitTs, Lsn)>,
    /// What was committed to each table since the database was opened.
    pub written: BTreeMap<TableId, Written>,
    /// The sum of what was committed to tables that were dropped, and that are no longer in `written`.
    pub written_to_dropped: Written,
    /// Whether every row of the catalog is known: the log was replayed to its end.
    pub may_drop: bool,
    /// The time by which the newest checkpoint drops expired entries.
    pub dropping_at_ms: u64,
    /// What may be committed before room on the disk is checked again.
    pub room: Allowance,
}

/// The number of commits to a table, and of the puts, deletes and range deletes in them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub commits: u64,
    pub operations: u64,
    /// The approximate bytes: what several tables share in a commit is divided by their operations.
    pub bytes: u64,
}

impl Committer {
    /// Creates a committer that continues after `last`.
    pub fn new(open: Arc<Memtable>, opened_at: Lsn, writer: Writer, last: CommitTs) -> Self {
        let (history, unsynced, written) = (Vec::new(), VecDeque::new(), BTreeMap::new());
        Committer {
            writer,
            open,
            opened_at,
            large_bytes: 0,
            last,
            history,
            history_floor: CommitTs(0),
            unsynced,
            written,
            written_to_dropped: Written::default(),
            may_drop: false,
            dropping_at_ms: 0,
            room: Allowance::default(),
        }
    }

    /// Returns the commit after which transactions may still have to be validated against attached runs. A transaction
    /// that is open since before such a commit reads the runs when it is validated, but its view does not have them: so
    /// their extents are kept as long as the history has them, also after a checkpoint has absorbed them.
    pub fn attached_after(&self) -> CommitTs {
        let mut attached = self.history.iter().filter(|sealed| sealed.attached.is_some());
        attached.next_back().map_or(CommitTs::MAX, |oldest| CommitTs(oldest.sealed_at.0 - 1))
    }
}
