//! A snapshot: one view, one timestamp, one slot that announces the view.
//!
//! 1. Every look at the view is a call of the slot ([`Reader::begin_call`]): between calls the view may be revoked.
//! 2. A value in a memtable is shown to the user's code inside the call; a page is pinned instead, and then does not
//!    need the view.
//!
//! `read/resolve.rs` documents how a key is looked up, for the reads in `read/get.rs`.

use crate::read::handle::Table;
use crate::state::cached_slot::{CachedSlot, Permit};
use crate::state::catalog::{TableRow, check_name};
use crate::state::store::Store;
use crate::state::stretches;
use crate::state::ttl::Reading;
use crate::state::view::{Purpose, View};
use base::latency::SAMPLE_EVERY;
use base::slots::{EpochGuard, Reader, Suspended};
use base::{CommitTs, Error, ErrorKind, Result, TableId};
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// A read-only view of everything that was committed at one moment. It is `Send` but not `Sync`: another thread makes
/// its own with [`Snapshot::try_clone`].
#[derive(Debug)]
pub struct Snapshot {
    /// The slot, with the view and the timestamp. It is always some until `drop` takes it.
    slot: Option<Box<CachedSlot>>,
    not_sync: PhantomData<Cell<()>>,
}

impl Store {
    /// Takes a read-only snapshot of everything acknowledged so far. It allocates nothing and takes no lock.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]; [`ErrorKind::Full`] if 65,536 of them are open.
    #[inline]
    #[track_caller]
    pub fn snapshot(self: &Arc<Self>) -> Result<Snapshot> {
        self.check_process()?;
        Snapshot::begin(self, Purpose::Read)
    }
}

impl Snapshot {
    /// Takes a snapshot of the present: of the visible commits for a reader, of the applied ones for a writer.
    #[inline]
    #[track_caller]
    pub(crate) fn begin(store: &Arc<Store>, purpose: Purpose) -> Result<Self> {
        let mut slot = CachedSlot::take(store)?;
        slot.reader().introduce(store.now_ms(), Location::caller());
        let held = match purpose {
            Purpose::Read => store.views.acquire(slot.reader(), || store.clocks.visible(), purpose),
            Purpose::Write => store.views.acquire(slot.reader(), || store.clocks.applied(), purpose),
        };
        let (view, ts) = held.ok_or_else(Store::closed)?;
        slot.see(view, ts, 0);
        Ok(Snapshot { slot: Some(slot), not_sync: PhantomData })
    }

    /// Returns the time by which entries have expired for it, in milliseconds since 1970. The clock is read once: here,
    /// or when the first table with a TTL is read.
    pub fn time_ms(&self) -> u64 {
        let time_ms = &self.slot().seen().time_ms;
        if time_ms.get() == 0 {
            time_ms.set(self.store().time.now_ms());
        }
        time_ms.get()
    }

    /// Returns the last commit that it sees.
    #[inline]
    pub fn ts(&self) -> CommitTs {
        self.slot().seen().ts
    }

    /// Returns the stretches of keys that it found empty.
    pub(crate) fn known(&self) -> &stretches::Own {
        &self.slot().seen().known
    }

    #[inline]
    fn slot(&self) -> &CachedSlot {
        self.slot.as_ref().expect("taken by drop alone")
    }

    /// Returns the store.
    #[inline]
    pub(crate) fn store(&self) -> &Arc<Store> {
        self.slot().store()
    }

    /// Begins a call, during which the view stays.
    #[inline]
    pub(crate) fn call(&self) -> Result<EpochGuard<'_>> {
        self.store().check_process()?;
        self.reader().begin_call().ok_or_else(too_old)
    }

    /// Returns an error if the view was revoked, for operations that depend on it.
    #[inline]
    pub(crate) fn check_held(&self) -> Result<()> {
        if self.reader().is_revoked() { Err(too_old()) } else { self.store().check_process() }
    }

    #[inline]
    pub(crate) fn view<'g>(&'g self, call: &'g EpochGuard<'_>) -> &'g View {
        // SAFETY: the slot holds the view until `drop`, and `call`, which `Snapshot::call` began, outlives the
        // reference.
        unsafe { self.slot().seen().view.get(call) }
    }

    /// Returns the view, and a call that lasts as long as what is returned with it.
    ///
    /// # Safety
    /// Nothing of the view is used when the [`Suspended`] is dropped.
    pub(crate) unsafe fn keep_view(&self) -> Result<(&View, Suspended<'_>)> {
        let call = self.call()?;
        // SAFETY: the call is the slot's own, and the caller promises the rest.
        Ok(unsafe { self.slot().seen().view.keep(call) })
    }

    /// Calls `look` on the view, which stays until that returns.
    pub(crate) fn with_view<T>(&self, look: impl FnOnce(&View) -> Result<T>) -> Result<T> {
        // SAFETY: the result has nothing of the view, whose lifetime it cannot name, and `_call` is dropped last.
        let (view, _call) = unsafe { self.keep_view()? };
        look(view)
    }

    /// Returns the right to look at pages through this snapshot's slot.
    #[inline]
    pub(crate) fn reader(&self) -> &Reader {
        self.slot().reader()
    }

    /// Counts a look-up. Returns whether it is one of those that are timed.
    #[inline]
    pub(crate) fn count_get(&self, table: TableId) -> bool {
        self.reader().count_get(table).is_multiple_of(SAMPLE_EVERY)
    }

    /// Returns the right to keep a page pinned for as long as a borrowed value lives; `None` if the limit is reached.
    #[inline]
    pub(crate) fn permit_pin(&self) -> Option<Permit<'_>> {
        self.slot().permit_pin()
    }

    /// Returns whether nothing of `table` can be found: no memtable has a write of it and no run has pages.
    pub(crate) fn is_blank(&self, table: TableId) -> Result<bool> {
        let call = self.call()?;
        let view = self.view(&call);
        Ok(view.tables.get(table).is_none()
            && view.memtables().all(|memtable| memtable.newest(table).0 == 0)
            && view.sealed.iter().all(|sealed| sealed.attached_for(table, CommitTs::MAX).is_empty()))
    }

    /// Returns the table named `name`, if it exists.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        check_name(name)?;
        let row = self.get_in(TableId::CATALOG, Reading::Plain, name.as_bytes())?;
        row.map(|row| Ok(Table::committed(self, name, TableRow::decode(name.as_bytes(), &row)?))).transpose()
    }

    /// Returns about how many records the table has. The count is exact for what a checkpoint absorbed into a B+tree.
    /// Every entry of the memtables and of an LSM table's runs counts, even if it was replaced or deleted; expired
    /// entries count until a merge has dropped them.
    pub fn approximate_len(&self, table: &Table) -> Result<u64> {
        table.check(self)?;
        let call = self.call()?;
        let view = self.view(&call);
        let in_memory: u64 = view.memtables().map(|memtable| memtable.records_of(table.id())).sum();
        let attached = view.sealed.iter().flat_map(|sealed| sealed.attached_for(table.id(), self.ts()));
        let attached: u64 = attached.map(|delta| delta.records.records).sum();
        let (above, lowest) = view.tables.layers(table.id());
        let stacked: u64 = above.iter().map(|entry| entry.delta.records.records).sum();
        Ok(lowest.records + stacked + attached + in_memory)
    }

    /// Returns a second snapshot of the same moment, for another thread. It is always possible, because this one holds
    /// the view meanwhile.
    #[track_caller]
    pub fn try_clone(&self) -> Result<Self> {
        let store = self.store();
        let mut slot = CachedSlot::take(store)?;
        let call = self.call()?;
        slot.reader().introduce(store.now_ms(), Location::caller());
        let view = self.slot().seen().view;
        store.views.hold_too(view, &call, slot.reader());
        // Both snapshots have one time: the clock is read now for both.
        slot.see(view, self.ts(), self.time_ms());
        Ok(Snapshot { slot: Some(slot), not_sync: PhantomData })
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
        self.slot.take().expect("taken here alone").keep();
    }
}
