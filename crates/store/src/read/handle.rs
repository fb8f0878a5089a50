//! A handle on a table, and how it is known to be good still.

use crate::read::snapshot::Snapshot;
use crate::state::catalog::{Compression, TableRow, WantedLayout};
use crate::state::store::Store;
use crate::state::ttl::Reading;
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
    /// A commit as of which this very row is known to be in the catalog; 0 for a table that is not committed yet.
    known_at: AtomicU64,
    /// Whether its transaction came to nothing, or went back behind what made this: then its name, which another
    /// transaction may give again, says nothing of what is there.
    is_undone: AtomicBool,
}

impl Table {
    fn new(store: &Store, name: &str, row: TableRow, known_at: CommitTs) -> Self {
        let (known_at, is_undone) = (AtomicU64::new(known_at.0), AtomicBool::new(false));
        let (database, name) = (store.database, name.to_owned());
        Table { inner: Arc::new(Inner { database, name, row, known_at, is_undone }) }
    }

    /// A handle on a table that `snapshot` sees.
    pub(crate) fn committed(snapshot: &Snapshot, name: &str, row: TableRow) -> Self {
        Table::new(snapshot.store(), name, row, snapshot.ts())
    }

    /// A handle on a table that only its own transaction sees so far.
    pub(crate) fn uncommitted(store: &Store, name: &str, row: TableRow) -> Self {
        Table::new(store, name, row, CommitTs(0))
    }

    /// What its own transaction made is undone.
    pub(crate) fn undo(&self) {
        // Relaxed: nothing else is read by it.
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
    pub fn layout(&self) -> WantedLayout {
        self.inner.row.layout
    }

    /// Returns how long entries lived when this handle was opened; `None`: they do not expire.
    pub fn ttl(&self) -> Option<Duration> {
        self.inner.row.ttl?.duration()
    }

    /// Returns how merges compress leaves of the table, when this handle was opened.
    pub fn compression(&self) -> Compression {
        self.inner.row.compression
    }

    /// The row as this handle has it.
    pub(crate) fn row(&self) -> TableRow {
        self.inner.row
    }

    /// Whether `other` is a handle of the same table under the same name.
    #[inline]
    pub(crate) fn is(&self, other: &Table) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (self.id() == other.id()
                && self.inner.database == other.inner.database
                && self.name() == other.name()
                && self.is_undone() == other.is_undone())
    }

    /// Checks that the table is in the catalog as `snapshot` sees it, and answers how that reads its values. If no
    /// commit touched the catalog since this handle was last checked, that is two comparisons; else a look-up.
    #[inline]
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<Reading> {
        if self.is_known_to(snapshot) { Ok(self.reading(snapshot)) } else { self.look_up(snapshot) }
    }

    /// How `snapshot`, which this handle is known to, reads the table's values.
    #[inline]
    pub(crate) fn reading(&self, snapshot: &Snapshot) -> Reading {
        Reading::at(self.inner.row.ttl, || snapshot.time_ms())
    }

    /// Whether no commit touched the catalog since this handle's row was found there, so that no look-up is needed.
    #[inline]
    pub(crate) fn is_known_to(&self, snapshot: &Snapshot) -> bool {
        let store = snapshot.store();
        let changed = store.catalog.newest().0;
        // Relaxed: the value alone matters; it only ever moves to later points at which the row was found.
        let known_at = self.inner.known_at.load(Ordering::Relaxed);
        let same_database = self.inner.database == store.database;
        same_database && known_at != 0 && changed <= known_at && known_at <= snapshot.ts().0
    }

    #[cold]
    fn look_up(&self, snapshot: &Snapshot) -> Result<Reading> {
        self.check_database(snapshot.store())?;
        let row = snapshot.get_in(TableId::CATALOG, Reading::Plain, self.name().as_bytes())?;
        let found = self.check_row(row.as_deref())?;
        // A handle that is older than the table's TTL looks up what that is now, each time.
        let is_ours = found.ttl == self.inner.row.ttl;
        if is_ours && snapshot.store().catalog.newest() <= snapshot.ts() {
            // Relaxed: as where it is loaded.
            self.inner.known_at.store(snapshot.ts().0, Ordering::Relaxed);
        }
        Ok(Reading::at(found.ttl, || snapshot.time_ms()))
    }

    /// Checks it against a row of its name that a transaction over `snapshot` wrote itself; `None`: that it deleted.
    pub(crate) fn check_written(&self, snapshot: &Snapshot, row: Option<&[u8]>) -> Result<Reading> {
        self.check_database(snapshot.store())?;
        let found = self.check_row(row)?;
        Ok(Reading::at(found.ttl, || snapshot.time_ms()))
    }

    fn check_database(&self, store: &Store) -> Result<()> {
        if self.inner.database == store.database {
            return Ok(());
        }
        Err(Error::invalid(format!("table {:?} belongs to another database", self.name())))
    }

    /// The handle is stale: the table has a TTL since, and its bytes mean something else.
    fn check_row(&self, row: Option<&[u8]>) -> Result<TableRow> {
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

/// A table that the transaction has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub id: TableId,
    /// The snapshot has nothing of it: a look-up need not go there.
    pub blank: bool,
    /// How its values are read.
    pub reading: Reading,
    /// Its row was found, and nothing that the transaction did since can have changed that.
    pub good: bool,
}
