//! Changes of the catalog: when the last one was committed, and which id the next table gets.

use base::{CommitTs, TableId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct CatalogChanges {
    newest: AtomicU64,
    next_table: AtomicU32,
}

impl CatalogChanges {
    /// Nothing is known to have changed after `newest`.
    pub fn new(newest: CommitTs, next_table: TableId) -> CatalogChanges {
        CatalogChanges { newest: AtomicU64::new(newest.0), next_table: AtomicU32::new(next_table.0) }
    }

    /// The last commit that changed the catalog: a table's handle that was resolved at or after it is good.
    #[inline]
    pub fn newest(&self) -> CommitTs {
        // SeqCst, partner `note`: a commit at or before a snapshot's timestamp is seen by the snapshot.
        CommitTs(self.newest.load(Ordering::SeqCst))
    }

    /// The commit `ts` changes the catalog. Before it is visible.
    pub fn note(&self, ts: CommitTs) {
        self.newest.fetch_max(ts.0, Ordering::SeqCst);
    }

    /// Notes an id that another database has given to a table: later ones are after it.
    pub fn pass_id(&self, id: TableId) {
        self.next_table.fetch_max(id.0.saturating_add(1), Ordering::SeqCst);
    }

    /// The id of the next new table. Never given twice, also not when the transaction that asked aborts.
    pub fn claim_id(&self) -> TableId {
        TableId(self.next_table.fetch_add(1, Ordering::SeqCst))
    }

    /// The id that no table has been given, nor any after it.
    pub fn next_id(&self) -> TableId {
        TableId(self.next_table.load(Ordering::SeqCst))
    }
}
