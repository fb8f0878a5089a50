//! A handle on a table, and the check that it is still valid.

use crate::read::snapshot::Snapshot;
use crate::state::catalog::{Compression, RequestedLayout, TableRow};
use crate::state::store::Store;
use crate::state::ttl::{Reading, Ttl};
use base::{CommitTs, DatabaseId, Error, ErrorKind, Result, TableId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A handle of a table. Cloning is cheap. It is valid until the table is dropped or renamed, or until the transaction
/// that created or renamed the table is rolled back.
#[derive(Clone, Debug)]
pub struct Table {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: DatabaseId,
    name: String,
    row: TableRow,
    /// A commit as of which this exact row is known to be in the catalog; 0 for a table that is not committed yet.
    known_at: AtomicU64,
    /// Whether its transaction was rolled back, completely or to a savepoint before the handle. Its name, which another
    /// transaction may use again, then does not identify the table.
    is_undone: AtomicBool,
}

impl Table {
    fn new(store: &Store, name: &str, row: TableRow, known_at: CommitTs) -> Self {
        let (known_at, is_undone) = (AtomicU64::new(known_at.0), AtomicBool::new(false));
        let (database, name) = (store.database, name.to_owned());
        Table { inner: Arc::new(Inner { database, name, row, known_at, is_undone }) }
    }

    /// Returns a handle on a table that `snapshot` sees.
    pub(crate) fn committed(snapshot: &Snapshot, name: &str, row: TableRow) -> Self {
        Table::new(snapshot.store(), name, row, snapshot.ts())
    }

    /// Returns a handle on a table that only its own transaction sees so far.
    pub(crate) fn uncommitted(store: &Store, name: &str, row: TableRow) -> Self {
        Table::new(store, name, row, CommitTs(0))
    }

    /// Returns a handle that a look-up has to confirm.
    pub(crate) fn made(database: DatabaseId, name: &str, row: TableRow) -> Self {
        let (known_at, is_undone) = (AtomicU64::new(0), AtomicBool::new(false));
        Table { inner: Arc::new(Inner { database, name: name.to_owned(), row, known_at, is_undone }) }
    }

    /// Marks the handle as undone by its own transaction.
    pub(crate) fn undo(&self) {
        // Relaxed: no other data is read because of it.
        self.inner.is_undone.store(true, Ordering::Relaxed);
    }

    fn is_undone(&self) -> bool {
        // Relaxed: as where it is stored.
        self.inner.is_undone.load(Ordering::Relaxed)
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the id of the table, which is never reused.
    #[inline]
    pub fn id(&self) -> TableId {
        self.inner.row.id
    }

    /// Returns the layout of the table when this handle was opened.
    pub fn layout(&self) -> RequestedLayout {
        self.inner.row.layout
    }

    /// Returns how long entries lived when this handle was opened, or `None` if they do not expire, or if each has a
    /// TTL of its own.
    pub fn ttl(&self) -> Option<Duration> {
        self.inner.row.ttl?.duration()
    }

    /// Returns whether each entry of the table has a TTL of its own.
    pub fn has_ttl_by_key(&self) -> bool {
        self.inner.row.ttl.is_some_and(Ttl::is_by_key)
    }

    /// Returns the compression of leaves that merges of the table write, as of the opening of this handle.
    pub fn compression(&self) -> Compression {
        self.inner.row.compression
    }

    /// Returns the row as this handle has it.
    pub(crate) fn row(&self) -> TableRow {
        self.inner.row
    }

    /// Returns whether `other` is a handle of the same table under the same name.
    #[inline]
    pub(crate) fn is(&self, other: &Table) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (self.id() == other.id()
                && self.inner.database == other.inner.database
                && self.name() == other.name()
                && self.is_undone() == other.is_undone())
    }

    /// Checks that the table is in the catalog as `snapshot` sees it, and returns how `snapshot` reads its values. If
    /// no commit changed the catalog since this handle was last checked, that takes two comparisons; otherwise a
    /// look-up.
    #[inline]
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<Reading> {
        if self.is_known_to(snapshot) { Ok(self.reading(snapshot)) } else { self.look_up(snapshot) }
    }

    /// Returns how `snapshot`, which this handle is known to, reads the table's values.
    #[inline]
    pub(crate) fn reading(&self, snapshot: &Snapshot) -> Reading {
        Reading::at(self.inner.row.ttl, || snapshot.time_ms())
    }

    /// Returns whether no commit changed the catalog since this handle's row was found there, so that no look-up is
    /// needed.
    #[inline]
    pub(crate) fn is_known_to(&self, snapshot: &Snapshot) -> bool {
        let store = snapshot.store();
        let changed = store.catalog.newest().0;
        // Relaxed: only the value matters; it only ever moves to later points at which the row was found.
        let known_at = self.inner.known_at.load(Ordering::Relaxed);
        let same_database = self.inner.database == store.database;
        same_database && known_at != 0 && changed <= known_at && known_at <= snapshot.ts().0
    }

    #[cold]
    fn look_up(&self, snapshot: &Snapshot) -> Result<Reading> {
        self.check_database(snapshot.store())?;
        let row = snapshot.get_in(TableId::CATALOG, Reading::Plain, self.name().as_bytes())?;
        let found = self.check_row(row.as_deref())?;
        // A handle that is older than the table's TTL looks up the present TTL each time.
        let is_ours = found.ttl == self.inner.row.ttl;
        if is_ours && snapshot.store().catalog.newest() <= snapshot.ts() {
            // Relaxed: as where it is loaded.
            self.inner.known_at.store(snapshot.ts().0, Ordering::Relaxed);
        }
        Ok(Reading::at(found.ttl, || snapshot.time_ms()))
    }

    /// Checks the handle against a row of its name that a transaction over `snapshot` wrote itself; `None`: it deleted
    /// the row.
    pub(crate) fn check_written(&self, snapshot: &Snapshot, row: Option<&[u8]>) -> Result<Reading> {
        self.check_database(snapshot.store())?;
        let found = self.check_row(row)?;
        Ok(Reading::at(found.ttl, || snapshot.time_ms()))
    }

    fn check_database(&self, store: &Store) -> Result<()> {
        self.check_database_id(store.database)
    }

    pub(crate) fn check_database_id(&self, database: DatabaseId) -> Result<()> {
        if self.inner.database == database {
            return Ok(());
        }
        Err(Error::invalid(format!("table {:?} belongs to another database", self.name())))
    }

    /// Checks the row. The handle is stale if the table got a TTL after it was opened, because its bytes then mean
    /// something else.
    pub(crate) fn check_row(&self, row: Option<&[u8]>) -> Result<TableRow> {
        let found = row.map(|row| TableRow::decode(self.name().as_bytes(), row)).transpose()?;
        let is_same =
            |found: &TableRow| found.id == self.id() && found.ttl.is_some() == self.inner.row.ttl.is_some();
        if let Some(found) = found.filter(is_same).filter(|_| !self.is_undone()) {
            return Ok(found);
        }
        let message = format!(
            "table {:?} does not exist for this handle (it was dropped, renamed or given a TTL, its \
             creation was rolled back, or it is not visible yet); open the table again",
            self.name()
        );
        Err(Error::new(ErrorKind::Missing, message))
    }
}

#[cold]
pub(crate) fn not_by_key(table: &Table) -> Error {
    let name = table.name();
    Error::invalid(format!("entries of table {name:?} have no TTL of their own: create it with a TTL by key"))
}

/// A table that the transaction has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub id: TableId,
    /// Whether the snapshot has nothing of the table, so that it need not be searched.
    pub blank: bool,
    /// How the table's values are read.
    pub reading: Reading,
    /// Whether its row was found, and nothing that the transaction did since can have changed it.
    pub good: bool,
}
