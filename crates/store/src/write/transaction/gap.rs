//! Look-ups in the snapshot that use and find its gaps: see [`crate::write::gap`].

use super::Transaction;
use crate::read::beginning::Beginning;
use crate::read::handle::Admitted;
use crate::read::scan::Cursor;
use crate::read::value_ref::ValueRef;
use base::Result;

impl Transaction {
    /// Returns whether the snapshot has `key`. The caller records that it was read.
    #[inline]
    pub(super) fn is_in_snapshot(&self, of: Admitted, key: &[u8]) -> Result<bool> {
        let look = || Ok(self.snapshot.contains_in(of.id, of.reading, key)?.then_some(()));
        Ok(self.unless_in_gap(of, key, look)?.is_some())
    }

    /// Returns the value of `key` in the snapshot. The caller records that it was read.
    #[inline]
    pub(super) fn value_in_snapshot(&self, of: Admitted, key: &[u8]) -> Result<Option<ValueRef<'_>>> {
        self.unless_in_gap(of, key, || self.snapshot.get_ref_in(of.id, of.reading, key))
    }

    /// Calls `with` on the beginning of the value of `key` in the snapshot. The caller records that it was read.
    pub(super) fn beginning_in_snapshot<T>(
        &self,
        of: Admitted,
        key: &[u8],
        whole_bytes: usize,
        with: impl FnOnce(Beginning<'_>) -> T,
    ) -> Result<Option<T>> {
        let look = || self.snapshot.beginning_in((of.id, of.reading), key, whole_bytes, with);
        self.unless_in_gap(of, key, look)
    }

    #[inline]
    fn unless_in_gap<T>(
        &self,
        of: Admitted,
        key: &[u8],
        look: impl FnOnce() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if of.blank || self.scratch().gap.borrow_mut().holds(of.id, key) {
            return Ok(None);
        }
        let found = look()?;
        if found.is_none() {
            self.scratch().gap.borrow_mut().miss(of.id, key);
        }
        Ok(found)
    }

    /// Notes that `key`, which was looked up, is put. If the snapshot does not have it, this finds the end of the gap
    /// from it on, once that seems to pay.
    #[inline]
    pub(super) fn note_put(&self, of: Admitted, key: &[u8]) {
        let mut gap = self.scratch().gap.borrow_mut();
        let is_time = gap.has_missed(of.id, key) && gap.note(of.id, key);
        drop(gap);
        if is_time {
            // If it cannot be found now, the next key is looked up.
            let _ = self.find_gap(of, key);
        }
    }

    #[cold]
    fn find_gap(&self, of: Admitted, key: &[u8]) -> Result<()> {
        // It begins after the key, which may exist as a deleted one.
        let behind = [key, &[0]].concat();
        let high = Cursor::next_key_bound(&self.snapshot, of.id, of.reading, &behind)?;
        self.scratch().gap.borrow_mut().learn(high);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, RequestedLayout, Span, Store, Table, TransactionOptions};
    use std::sync::Arc;
    use txn::{Durability, Isolation};

    fn begin(store: &Arc<Store>) -> Transaction {
        let options =
            TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };
        Transaction::begin(store, options).unwrap()
    }

    fn commit(store: &Arc<Store>, write: impl FnOnce(&mut Transaction)) {
        let mut tx = begin(store);
        write(&mut tx);
        store.acknowledge(tx.apply().unwrap()).unwrap();
    }

    /// The search for a gap must not skip later commits' keys one by one, because there may be many.
    #[test]
    fn a_stretch_ends_at_a_key_that_came_later() {
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &Options::default()).unwrap();
        let mut table = None;
        commit(&store, |tx| table = Some(tx.create_table("t", RequestedLayout::BTree).unwrap()));
        let table: Table = table.expect("made above");
        let mut tx = begin(&store);
        commit(&store, |other| other.insert(&table, b"m", b"").unwrap());
        for key in [b"a", b"b", b"c"] {
            tx.insert(&table, key, b"").unwrap();
        }
        let is_to_m = |tx: &Transaction| {
            let gap = tx.scratch().gap.borrow();
            gap.is_known && gap.high.as_deref() == Some(b"m")
        };
        assert!(is_to_m(&tx), "{:?}", tx.scratch().gap);
        tx.insert(&table, b"z", b"").unwrap();
        assert_eq!(tx.snapshot.last_key_bound(&table).unwrap().as_deref(), Some(&b"m"[..]));
        assert!(tx.snapshot.cursor(&table, Span::all()).unwrap().next().unwrap().is_none());
    }

    #[test]
    fn a_put_after_a_get_that_found_nothing_is_an_insert() {
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &Options::default()).unwrap();
        let mut table = None;
        commit(&store, |tx| table = Some(tx.create_table("t", RequestedLayout::BTree).unwrap()));
        let table: Table = table.expect("made above");
        // Otherwise the table is known to be empty.
        commit(&store, |tx| tx.put(&table, b"m", b"").unwrap());
        for (is_put, by_value) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut tx = begin(&store);
            for key in [b"a", b"b", b"c"] {
                let is_there = match by_value {
                    true => tx.get_ref(&table, key).unwrap().is_some(),
                    false => tx.contains(&table, key).unwrap(),
                };
                assert!(!is_there);
                if is_put {
                    tx.put(&table, key, b"").unwrap();
                }
            }
            assert_eq!(tx.scratch().gap.borrow().is_known, is_put, "by value: {by_value}");
        }
    }
}
