//! Looking up what an insert must know, and finding out where the snapshot has nothing: see [`crate::write::gap`].

use super::Transaction;
use crate::read::handle::Admitted;
use crate::read::scan::Cursor;
use crate::write::gap::Gap;
use base::Result;

impl Transaction {
    /// Whether the snapshot has `key`: what an insert must know. The caller notes that it was read.
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
        &mut self.gathered.as_mut().expect("taken by drop alone").gap
    }

    /// Finds out up to where the snapshot has nothing, from `key` on, which it has not.
    #[cold]
    fn find_gap(&mut self, of: Admitted, key: &[u8]) -> Result<()> {
        // Behind the key: it may be there as one that was deleted.
        let behind = [key, &[0]].concat();
        let high = Cursor::next_key_bound(&self.snapshot, of.id, of.reading, &behind)?;
        self.gap_mut().learn(high);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Span, Store, Table, TransactionOptions, WantedLayout};
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

    /// Were those passed over, each stretch would cost as much as there are of them.
    #[test]
    fn a_stretch_ends_at_a_key_that_came_later() {
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &Options::default()).unwrap();
        let mut table = None;
        commit(&store, |tx| table = Some(tx.create_table("t", WantedLayout::BTree).unwrap()));
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
