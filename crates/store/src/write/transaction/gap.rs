//! Look-ups in the snapshot that use and find its gaps: see [`crate::write::gap`].

use super::Transaction;
use crate::read::handle::Admitted;
use crate::read::scan::Cursor;
use crate::read::value_ref::ValueRef;
use base::Result;

impl Transaction {
    /// Returns whether the snapshot has `key`, for an insert. The caller records that it was read.
    #[inline]
    pub(super) fn is_in_snapshot(&self, of: Admitted, key: &[u8]) -> Result<bool> {
        if self.is_in_gap(of, key) {
            return Ok(false);
        }
        let is_there = self.snapshot.contains_in(of.id, of.reading, key)?;
        if !is_there {
            self.note_insert(of, key)?;
        }
        Ok(is_there)
    }

    /// Returns whether the snapshot has `key`, for a get. The caller records that it was read.
    #[inline]
    pub(super) fn snapshot_contains(&self, of: Admitted, key: &[u8]) -> Result<bool> {
        if self.is_in_gap(of, key) {
            return Ok(false);
        }
        let is_there = self.snapshot.contains_in(of.id, of.reading, key)?;
        if !is_there {
            self.scratch().gap.borrow_mut().miss(of.id, key);
        }
        Ok(is_there)
    }

    /// Returns the value of `key` in the snapshot. The caller records that it was read.
    #[inline]
    pub(super) fn value_in_snapshot(&self, of: Admitted, key: &[u8]) -> Result<Option<ValueRef<'_>>> {
        if self.is_in_gap(of, key) {
            return Ok(None);
        }
        let found = self.snapshot.get_ref_in(of.id, of.reading, key)?;
        if found.is_none() {
            self.scratch().gap.borrow_mut().miss(of.id, key);
        }
        Ok(found)
    }

    /// Notes the put of a key that was looked up before it. If it was not found, this is an insert.
    #[inline]
    pub(super) fn note_put(&self, of: Admitted, key: &[u8]) {
        if self.scratch().gap.borrow().has_missed(of.id, key) {
            // If the gap cannot be found now, the next key is looked up.
            let _ = self.note_insert(of, key);
        }
    }

    #[inline]
    fn is_in_gap(&self, of: Admitted, key: &[u8]) -> bool {
        of.blank || self.scratch().gap.borrow_mut().holds(of.id, key)
    }

    /// Notes that the snapshot does not have `key`, and finds the end of the gap from it on if that seems to pay.
    fn note_insert(&self, of: Admitted, key: &[u8]) -> Result<()> {
        let is_time = self.scratch().gap.borrow_mut().note(of.id, key);
        if is_time { self.find_gap(of, key) } else { Ok(()) }
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
}
