//! The memory of a transaction's writes: it is charged before it is used, and freed by spilling.

use super::Transaction;
use crate::read::handle::Admitted;
use crate::state::memory::FREE_TRANSACTION_BYTES;
use crate::uncommitted::spill::{Spilled, Spills};
use crate::uncommitted::write_set::{Footprint, WRITE_COST};
use base::budget::{Charge, MemoryCategory};
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
        // Others lack memory as well. What savepoints keep stays in memory.
        if self.spills.as_ref().is_none_or(|spills| spills.frozen_bytes() == 0) {
            self.charge = None;
            self.paid_bytes = FREE_TRANSACTION_BYTES;
        }
        Ok(())
    }

    /// Writes the data in memory to the data file, as runs of this transaction, and forgets what was rolled back.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] and errors of writing: the write that needed room is not done, and all others are as before.
    #[cold]
    pub fn spill(&mut self) -> Result<()> {
        self.latch_check()?;
        let store = Arc::clone(self.store());
        let spills = self.spills.get_or_insert_with(|| Box::new(Spills::new(&store)));
        let scratch = self.scratch.as_mut().expect("taken by drop alone");
        spills.spill(self.snapshot.reader(), &mut scratch.writes, &scratch.reads)
    }

    /// Adds a run that was built beside the write set, which is empty.
    pub(crate) fn push_spilled(&mut self, table: TableId, spilled: Spilled) -> Result<()> {
        let store = Arc::clone(self.store());
        let spills = self.spills.get_or_insert_with(|| Box::new(Spills::new(&store)));
        let scratch = self.scratch.as_mut().expect("taken by drop alone");
        // The run's records were never put, so stretches that were empty may not be empty now.
        scratch.writes.forget_known();
        spills.push(self.snapshot.reader(), &mut scratch.writes, &scratch.reads, table, spilled)
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
