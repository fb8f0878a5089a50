//! A snapshot: one view, one timestamp, one slot that announces the view.
//!
//! 1. Every look at the view is a call of the slot ([`Reader::begin_call`]): between calls the view may be revoked.
//! 2. What a call found in a memtable it shows to a user's code inside the call; a page it pins instead, which does
//!    without the view.

use crate::read::handle::Table;
use crate::read::located::Located;
use crate::state::catalog::{TableRow, check_name};
use crate::state::lease::Lease;
use crate::state::store::Store;
use crate::state::stretches;
use crate::state::tables::Tables;
use crate::state::ttl::Reading;
use crate::state::view::{HeldView, Purpose, View};
use crate::uncommitted::spill;
use base::latency::{Cause, SAMPLE_EVERY};
use base::seams::Stopwatch;
use base::slots::{Aside, EpochGuard, Reader};
use base::{CommitTs, Error, ErrorKind, LargeRef, Result, TableId};
use memtable::Found;
use page::Value;
use run::Leaf;
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
    /// The time, once it was asked for. 0: it was not yet.
    time_ms: Cell<u64>,
    /// Stretches of keys that it found empty.
    pub(crate) known: stretches::Own,
    not_sync: PhantomData<Cell<()>>,
}

impl Store {
    /// A read-only snapshot of everything acknowledged so far. Allocates nothing and takes no lock.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]; [`ErrorKind::Full`] with 65,536 of them open.
    #[inline]
    #[track_caller]
    pub fn snapshot(self: &Arc<Self>) -> Result<Snapshot> {
        self.check_process()?;
        Snapshot::begin(self, Purpose::Read)
    }
}

impl Snapshot {
    /// A snapshot of now: of what is visible for a reader, of what is applied for a writer.
    #[inline]
    #[track_caller]
    pub(crate) fn begin(store: &Arc<Store>, purpose: Purpose) -> Result<Self> {
        let lease = Lease::take(store)?;
        lease.reader().introduce(store.now_ms(), Location::caller());
        let held = match purpose {
            Purpose::Read => store.views.acquire(lease.reader(), || store.clocks.visible(), purpose),
            Purpose::Write => store.views.acquire(lease.reader(), || store.clocks.applied(), purpose),
        };
        let (view, ts) = held.ok_or_else(Store::closed)?;
        lease.reader().note_ts(ts.0);
        let (time_ms, known) = (Cell::new(0), stretches::Own::default());
        Ok(Snapshot { lease: Some(lease), view, ts, time_ms, known, not_sync: PhantomData })
    }

    /// The time by which it knows what has expired, in milliseconds since 1970. The clock is asked once: here, or when
    /// the first table with a TTL is read.
    pub fn time_ms(&self) -> u64 {
        if self.time_ms.get() == 0 {
            self.time_ms.set(self.store().time.now_ms());
        }
        self.time_ms.get()
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
    fn locate_through(
        &self,
        view: &View,
        table: TableId,
        reading: Reading,
        key: &[u8],
    ) -> Result<Option<Located>> {
        let (ts, pool, reader) = (self.ts, &self.store().pool, self.reader());
        let mut found = view.open.memtable.get(table, key, ts);
        for sealed in &view.sealed {
            found = found.or_else(|| sealed.memtable.get(table, key, ts));
            if found.is_some() {
                break;
            }
            if let Some(record) =
                spill::find(sealed.attached_for(table, ts), |delta| delta, pool, reader, key)?
            {
                return Located::of_record(&record, reading);
            }
        }
        if let Some(found) = found {
            return Located::of_found(found, reading);
        }
        let mut guard = reader.enter();
        let record = view.tables.find(table, pool, &mut guard, key)?.map(|leaf| leaf.pin());
        drop(guard);
        Located::of_record(&record, reading)
    }

    /// Calls `with` on the value of `key`, in the same way.
    #[cold]
    fn get_through<T>(
        &self,
        table: TableId,
        reading: Reading,
        key: &[u8],
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        // SAFETY: nothing of the view is used after this has returned, when `_aside` goes.
        let (view, _aside) = unsafe { self.keep_view()? };
        match self.locate_through(view, table, reading, key)? {
            Some(Located::Bytes(value)) => Ok(Some(with(&value))),
            Some(Located::Large(large, _)) => Ok(self.large_copy(reading, large)?.as_deref().map(with)),
            None => Ok(None),
        }
    }

    /// A copy of a large value, unless it has expired.
    pub(crate) fn large_copy(&self, reading: Reading, large: LargeRef) -> Result<Option<Vec<u8>>> {
        if !reading.is_alive(large) {
            return Ok(None);
        }
        self.store().read_large(large).map(|stored| Some(reading.whole(stored)))
    }

    /// Counts a look-up. Answers whether it is one of those that are timed.
    #[inline]
    pub(crate) fn count_get(&self, table: TableId) -> bool {
        self.reader().count_get(table).is_multiple_of(SAMPLE_EVERY)
    }

    /// Copies the value and times that: unless it read from the disk, which is counted there.
    #[cold]
    #[inline(never)]
    fn copy_timed(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let store = self.store();
        let in_memtable = {
            let call = self.call()?;
            self.in_memtables(self.view(&call), table, key).is_some()
        };
        let (faults, watch) = (store.pool.stats().faults, Stopwatch::start());
        let got = self.copy_of(table, reading, key)?;
        let ns = watch.elapsed_ns();
        if store.pool.stats().faults == faults {
            store.slots.latencies.record(if in_memtable { Cause::Memtable } else { Cause::PoolHit }, ns);
        }
        Ok(got)
    }

    /// A copy of the value of `key`.
    pub(crate) fn get_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.count_get(table) {
            return self.copy_timed(table, reading, key);
        }
        self.copy_of(table, reading, key)
    }

    /// Inlined into both: what is returned is three words that would else be moved once more.
    #[inline(always)]
    fn copy_of(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut call = self.call()?;
        let view = self.view(&call);
        if view.has_attached {
            drop(call);
            return self.get_through(table, reading, key, <[u8]>::to_vec);
        }
        match self.in_memtables(view, table, key) {
            Some(Found::Value(value)) => return reading.copy(value),
            Some(Found::Large(large)) => {
                let _aside = call.aside();
                return self.large_copy(reading, large);
            }
            Some(Found::Deleted) => return Ok(None),
            None => {}
        }
        let large = match self.in_runs(&mut call, table, key)? {
            None => return Ok(None),
            Some(leaf) => match leaf.value() {
                Value::Inline(value) => return reading.copy(value),
                Value::Large(large) => large,
                Value::Deleted => return Ok(None),
            },
        };
        let _aside = call.aside();
        self.large_copy(reading, large)
    }

    /// Runs `with` on the value of `key` where it lies. The page is pinned meanwhile, so that `with` may take its
    /// time: no user's code runs inside an epoch.
    pub(crate) fn get_with_in<T>(
        &self,
        table: TableId,
        reading: Reading,
        key: &[u8],
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.count_get(table);
        let mut call = self.call()?;
        let view = self.view(&call);
        if view.has_attached {
            drop(call);
            return self.get_through(table, reading, key, with);
        }
        match self.in_memtables(view, table, key) {
            Some(Found::Value(value)) => {
                // SAFETY: the value lies in a memtable of the view, which `_aside` keeps until `with` has returned.
                let value = unsafe { &*ptr::from_ref(value) };
                let _aside = call.aside();
                return Ok(reading.value(value)?.map(with));
            }
            Some(Found::Large(large)) => {
                let aside = call.aside();
                let value = self.large_copy(reading, large)?;
                drop(aside);
                return Ok(value.as_deref().map(with));
            }
            Some(Found::Deleted) => return Ok(None),
            None => {}
        }
        let Some(leaf) = self.in_runs(&mut call, table, key)? else { return Ok(None) };
        let leaf = leaf.pin();
        match leaf.value() {
            Value::Inline(value) => {
                drop(call);
                Ok(reading.value(value)?.map(with))
            }
            Value::Large(large) => {
                let aside = call.aside();
                let value = self.large_copy(reading, large)?;
                drop(aside);
                Ok(value.as_deref().map(with))
            }
            Value::Deleted => Ok(None),
        }
    }

    /// Whether `key` is present.
    pub(crate) fn contains_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<bool> {
        self.count_get(table);
        let mut call = self.call()?;
        let view = self.view(&call);
        if view.has_attached {
            drop(call);
            return Ok(self.locate_in(table, reading, key)?.is_some());
        }
        match self.in_memtables(view, table, key) {
            Some(Found::Deleted) => return Ok(false),
            Some(Found::Value(stored)) => return Ok(reading.value(stored)?.is_some()),
            Some(Found::Large(large)) => return Ok(reading.is_alive(large)),
            None => {}
        }
        match self.in_runs(&mut call, table, key)? {
            None => Ok(false),
            Some(leaf) => Ok(!reading.is_dated() || !reading.has_expired(leaf.value())?),
        }
    }

    /// Where the value of `key` is; its bytes, if they are at hand.
    pub(crate) fn locate_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<Located>> {
        self.count_get(table);
        let mut call = self.call()?;
        let view = self.view(&call);
        if view.has_attached {
            drop(call);
            // SAFETY: nothing of the view is used after this has returned, when `_aside` goes.
            let (view, _aside) = unsafe { self.keep_view()? };
            return self.locate_through(view, table, reading, key);
        }
        if let Some(found) = self.in_memtables(view, table, key) {
            return Located::of_found(found, reading);
        }
        let leaf = self.in_runs(&mut call, table, key)?;
        leaf.map_or(Ok(None), |leaf| Located::of_value(leaf.value(), reading))
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
        let reading = table.check(self)?;
        self.get_in(table.id(), reading, key)
    }

    /// Runs `with` on the value of `key` where it lies.
    #[inline]
    pub fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let reading = table.check(self)?;
        self.get_with_in(table.id(), reading, key, with)
    }

    /// The length of the value of `key`, in bytes. A value outside the pages is not read.
    pub fn value_len(&self, table: &Table, key: &[u8]) -> Result<Option<u64>> {
        let reading = table.check(self)?;
        Ok(self.locate_in(table.id(), reading, key)?.map(|located| located.len_bytes()))
    }

    /// Whether `key` is present.
    #[inline]
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        let reading = table.check(self)?;
        self.contains_in(table.id(), reading, key)
    }

    /// The table named `name`, if it exists.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        check_name(name)?;
        let row = self.get_in(TableId::CATALOG, Reading::Plain, name.as_bytes())?;
        row.map(|row| Ok(Table::committed(self, name, TableRow::decode(name.as_bytes(), &row)?))).transpose()
    }

    /// About how many records the table has: exact for what a checkpoint absorbed into a B+tree, plus every entry of
    /// the memtables and of an LSM table's runs, a replaced or deleted one included; and all that has expired until a
    /// merge has dropped it.
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
        // One moment, one time: who comes first asks the clock for both.
        let time_ms = Cell::new(self.time_ms());
        let known = stretches::Own::default();
        Ok(Snapshot {
            lease: Some(lease),
            view: self.view,
            ts: self.ts,
            time_ms,
            known,
            not_sync: PhantomData,
        })
    }
}

#[cold]
fn too_old() -> Error {
    let message = "the snapshot or transaction has expired: it was open for too long, or kept too much \
                   memory or disk space; begin a new one, and read in shorter pieces, or raise memory_bytes, \
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
