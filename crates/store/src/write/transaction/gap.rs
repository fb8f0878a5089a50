//! Where the snapshot has nothing: an insert there need not look.
//!
//! 1. A snapshot does not change, so what was once found empty of it stays so, for all of the transaction.
//! 2. After some inserts in a row whose keys ascended and were not there, the stretch from the last of them to the next
//!    key of any layer, a later commit's too, is found out, by one seek in each. Rows that come in order then cost a
//!    comparison each.
//! 3. Where stretches turn out to be short the next one is looked for later, twice as late each time: what is lost is a
//!    small part of what the look-ups cost.

use super::Transaction;
use crate::read::scan::Cursor;
use crate::write::gathered::Admitted;
use base::{Result, TableId};

/// Look-ups in vain, in a row, before the first stretch is found out, and at most.
const PATIENCE: u32 = 2;
const MOST_PATIENCE: u32 = 1024;
/// A stretch pays if it has spared so many look-ups: finding it out costs a few.
const WORTHWHILE: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Gap {
    table: TableId,
    /// The last key that was looked up in vain. With `is_known` the first of the stretch.
    low: Vec<u8>,
    /// The first key behind the stretch; `None`: it goes on to the end of the table.
    high: Option<Vec<u8>>,
    is_known: bool,
    /// Look-ups that it has spared.
    spared: u32,
    /// Look-ups in vain of ascending keys, in a row.
    streak: u32,
    patience: u32,
}

impl Default for Gap {
    fn default() -> Self {
        Gap {
            table: TableId::CATALOG,
            low: Vec::new(),
            high: None,
            is_known: false,
            spared: 0,
            streak: 0,
            patience: PATIENCE,
        }
    }
}

impl Gap {
    /// Forgets everything; keeps its memory.
    pub fn clear(&mut self) {
        (self.is_known, self.spared, self.streak, self.patience) = (false, 0, 0, PATIENCE);
        (self.table, self.high) = (TableId::CATALOG, None);
        self.low.clear();
    }

    /// Whether the snapshot is known to have no `key` in `table`.
    #[inline]
    fn holds(&mut self, table: TableId, key: &[u8]) -> bool {
        let holds = self.is_known
            && self.table == table
            && key >= &self.low[..]
            && self.high.as_deref().is_none_or(|high| key < high);
        self.spared += u32::from(holds);
        holds
    }

    /// Notes that `key` was looked up in vain. Answers whether it is time to find out how far that goes.
    fn note(&mut self, table: TableId, key: &[u8]) -> bool {
        if std::mem::take(&mut self.is_known) {
            let doubled = (self.patience * 2).min(MOST_PATIENCE);
            self.patience = if self.spared < WORTHWHILE { doubled } else { PATIENCE };
        }
        let ascends = self.table == table && &self.low[..] < key;
        self.streak = if ascends { self.streak + 1 } else { 1 };
        self.table = table;
        self.low.clear();
        self.low.extend_from_slice(key);
        self.streak >= self.patience
    }

    /// Takes over that the stretch from the last key that was looked up ends before `high`.
    fn learn(&mut self, high: Option<Vec<u8>>) {
        (self.high, self.is_known, self.spared, self.streak) = (high, true, 0, 0);
    }
}

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
