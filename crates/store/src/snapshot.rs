//! A snapshot: one view, one timestamp, one slot that announces the view.
//!
//! 1. Every look at the view is a call of the slot ([`Reader::begin_call`]): between calls the view may be revoked.
//! 2. What a call found in a memtable it shows to a user's code inside the call; a page it pins instead, which does
//!    without the view.

use crate::catalog::{TableRow, check_name};
use crate::handle::Table;
use crate::lease::Lease;
use crate::scan::{Cursor, Span};
use crate::spill;
use crate::store::Store;
use crate::tables::Tables;
use crate::value_reader::{Located, ValueReader};
use crate::view::{HeldView, Purpose, View};
use base::latency::{Cause, SAMPLE_EVERY};
use base::seams::Stopwatch;
use base::slots::{Aside, EpochGuard, Reader};
use base::{CommitTs, Error, ErrorKind, Result, TableId};
use memtable::Found;
use page::Value;
use run::{Leaf, PinnedRecord};
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr;
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
    #[track_caller]
    pub(crate) fn begin(store: &Arc<Store>, purpose: Purpose) -> Result<Self> {
        let lease = Lease::take(store)?;
        lease.reader().introduce(store.now_ms(), Location::caller());
        let (view, ts) = match purpose {
            Purpose::Read => store.views.acquire(lease.reader(), || store.clocks.visible(), purpose),
            Purpose::Write => store.views.acquire(lease.reader(), || store.clocks.applied(), purpose),
        };
        lease.reader().note_ts(ts.0);
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

    /// Begins a call, during which the view stays.
    #[inline]
    pub(crate) fn call(&self) -> Result<EpochGuard<'_>> {
        self.store().check_process()?;
        self.reader().begin_call().ok_or_else(too_old)
    }

    /// Refuses what would look at the view, or depend on what it saw, once it was revoked.
    #[inline]
    pub(crate) fn check_held(&self) -> Result<()> {
        if self.reader().is_revoked() { Err(too_old()) } else { self.store().check_process() }
    }

    #[inline]
    pub(crate) fn view<'g>(&'g self, call: &'g EpochGuard<'_>) -> &'g View {
        // SAFETY: the slot holds the view until `drop`, and `call`, which `Snapshot::call` began, outlives the
        // reference.
        unsafe { self.view.get(call) }
    }

    /// The view, and a call that lasts as long as what is returned with it.
    ///
    /// # Safety
    /// Nothing of the view is used when the [`Aside`] is dropped.
    pub(crate) unsafe fn keep_view(&self) -> Result<(&View, Aside<'_>)> {
        let call = self.call()?;
        // SAFETY: the call is the slot's own, and the caller promises the rest.
        Ok(unsafe { self.view.keep(call) })
    }

    /// The right to look at pages through this snapshot's slot.
    #[inline]
    pub(crate) fn reader(&self) -> &Reader {
        self.lease().reader()
    }

    /// What the memtables of `view` know of `key`, newest first.
    #[inline]
    pub(crate) fn in_memtables<'v>(&self, view: &'v View, table: TableId, key: &[u8]) -> Option<Found<'v>> {
        view.memtables().find_map(|memtable| memtable.get(table, key, self.ts))
    }

    /// The record of `key` in the runs of the view that `call` keeps.
    #[inline]
    pub(crate) fn in_runs<'g>(
        &'g self,
        call: &'g mut EpochGuard<'_>,
        table: TableId,
        key: &[u8],
    ) -> Result<Option<Leaf<'g>>> {
        let tables: *const Tables = &*self.view(call).tables;
        // SAFETY: the call lasts longer than this function, and the view as long as the call: in its epoch, and while
        // it has left that to wait for a page, when the slot says that it is aside, which `reclaim` heeds. No reference
        // to the view leaves this function.
        let tables = unsafe { &*tables };
        tables.find(table, &self.store().pool, call, key)
    }

    /// Where the value of `key` is, in a view that has attached runs between its memtables.
    fn locate_through(&self, view: &View, table: TableId, key: &[u8]) -> Result<Option<Located>> {
        let (ts, pool, reader) = (self.ts, &self.store().pool, self.reader());
        let mut found = view.open.memtable.get(table, key, ts);
        for sealed in &view.sealed {
            found = found.or_else(|| sealed.memtable.get(table, key, ts));
            if found.is_some() {
                break;
            }
            if let Some(record) = spill::find(sealed.attached_for(table, ts), pool, reader, key)? {
                return Ok(record.as_ref().and_then(located));
            }
        }
        match found {
            Some(Found::Value(value)) => return Ok(Some(Located::Bytes(value.to_vec()))),
            Some(Found::Large(large)) => return Ok(Some(Located::Large(large))),
            Some(Found::Deleted) => return Ok(None),
            None => {}
        }
        let mut guard = reader.enter();
        let record = view.tables.find(table, pool, &mut guard, key)?.map(|leaf| leaf.pin());
        drop(guard);
        Ok(record.as_ref().and_then(located))
    }

    /// Runs `with` on the value of `key`, likewise.
    #[cold]
    fn get_through<T>(&self, table: TableId, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        // SAFETY: nothing of the view is used after this has returned, when `_aside` goes.
        let (view, _aside) = unsafe { self.keep_view()? };
        match self.locate_through(view, table, key)? {
            Some(Located::Bytes(value)) => Ok(Some(with(&value))),
            Some(Located::Large(large)) => self.store().read_large(large).map(|value| Some(with(&value))),
            None => Ok(None),
        }
    }

    /// Counts a look-up. Answers whether it is one of those that are timed.
    #[inline]
    pub(crate) fn count_get(&self, table: TableId) -> bool {
        self.reader().count_get(table).is_multiple_of(SAMPLE_EVERY)
    }

    /// Copies the value and times that: unless it read from the disk, which is counted there.
    #[cold]
    #[inline(never)]
    fn copy_timed(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let store = self.store();
        let in_memtable = {
            let call = self.call()?;
            self.in_memtables(self.view(&call), table, key).is_some()
        };
        let (faults, watch) = (store.pool.stats().faults, Stopwatch::start());
        let got = self.copy_of(table, key)?;
        let ns = watch.elapsed_ns();
        if store.pool.stats().faults == faults {
            store.slots.latencies.record(if in_memtable { Cause::Memtable } else { Cause::PoolHit }, ns);
        }
        Ok(got)
    }

    /// A copy of the value of `key`.
    pub(crate) fn get_in(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.count_get(table) {
            return self.copy_timed(table, key);
        }
        self.copy_of(table, key)
    }

    /// Inlined into both: what is returned is three words that would else be moved once more.
    #[inline(always)]
    fn copy_of(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut call = self.call()?;
        let view = self.view(&call);
        if view.has_attached {
            drop(call);
            return self.get_through(table, key, <[u8]>::to_vec);
        }
        match self.in_memtables(view, table, key) {
            Some(Found::Value(value)) => return Ok(Some(value.to_vec())),
            Some(Found::Large(large)) => {
                let _aside = call.aside();
                return self.store().read_large(large).map(Some);
            }
            Some(Found::Deleted) => return Ok(None),
            None => {}
        }
        let large = match self.in_runs(&mut call, table, key)? {
            None => return Ok(None),
            Some(leaf) => match leaf.value() {
                Value::Inline(value) => return Ok(Some(value.to_vec())),
                Value::Large(large) => large,
                Value::Deleted => return Ok(None),
            },
        };
        let _aside = call.aside();
        self.store().read_large(large).map(Some)
    }

    /// Runs `with` on the value of `key` where it lies. The page is pinned meanwhile, so that `with` may take its
    /// time: no user's code runs inside an epoch.
    pub(crate) fn get_with_in<T>(
        &self,
        table: TableId,
        key: &[u8],
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.count_get(table);
        let mut call = self.call()?;
        let view = self.view(&call);
        if view.has_attached {
            drop(call);
            return self.get_through(table, key, with);
        }
        match self.in_memtables(view, table, key) {
            Some(Found::Value(value)) => {
                // SAFETY: the value lies in a memtable of the view, which `_aside` keeps until `with` has returned.
                let value = unsafe { &*ptr::from_ref(value) };
                let _aside = call.aside();
                return Ok(Some(with(value)));
            }
            Some(Found::Large(large)) => {
                let aside = call.aside();
                let value = self.store().read_large(large)?;
                drop(aside);
                return Ok(Some(with(&value)));
            }
            Some(Found::Deleted) => return Ok(None),
            None => {}
        }
        let Some(leaf) = self.in_runs(&mut call, table, key)? else { return Ok(None) };
        let leaf = leaf.pin();
        match leaf.value() {
            Value::Inline(value) => {
                drop(call);
                Ok(Some(with(value)))
            }
            Value::Large(large) => {
                let aside = call.aside();
                let value = self.store().read_large(large)?;
                drop(aside);
                Ok(Some(with(&value)))
            }
            Value::Deleted => Ok(None),
        }
    }

    /// Whether `key` is present.
    pub(crate) fn contains_in(&self, table: TableId, key: &[u8]) -> Result<bool> {
        self.count_get(table);
        let mut call = self.call()?;
        let view = self.view(&call);
        if view.has_attached {
            drop(call);
            return Ok(self.locate_in(table, key)?.is_some());
        }
        match self.in_memtables(view, table, key) {
            Some(found) => Ok(found != Found::Deleted),
            None => Ok(self.in_runs(&mut call, table, key)?.is_some()),
        }
    }

    /// Where the value of `key` is; its bytes, if they are at hand.
    pub(crate) fn locate_in(&self, table: TableId, key: &[u8]) -> Result<Option<Located>> {
        self.count_get(table);
        let mut call = self.call()?;
        let view = self.view(&call);
        if view.has_attached {
            drop(call);
            // SAFETY: nothing of the view is used after this has returned, when `_aside` goes.
            let (view, _aside) = unsafe { self.keep_view()? };
            return self.locate_through(view, table, key);
        }
        match self.in_memtables(view, table, key) {
            Some(Found::Value(value)) => return Ok(Some(Located::Bytes(value.to_vec()))),
            Some(Found::Large(large)) => return Ok(Some(Located::Large(large))),
            Some(Found::Deleted) => return Ok(None),
            None => {}
        }
        let leaf = self.in_runs(&mut call, table, key)?;
        Ok(leaf.and_then(|leaf| match leaf.value() {
            Value::Inline(value) => Some(Located::Bytes(value.to_vec())),
            Value::Large(large) => Some(Located::Large(large)),
            Value::Deleted => None,
        }))
    }

    /// Whether nothing of `table` can be found: no memtable had it written and no run has pages.
    pub(crate) fn is_blank(&self, table: TableId) -> Result<bool> {
        let call = self.call()?;
        let view = self.view(&call);
        Ok(view.tables.get(table).is_none()
            && view.memtables().all(|memtable| memtable.newest(table).0 == 0)
            && view.sealed.iter().all(|sealed| sealed.attached_for(table, CommitTs::MAX).is_empty()))
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

    /// A reader of the value of `key`, for values that are not to be held in memory whole.
    pub fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        table.check(self)?;
        let located = self.locate_in(table.id(), key)?;
        located.map(|located| ValueReader::new(located, self, None)).transpose()
    }

    /// The length of the value of `key`, in bytes. A value outside the pages is not read.
    pub fn value_len(&self, table: &Table, key: &[u8]) -> Result<Option<u64>> {
        table.check(self)?;
        Ok(self.locate_in(table.id(), key)?.map(|located| located.len_bytes()))
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
        Cursor::over_snapshot(self, table.id(), span)
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
        let mut cursor = Cursor::over_snapshot(self, TableId::CATALOG, Span::all())?;
        while let Some((name, row)) = cursor.next()? {
            let row = TableRow::decode(name, row)?;
            let name =
                std::str::from_utf8(name).map_err(|_| Error::corruption("a table's name is not UTF-8"))?;
            tables.push(Table::committed(self, name, row));
        }
        Ok(tables)
    }

    /// About how many records the table has: exact for what a checkpoint absorbed into a B+tree, plus every entry of
    /// the memtables and of an LSM table's runs, a replaced or deleted one included.
    pub fn approximate_len(&self, table: &Table) -> Result<u64> {
        table.check(self)?;
        let call = self.call()?;
        let view = self.view(&call);
        let in_memory: u64 = view.memtables().map(|memtable| memtable.records_of(table.id())).sum();
        let attached = view.sealed.iter().flat_map(|sealed| sealed.attached_for(table.id(), self.ts));
        let attached: u64 = attached.map(|delta| delta.records.records).sum();
        let (above, lowest) = view.tables.layers(table.id());
        let stacked: u64 = above.iter().map(|entry| entry.delta.records.records).sum();
        Ok(lowest.records + stacked + attached + in_memory)
    }

    /// A second snapshot of the same moment, for another thread. Possible at any time, because this one holds the
    /// view meanwhile.
    #[track_caller]
    pub fn try_clone(&self) -> Result<Self> {
        let store = self.store();
        let lease = Lease::take(store)?;
        let call = self.call()?;
        lease.reader().introduce(store.now_ms(), Location::caller());
        store.views.hold_too(self.view, &call, lease.reader());
        lease.reader().note_ts(self.ts.0);
        Ok(Snapshot { lease: Some(lease), view: self.view, ts: self.ts, not_sync: PhantomData })
    }
}

#[cold]
fn too_old() -> Error {
    let message = "it was open too long for the memory or the space that it kept, and what it saw is gone; \
                   begin again, and read in shorter pieces or raise the limit it met: memory_bytes, \
                   max_pinned_space_bytes or max_snapshot_age";
    Error::new(ErrorKind::SnapshotTooOld, message)
}

impl Drop for Snapshot {
    #[inline]
    fn drop(&mut self) {
        let lease = self.lease.take().expect("taken here alone");
        lease.reader().let_go();
        lease.keep();
    }
}

/// Where the value of a record is; `None` if the record says that there is none.
fn located(record: &PinnedRecord) -> Option<Located> {
    match record.value() {
        Value::Inline(value) => Some(Located::Bytes(value.to_vec())),
        Value::Large(large) => Some(Located::Large(large)),
        Value::Deleted => None,
    }
}
