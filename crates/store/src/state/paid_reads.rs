//! A transaction's read set, and the memory for it.
//!
//! A read never fails because of memory: if the budget, or the transaction's share of it, has no more, neighbouring
//! keys that were read become intervals, and the transaction may have conflicts that are not real. What cannot be
//! joined, an interval for each table and the ranges of open cursors, is charged by force.

use crate::state::store::Store;
use base::TableId;
use base::budget::{Charge, MemoryCategory};
use std::cell::{Cell, RefCell};
use std::ops::Bound;
use txn::{RangeToken, ReadSet};

/// A read set with its memory; see the module. It uses cells: a read adds to it, and needs no exclusive borrow of the
/// transaction.
#[derive(Default)]
pub(crate) struct PaidReads {
    set: RefCell<ReadSet>,
    charge: Cell<Option<Charge>>,
}

impl std::fmt::Debug for PaidReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.set.fmt(f)
    }
}

impl PaidReads {
    /// Returns the read set.
    pub fn set(&mut self) -> &mut ReadSet {
        self.set.get_mut()
    }

    /// Forgets all reads.
    pub fn clear(&mut self) {
        self.set.get_mut().clear();
        self.charge.set(None);
    }

    /// Records that `key` was looked up, found or not.
    #[inline]
    pub fn key(&self, store: &Store, table: TableId, key: &[u8]) {
        self.note(store, |set| set.key(table, key));
    }

    /// Removes the last record of a key of `table`, if it is one of `key`. Returns whether it did. See
    /// [`ReadSet::take_last`].
    #[inline]
    pub fn take_last(&mut self, table: TableId, key: &[u8]) -> bool {
        self.set.get_mut().take_last(table, key)
    }

    /// Records that everything from `low` to `high` was read. Returns a token with which a moving cursor extends the
    /// range.
    pub fn range(&self, store: &Store, table: TableId, low: &[u8], high: Bound<&[u8]>) -> RangeToken {
        self.note(store, |set| set.range(table, low, high))
    }

    /// Makes the set count at snapshot isolation, too. See [`ReadSet::require`].
    pub fn require(&self) {
        self.set.borrow_mut().require();
    }

    /// Extends a range whose cursor moved forward to `high`. See [`ReadSet::extend_high`].
    #[inline]
    pub fn extend_high(&self, store: &Store, token: RangeToken, high: Bound<&[u8]>) {
        self.note(store, |set| set.extend_high(token, high));
    }

    /// Extends a range whose cursor moved back to `low`. See [`ReadSet::extend_low`].
    #[inline]
    pub fn extend_low(&self, store: &Store, token: RangeToken, low: &[u8]) {
        self.note(store, |set| set.extend_low(token, low));
    }

    /// Closes a range: its cursor moves no more, so it may be joined with others.
    pub fn close(&self, token: RangeToken) {
        self.set.borrow_mut().close(token);
    }

    #[inline]
    fn note<T>(&self, store: &Store, what: impl FnOnce(&mut ReadSet) -> T) -> T {
        let mut set = self.set.borrow_mut();
        let noted = what(&mut set);
        if set.is_full() {
            self.make_room(store, &mut set);
        }
        noted
    }

    /// Charges twice as much memory, or else joins the existing reads, and charges by force what joining could not make
    /// room for. It does not wait: the reader may be using a page.
    #[cold]
    fn make_room(&self, store: &Store, set: &mut ReadSet) {
        let (limit, wanted) = (set.limit_bytes(), set.limit_bytes() * 2);
        let charge = self.charge.take();
        let mut charge = charge.unwrap_or_else(|| Charge::none(store.account(), MemoryCategory::WriteSets));
        let may_have_more = set.is_short_of_bytes() && wanted <= store.memory.shares.read_set_bytes();
        if may_have_more && charge.resize(wanted) {
            set.set_limit_bytes(wanted);
        } else {
            set.join();
            charge
                .join(store.account().charge_by_force(MemoryCategory::WriteSets, set.limit_bytes() - limit));
        }
        self.charge.set(Some(charge));
    }
}
