//! Reads of one state of a remote store.

use crate::cursor::Span;
use crate::remote::cursor::RemoteCursor;
use crate::remote::reads::Reads;
use crate::remote::seam::{Mode, Most, Order, Store};
use crate::remote::shared_reads::shared_reads;
use base::{Result, TableId};
use std::sync::Arc;
use store::Table;

/// The largest page of tables.
const TABLES: Most = Most { records: 1000, bytes: 1 << 20 };

/// Reads that all see one state of a remote store. It is `Send`, but not `Sync`.
///
/// The first read decides which state the snapshot sees, and takes a connection, which the snapshot holds until it is
/// dropped. Drop it soon, because the store keeps old versions for it.
///
/// Each method that reads takes a round trip; a cursor takes one for each page of records. Each can fail with `Io` if
/// the connection is lost, with `SnapshotTooOld` if the store has ended the transaction, and with `Conflict` if no
/// serial order of the commits explains what was read. After a conflict take another snapshot, as
/// [`RemoteDatabase::read`](crate::remote::RemoteDatabase::read) does.
#[derive(Debug)]
#[must_use = "a snapshot does nothing by itself"]
pub struct RemoteSnapshot {
    reads: Reads,
}

impl RemoteSnapshot {
    pub(super) fn new(store: &Arc<dyn Store>) -> Self {
        RemoteSnapshot { reads: Reads::new(store, Mode::Snapshot) }
    }

    shared_reads!();

    /// Returns the values of `keys`, in their order, in one round trip. If the values reach `most_bytes`, the list ends
    /// with the value that reaches it, and can be shorter than `keys`; it has at least one value.
    pub fn multi_get_within<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: &[K],
        most_bytes: usize,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<_> = keys.iter().map(AsRef::as_ref).collect();
        self.reads.get_many(table, &keys, most_bytes)
    }

    /// Returns a cursor over `span`, positioned before its first record.
    pub fn cursor(&self, table: &Table, span: impl Into<Span>) -> Result<RemoteCursor<'_>> {
        let oldest = self.reads.admit(table)?;
        Ok(RemoteCursor::new(&self.reads, None, table.id(), oldest, span.into()))
    }

    /// Returns the table named `name`, or `None` if there is none.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty or too long; otherwise those of [`RemoteSnapshot`].
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        self.reads.table(name)
    }

    /// Returns all tables, ordered by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        let mut tables = Vec::new();
        let mut rest = Span::all();
        loop {
            let page = self.reads.fetch(TableId::CATALOG, &rest, Order::Forward, TABLES)?;
            for (name, row) in &page.records {
                tables.push(self.reads.found(name, row)?);
            }
            match page.records.last().filter(|_| !page.is_last) {
                Some((name, _)) => rest = rest.starting(std::ops::Bound::Excluded(name)),
                None => return Ok(tables),
            }
        }
    }
}
