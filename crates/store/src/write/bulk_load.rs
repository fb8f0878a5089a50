//! Loading many records at once: directly into a run of the transaction's own, bypassing the write set.
//!
//! 1. As long as keys ascend, records are written from the input to the pages of one run, each once. If equal keys
//!    follow each other, the last one wins, as with puts.
//! 2. From the first record out of order on, records are put: the write set sorts as much as fits memory, spills it,
//!    and the spilled runs are merged. So an input in any order is sorted outside of memory.
//! 3. A small load stays in memory, because a run costs the commit a flush of its own. So the beginning of every input
//!    is kept until it is known to be large, or until there is no memory for more of it.
//!
//! Either way the records are newer than everything that the transaction wrote before, and older than what follows.

use crate::read::handle::Admitted;
use crate::read::handle::Table;
use crate::state::memory::FREE_TRANSACTION_BYTES;
use crate::uncommitted::spill;
use crate::write::transaction::Transaction;
use base::Result;
use base::budget::{Charge, MemoryCategory};
use std::cmp::Ordering;

/// The result of loading the ascending beginning of an input.
struct Ascending<R> {
    loaded: u64,
    /// The first record that is out of order, or too long for a run.
    rest: Option<R>,
}

/// The memory that a key and a value take on the heap in addition to their bytes.
const HEAP_BYTES: usize = 32;

/// Charges the memory of the beginning of an input, an eighth ahead. Returns whether there is enough.
fn is_charged(charge: &mut Charge, bytes: usize) -> bool {
    bytes <= charge.bytes().max(FREE_TRANSACTION_BYTES) || charge.resize(bytes + bytes / 8)
}

impl Transaction {
    /// Puts all `records` into `table`, in any order; the last of several with one key wins. Returns their number.
    /// Input in ascending key order is written once, whatever its size.
    ///
    /// # Errors
    /// Those of `records`, unchanged; those of [`Transaction::put`]. Some of the records before the error may be in the
    /// transaction.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        let of = self.admitted(table)?;
        let mut records = records.into_iter();
        let mut first = Vec::new();
        let mut charge = Charge::none(self.store().account(), MemoryCategory::WriteSets);
        let (mut bytes, mut heap_bytes) = (0, 0);
        while bytes <= self.store().memory.shares.write_set_bytes / 4 && is_charged(&mut charge, bytes) {
            let Some(record) = records.next().transpose()? else {
                let count = first.len() as u64;
                first
                    .iter()
                    .try_for_each(|(key, value): &(K, V)| self.put_in(of, key.as_ref(), value.as_ref()))?;
                return Ok(count);
            };
            heap_bytes += record.0.as_ref().len() + record.1.as_ref().len() + HEAP_BYTES;
            first.push(record);
            bytes = heap_bytes + first.capacity() * size_of::<(K, V)>();
        }
        let mut records = first.into_iter().map(Ok).chain(records);
        let Ascending { mut loaded, rest } = self.load_ascending(of, &mut records)?;
        drop(charge);
        for record in rest.map(Ok).into_iter().chain(records) {
            let (key, value) = record?;
            self.put_in(of, key.as_ref(), value.as_ref())?;
            loaded += 1;
        }
        Ok(loaded)
    }

    /// Writes records to one run as long as their keys ascend (step 1). What the transaction wrote before is spilled
    /// first.
    fn load_ascending<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        of: Admitted,
        records: &mut impl Iterator<Item = Result<(K, V)>>,
    ) -> Result<Ascending<(K, V)>> {
        self.spill()?;
        let mut ascending = Ascending { loaded: 0, rest: None };
        let mut dated = Vec::new();
        let spilled = spill::build(self.store(), &mut |add| {
            let mut add = |key: &[u8], value: &[u8]| {
                if !of.reading.is_dated() {
                    return add(key, value);
                }
                dated.clear();
                dated.extend_from_slice(&self.date(of.reading));
                dated.extend_from_slice(value);
                add(key, &dated)
            };
            // A record is held back until its successor is known to have another key.
            let mut last: Option<(K, V)> = None;
            for record in records.by_ref() {
                let record = record?;
                self.check_record(record.0.as_ref(), record.1.as_ref())?;
                let len_bytes = of.reading.front_bytes() + record.1.as_ref().len();
                if self.store().early.is_large(len_bytes as u64) {
                    // A record that is too long for a run is written to the data file in pieces.
                    ascending.rest = Some(record);
                    break;
                }
                let order =
                    last.as_ref().map_or(Ordering::Less, |last| last.0.as_ref().cmp(record.0.as_ref()));
                match (order, last.replace(record)) {
                    (Ordering::Less, Some((key, value))) => add(key.as_ref(), value.as_ref())?,
                    (Ordering::Greater, behind) => {
                        ascending.rest = std::mem::replace(&mut last, behind);
                        break;
                    }
                    _ => {}
                }
                ascending.loaded += 1;
            }
            last.map_or(Ok(()), |(key, value)| add(key.as_ref(), value.as_ref()))
        })?;
        if spilled.delta.records.root.is_some() {
            self.push_spilled(of.id, spilled)?;
        }
        Ok(ascending)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, RequestedLayout, Transaction, TransactionOptions};
    use base::Result;
    use std::cell::Cell;
    use std::sync::Arc;

    /// A key that counts how many of its kind there are.
    struct Key<'a> {
        bytes: Vec<u8>,
        alive: &'a Cell<usize>,
    }

    impl AsRef<[u8]> for Key<'_> {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl Drop for Key<'_> {
        fn drop(&mut self) {
            self.alive.set(self.alive.get() - 1);
        }
    }

    /// Loads `count` records with keys that `key` makes, and returns how many existed at once.
    fn load(count: u32, key: fn(u32) -> Vec<u8>) -> Result<usize> {
        let options = Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() };
        let store = crate::open_or_create(Arc::new(io::MemDir::new()), &options)?;
        let mut tx = Transaction::begin(&store, TransactionOptions::default())?;
        let table = tx.create_table("t", RequestedLayout::BTree)?;
        let (alive, most) = (Cell::new(0), Cell::new(0));
        let records = (0..count).map(|n| {
            alive.set(alive.get() + 1);
            most.set(most.get().max(alive.get()));
            Ok((Key { bytes: key(n), alive: &alive }, b""))
        });
        assert_eq!(tx.bulk_load(&table, records)?, u64::from(count));
        store.acknowledge(tx.apply()?)?;
        assert_eq!(store.account().held().bytes(base::budget::MemoryCategory::WriteSets), 0);
        Ok(most.get())
    }

    #[test]
    fn the_beginning_of_an_input_is_kept_within_a_bound() -> Result<()> {
        let keys: [fn(u32) -> Vec<u8>; 3] =
            [|_| Vec::new(), |n| n.to_be_bytes().to_vec(), |n| (!n).to_be_bytes().to_vec()];
        for key in keys {
            let most = load(50_000, key)?;
            assert!(most < 2000, "{most} records in memory");
        }
        Ok(())
    }
}
