//! The changes of the catalog: the last commit that made one, and the id of the next table.

use base::{CommitTs, Error, ErrorKind, Result, TableId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The changes of the catalog; see the module.
#[derive(Debug)]
pub(crate) struct CatalogChanges {
    newest: AtomicU64,
    next_table: AtomicU32,
}

impl CatalogChanges {
    /// Creates the state in which nothing is known to have changed after `newest`.
    pub fn new(newest: CommitTs, next_table: TableId) -> CatalogChanges {
        CatalogChanges { newest: AtomicU64::new(newest.0), next_table: AtomicU32::new(next_table.0) }
    }

    /// Returns the last commit that changed the catalog: a table's handle that was resolved at or after it is valid.
    #[inline]
    pub fn newest(&self) -> CommitTs {
        // SeqCst, partner `note`: a commit at or before a snapshot's timestamp is seen by the snapshot.
        CommitTs(self.newest.load(Ordering::SeqCst))
    }

    /// Notes that commit `ts` changes the catalog. It must be called before the commit is visible.
    pub fn note(&self, ts: CommitTs) {
        self.newest.fetch_max(ts.0, Ordering::SeqCst);
    }

    /// Notes an id that another database has given to a table: later ids are larger.
    pub fn pass_id(&self, id: TableId) {
        self.next_table.fetch_max(id.0.saturating_add(1), Ordering::SeqCst);
    }

    /// Returns the id of the next new table. An id is never returned twice, even if the transaction aborts.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] if all ids are used up.
    pub fn claim_id(&self) -> Result<TableId> {
        let claimed =
            self.next_table.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |id| id.checked_add(1));
        claimed.map(TableId).map_err(|_| {
            let message = "the database has used all table ids; copy its tables to a new database";
            Error::new(ErrorKind::Full, message)
        })
    }

    /// Returns the smallest id that no table has, nor any larger one.
    pub fn next_id(&self) -> TableId {
        TableId(self.next_table.load(Ordering::SeqCst))
    }
}
