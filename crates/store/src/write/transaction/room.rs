//! The memory of a transaction's writes: it is charged before it is used, and freed by spilling.

use super::Transaction;
use crate::read::handle::Admitted;
use crate::state::memory::FREE_TRANSACTION_BYTES;
use crate::uncommitted::spill::{Spilled, Spills};
use crate::uncommitted::write_set::{Footprint, WRITE_COST};
use crate::write::scratch::Scratch;
use base::budget::{Charge, MemoryCategory};
use base::slots::Reader;
use base::{Error, ErrorKind, Result, TableId};
use std::sync::Arc;

/// The number of bytes above which writes are spilled however large the memory is: the rest must fit one block of the
/// log.
const MOST_LOGGED_BYTES: usize = log::MAX_PAYLOAD_BYTES - (4 << 20);

/// How many times the bytes of writes a memtable needs for them, at most.
const MEMTABLE_FACTOR: usize = 3;

impl Transaction {
    /// Calls [`Transaction::make_room`] for a record; a large value is in the data file.
    #[inline]
    pub(super) fn make_room_for(&mut self, of: Admitted, key: &[u8], value: &[u8]) -> Result<()> {
        let value_bytes = of.reading.front_bytes() + value.len();
        let is_large = self.store().early.is_large(value_bytes as u64);
        self.make_room(key.len() + if is_large { base::LargeRef::BYTES } else { value_bytes })
    }

    /// Spills the write set if another `bytes` would make it exceed its bound.
    #[inline]
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<()> {
        let Footprint { used_bytes, logged_bytes, held_bytes } = self.writes().footprint();
        let is_full = used_bytes + bytes > self.store().memory.shares.write_set_bytes
            || logged_bytes + bytes > MOST_LOGGED_BYTES;
        if is_full && !self.writes().is_blank() {
            self.spill()?;
        } else if held_bytes + WRITE_COST + bytes <= self.paid_bytes {
            return Ok(());
        }
        match self.pay_for(WRITE_COST + bytes) {
            Err(error) => {
                self.spill_after(error)?;
                self.pay_for(WRITE_COST + bytes)
            }
            paid => paid,
        }
    }

    /// Returns whether the writes that are left in memory after others were spilled should be spilled, too, because
    /// writes and memtables already take much of the memory. A few always go to the memtable.
    pub(super) fn should_spill_rest(&self) -> bool {
        let (store, bytes) = (self.store(), self.writes().bytes());
        if bytes <= store.memory.shares.write_set_bytes / 4 {
            return false;
        }
        let budget = store.account().budget();
        let held = budget.held();
        let taken_bytes = held.bytes(MemoryCategory::WriteSets) + held.bytes(MemoryCategory::Memtables);
        taken_bytes + MEMTABLE_FACTOR * bytes > budget.limit_bytes() / 2
    }

    /// Spills after `error`, which says that there is no memory for the writes.
    ///
    /// # Errors
    /// `error`, if it is another one or there is nothing to spill; those of [`Transaction::spill`].
    #[cold]
    pub(super) fn spill_after(&mut self, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::Full || self.writes().is_blank() {
            return Err(error);
        }
        self.spill()?;
        // Others lack memory as well.
        self.charge = None;
        self.paid_bytes = FREE_TRANSACTION_BYTES;
        Ok(())
    }

    /// Writes the data in memory to the data file, as runs of this transaction, and forgets what was rolled back.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] and errors of writing: the write that needed room is not done, and all others are as before.
    #[cold]
    pub fn spill(&mut self) -> Result<()> {
        self.latch_check()?;
        self.with_funded_spills(|spills, reader, scratch| {
            spills.spill(reader, &mut scratch.writes, &scratch.reads)
        })
    }

    /// Calls `add`, which moves the writes in memory to the spills, after the memory of what stays in memory was
    /// charged.
    fn with_funded_spills(
        &mut self,
        add: impl FnOnce(&mut Spills, &Reader, &mut Scratch) -> Result<()>,
    ) -> Result<()> {
        let store = Arc::clone(self.store());
        let spills = self.spills.get_or_insert_with(|| Box::new(Spills::new(&store)));
        let scratch = self.scratch.as_mut().expect("taken by drop alone");
        let funded = spills.fund(&scratch.writes, self.charge.as_mut());
        let added = funded.and_then(|()| add(spills, self.snapshot.reader(), scratch));
        self.settle();
        added
    }

    /// Lets writes have what is charged for the spills and not needed there.
    pub(super) fn settle(&mut self) {
        let Some(spills) = &mut self.spills else { return };
        let excess = spills.take_excess();
        match &mut self.charge {
            Some(charge) => charge.join(excess),
            None if excess.bytes() > 0 => self.charge = Some(excess),
            None => {}
        }
        let charged_bytes = self.charge.as_ref().map_or(0, Charge::bytes);
        self.paid_bytes = charged_bytes.max(FREE_TRANSACTION_BYTES);
    }

    /// Adds a run that was built beside the write set, which is empty.
    pub(crate) fn push_spilled(&mut self, table: TableId, spilled: Spilled) -> Result<()> {
        // The run's records were never put, so stretches that were empty may not be empty now.
        self.writes_mut().forget_known();
        self.with_funded_spills(|spills, reader, scratch| {
            spills.push(reader, &mut scratch.writes, &scratch.reads, table, spilled)
        })
    }

    /// Ensures that the memory of a write of `bytes` is charged before it is made.
    #[inline]
    pub(super) fn pay_for(&mut self, bytes: usize) -> Result<()> {
        let bytes = self.writes().footprint().held_bytes + bytes;
        if bytes <= self.paid_bytes { Ok(()) } else { self.pay(bytes) }
    }

    #[cold]
    fn pay(&mut self, bytes: usize) -> Result<()> {
        let charge = self.charge.take();
        let mut charge =
            charge.unwrap_or_else(|| Charge::none(self.store().account(), MemoryCategory::WriteSets));
        let can_spill = !self.writes().is_blank();
        let is_paid = self.store().raise_charge(&mut charge, bytes, can_spill);
        self.paid_bytes = self.paid_bytes.max(charge.bytes());
        self.charge = Some(charge);
        if is_paid { Ok(()) } else { Err(self.store().no_memory("the transaction", bytes)) }
    }

    /// Returns whether a commit would change something.
    pub fn has_writes(&self) -> bool {
        self.spills.is_some() || !self.writes().is_empty()
    }

    /// Returns the bytes that its writes hold in memory.
    pub fn bytes(&self) -> usize {
        self.writes().bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, RequestedLayout, Span, Store, Table, TransactionOptions};

    fn open(dir: &Arc<dyn io::Dir>, memory_bytes: usize) -> Arc<Store> {
        let options = Options { page_bytes: Some(4096), memory_bytes, ..Options::default() };
        crate::open_or_create(Arc::clone(dir), &options).unwrap()
    }

    fn begin(store: &Arc<Store>) -> Transaction {
        Transaction::begin(store, TransactionOptions::default()).unwrap()
    }

    fn commit(store: &Store, tx: Transaction) {
        store.acknowledge(tx.apply().unwrap()).unwrap();
    }

    fn new(memory_bytes: usize) -> (Arc<dyn io::Dir>, Arc<Store>, Table) {
        let dir: Arc<dyn io::Dir> = Arc::new(io::MemDir::new());
        let store = open(&dir, memory_bytes);
        let mut tx = begin(&store);
        let table = tx.create_table("t", RequestedLayout::BTree).unwrap();
        commit(&store, tx);
        (dir, store, table)
    }

    fn held(store: &Store, category: MemoryCategory) -> usize {
        store.account().held().bytes(category)
    }

    /// Deletes `count` ranges, none of which touches another.
    fn delete_ranges(tx: &mut Transaction, table: &Table, count: u32) -> Result<()> {
        (0..count).try_for_each(|n| {
            let (start, end) = ((2 * n).to_be_bytes(), (2 * n + 1).to_be_bytes());
            tx.delete_range(table, &Span::from(&start[..]..&end[..]))
        })
    }

    /// Returns the memory that a transaction uses, and must be charged: a part is free, and another for what it
    /// spilled.
    fn charged_bytes(tx: &Transaction) -> usize {
        let spilled_bytes = tx.spills.as_ref().map_or(0, |spills| spills.held_bytes());
        let free = |bytes: usize| bytes.saturating_sub(FREE_TRANSACTION_BYTES);
        free(tx.bytes()) + free(spilled_bytes)
    }

    #[test]
    fn range_deletes_of_open_transactions_are_charged() {
        let (_, store, table) = new(4 << 20);
        let mut all = Vec::new();
        let mut refused = 0;
        for _ in 0..64 {
            let mut tx = begin(&store);
            if let Err(error) = delete_ranges(&mut tx, &table, 3000) {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                refused += 1;
            }
            all.push(tx);
            let used: usize = all.iter().map(charged_bytes).sum();
            let held = held(&store, MemoryCategory::WriteSets);
            assert!(held >= used, "{held} bytes are charged for {used}");
            let budget = store.account().budget();
            assert!(budget.used_bytes() <= budget.limit_bytes());
        }
        assert!((1..56).contains(&refused), "{refused} were refused");
        drop(all.split_off(1));
        commit(&store, all.pop().unwrap());
        assert_eq!(held(&store, MemoryCategory::WriteSets), 0);
    }

    #[test]
    fn range_deletes_beyond_the_memory_of_writes_are_spilled_and_stay_charged() {
        let (dir, store, table) = new(8 << 20);
        let mut tx = begin(&store);
        (0..60_000_u32).for_each(|n| tx.put(&table, &n.to_be_bytes(), b"value").unwrap());
        commit(&store, tx);
        let mut tx = begin(&store);
        delete_ranges(&mut tx, &table, 30_000).unwrap();
        let spilled_bytes = tx.spills.as_ref().expect("it was spilled").held_bytes();
        assert!(held(&store, MemoryCategory::WriteSets) >= charged_bytes(&tx));
        let least_bytes = 2 * spilled_bytes / 3;
        let count = |store: &Arc<Store>| {
            let snapshot = store.snapshot().unwrap();
            let mut cursor = snapshot.cursor(&table, Span::all()).unwrap();
            std::iter::from_fn(|| cursor.advance().unwrap().then_some(())).count()
        };
        store.checkpoint().unwrap();
        commit(&store, tx);
        assert_eq!((count(&store), held(&store, MemoryCategory::WriteSets)), (30_000, 0));
        assert!(held(&store, MemoryCategory::Memtables) >= least_bytes);
        store.close().unwrap();
        let store = open(&dir, 8 << 20);
        assert_eq!(count(&store), 30_000);
        assert!(held(&store, MemoryCategory::Memtables) >= least_bytes, "also after a recovery");
        while store.checkpoint().unwrap() {}
        assert!(held(&store, MemoryCategory::Memtables) < least_bytes / 2, "only a credit is left");
        assert_eq!(count(&store), 30_000);
    }

    #[test]
    fn what_savepoints_keep_is_charged() {
        let (_, store, table) = new(4 << 20);
        let mut tx = begin(&store);
        let mut savepoints = Vec::new();
        for n in 0..8000_u32 {
            savepoints.push(tx.savepoint());
            tx.put(&table, &n.to_be_bytes(), &[1; 20]).unwrap();
            let (charged, held) = (charged_bytes(&tx), held(&store, MemoryCategory::WriteSets));
            assert!(held >= charged, "{held} bytes are charged for {charged}, after {n} puts");
        }
        let kept_bytes = tx.spills.as_ref().unwrap().held_bytes();
        assert!(kept_bytes > 1 << 20, "{kept_bytes}");
        tx.rollback_to(&savepoints[4000]).unwrap();
        assert!(held(&store, MemoryCategory::WriteSets) >= charged_bytes(&tx));
        tx.release(&savepoints[0]).unwrap();
        assert!(tx.spills.as_ref().unwrap().held_bytes() < 64 << 10);
        commit(&store, tx);
        assert_eq!(held(&store, MemoryCategory::WriteSets), 0);
        let snapshot = store.snapshot().unwrap();
        assert_eq!(snapshot.approximate_len(&table).unwrap(), 4000);
    }
}
