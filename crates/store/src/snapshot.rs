//! A snapshot: one view, one timestamp, one slot that announces the view.

use crate::catalog::{TableRow, check_name};
use crate::handle::Table;
use crate::lease::Lease;
use crate::scan::{Cursor, Span};
use crate::store::Store;
use crate::view::{HeldView, Purpose, View};
use base::slots::Reader;
use base::{CommitTs, Error, Result, TableId};
use memtable::Found;
use page::Value;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// What was committed at one moment, for as long as this lives. `Send` but not `Sync`: another thread makes its
/// own with [`Snapshot::try_clone`].
#[derive(Debug)]
pub struct Snapshot {
    /// Always some; taken by `drop`.
    lease: Option<Box<Lease>>,
    view: HeldView,
    ts: CommitTs,
    not_sync: PhantomData<Cell<()>>,
}

impl Snapshot {
    /// A snapshot of now: of what is visible for a reader, of what is applied for a writer.
    #[inline]
    pub(crate) fn begin(store: &Arc<Store>, purpose: Purpose) -> Result<Self> {
        let lease = Lease::take(store)?;
        let (view, ts) = match purpose {
            Purpose::Read => store.views.acquire(lease.reader(), || store.clocks.visible(), purpose),
            Purpose::Write => store.views.acquire(lease.reader(), || store.clocks.applied(), purpose),
        };
        Ok(Snapshot { lease: Some(lease), view, ts, not_sync: PhantomData })
    }

    /// The last commit that it sees.
    #[inline]
    pub fn ts(&self) -> CommitTs {
        self.ts
    }

    #[inline]
    fn lease(&self) -> &Lease {
        self.lease.as_ref().expect("taken by drop alone")
    }

    /// The store.
    #[inline]
    pub(crate) fn store(&self) -> &Arc<Store> {
        self.lease().store()
    }

    #[inline]
    pub(crate) fn view(&self) -> &View {
        // SAFETY: the slot holds the view until `drop`, and the reference is bound to `&self`.
        unsafe { self.view.get() }
    }

    /// The right to look at pages through this snapshot's slot.
    #[inline]
    pub(crate) fn reader(&self) -> &Reader {
        self.lease().reader()
    }

    /// What the memtables know of `key`, newest first.
    #[inline]
    fn in_memtables(&self, table: TableId, key: &[u8]) -> Option<Found<'_>> {
        self.view().memtables().find_map(|memtable| memtable.get(table, key, self.ts))
    }

    /// A copy of the value of `key`.
    pub(crate) fn get_in(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.in_memtables(table, key) {
            Some(Found::Value(value)) => return Ok(Some(value.to_vec())),
            Some(Found::Deleted) => return Ok(None),
            None => {}
        }
        let pool = &self.store().pool;
        let reader = self.reader();
        let mut guard = reader.enter();
        let run = self.view().tables.run(table);
        let large = match run.get(pool, &mut guard, key)? {
            None => return Ok(None),
            Some(leaf) => match leaf.value() {
                Value::Inline(value) => return Ok(Some(value.to_vec())),
                Value::Large(large) => large,
                Value::Deleted => return Ok(None),
            },
        };
        drop(guard);
        Ok(Some(pool.read_extent(large.ptr, large.len_bytes as usize)?))
    }

    /// Runs `with` on the value of `key` where it lies. The page is pinned meanwhile, so that `with` may take its
    /// time: no user's code runs inside an epoch.
    pub(crate) fn get_with_in<T>(
        &self,
        table: TableId,
        key: &[u8],
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        match self.in_memtables(table, key) {
            Some(Found::Value(value)) => return Ok(Some(with(value))),
            Some(Found::Deleted) => return Ok(None),
            None => {}
        }
        let pool = &self.store().pool;
        let reader = self.reader();
        let mut guard = reader.enter();
        let run = self.view().tables.run(table);
        let Some(leaf) = run.get(pool, &mut guard, key)? else { return Ok(None) };
        let leaf = leaf.pin();
        drop(guard);
        match leaf.value() {
            Value::Inline(value) => Ok(Some(with(value))),
            Value::Large(large) => {
                let value = pool.read_extent(large.ptr, large.len_bytes as usize)?;
                Ok(Some(with(&value)))
            }
            Value::Deleted => Ok(None),
        }
    }

    /// Whether `key` is present.
    pub(crate) fn contains_in(&self, table: TableId, key: &[u8]) -> Result<bool> {
        match self.in_memtables(table, key) {
            Some(found) => Ok(matches!(found, Found::Value(_))),
            None => {
                let run = self.view().tables.run(table);
                if run.root.is_none() {
                    return Ok(false);
                }
                let reader = self.reader();
                let mut guard = reader.enter();
                Ok(run.get(&self.store().pool, &mut guard, key)?.is_some())
            }
        }
    }

    /// Whether nothing of `table` can be found: no memtable had it written and no run has pages.
    pub(crate) fn is_blank(&self, table: TableId) -> bool {
        let view = self.view();
        view.tables.run(table).root.is_none()
            && view.memtables().all(|memtable| memtable.newest(table).0 == 0)
    }

    /// A copy of the value of `key`.
    #[inline]
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        table.check(self)?;
        self.get_in(table.id(), key)
    }

    /// Runs `with` on the value of `key` where it lies.
    #[inline]
    pub fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        table.check(self)?;
        self.get_with_in(table.id(), key, with)
    }

    /// Whether `key` is present.
    #[inline]
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        table.check(self)?;
        self.contains_in(table.id(), key)
    }

    /// A cursor over the keys in `span`.
    pub fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        table.check(self)?;
        Ok(Cursor::over_snapshot(self, table.id(), span))
    }

    /// The table named `name`, if it exists.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        check_name(name)?;
        let row = self.get_in(TableId::CATALOG, name.as_bytes())?;
        row.map(|row| Ok(Table::committed(self, name, TableRow::decode(name.as_bytes(), &row)?))).transpose()
    }

    /// All tables, by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        let mut tables = Vec::new();
        let mut cursor = Cursor::over_snapshot(self, TableId::CATALOG, Span::all());
        while let Some((name, row)) = cursor.next()? {
            let row = TableRow::decode(name, row)?;
            let name =
                std::str::from_utf8(name).map_err(|_| Error::corruption("a table's name is not UTF-8"))?;
            tables.push(Table::committed(self, name, row));
        }
        Ok(tables)
    }

    /// About how many records the table has: exact for what a checkpoint absorbed, plus every entry of the
    /// memtables, a replaced or deleted one included.
    pub fn approximate_len(&self, table: &Table) -> Result<u64> {
        table.check(self)?;
        let in_memory: u64 = self.view().memtables().map(|memtable| memtable.records_of(table.id())).sum();
        Ok(self.view().tables.run(table.id()).records + in_memory)
    }

    /// A second snapshot of the same moment, for another thread. Possible at any time, because this one holds the
    /// view meanwhile.
    pub fn try_clone(&self) -> Result<Self> {
        let lease = Lease::take(self.store())?;
        lease.reader().pending();
        self.view.hold_too(lease.reader(), self.view());
        Ok(Snapshot { lease: Some(lease), view: self.view, ts: self.ts, not_sync: PhantomData })
    }
}

impl Drop for Snapshot {
    #[inline]
    fn drop(&mut self) {
        let lease = self.lease.take().expect("taken here alone");
        lease.reader().let_go();
        lease.keep();
    }
}
