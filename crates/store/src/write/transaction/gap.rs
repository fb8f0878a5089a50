//! The look-up of an insert, and the search for gaps of the snapshot: see [`crate::write::gap`].

use super::Transaction;
use crate::read::handle::Admitted;
use crate::read::scan::Cursor;
use crate::write::gap::Gap;
use base::Result;

impl Transaction {
    /// Returns whether the snapshot has `key`, for an insert. The caller records that it was read.
    #[inline]
    pub(super) fn is_in_snapshot(&mut self, of: Admitted, key: &[u8]) -> Result<bool> {
        if of.blank || self.gap_mut().holds(of.id, key) {
            return Ok(false);
        }
        let is_there = self.snapshot.contains_in(of.id, of.reading, key)?;
        if !is_there && self.gap_mut().note(of.id, key) {
            self.find_gap(of, key)?;
        }
        Ok(is_there)
    }

    fn gap_mut(&mut self) -> &mut Gap {
        &mut self.scratch.as_mut().expect("taken by drop alone").gap
    }

    /// Finds the end of the snapshot's gap from `key`, which it does not have, on.
    #[cold]
    fn find_gap(&mut self, of: Admitted, key: &[u8]) -> Result<()> {
        // It begins after the key, which may exist as a deleted one.
        let behind = [key, &[0]].concat();
        let high = Cursor::next_key_bound(&self.snapshot, of.id, of.reading, &behind)?;
        self.gap_mut().learn(high);
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
        let gap = tx.gap_mut();
        assert!(gap.is_known && gap.high.as_deref() == Some(b"m"), "{gap:?}");
        tx.insert(&table, b"z", b"").unwrap();
        assert_eq!(tx.snapshot.last_key_bound(&table).unwrap().as_deref(), Some(&b"m"[..]));
        assert!(tx.snapshot.cursor(&table, Span::all()).unwrap().next().unwrap().is_none());
    }
}
