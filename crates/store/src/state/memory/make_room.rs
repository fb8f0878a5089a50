//! How a store makes room for memory: the steps of the module.

use super::{Attendant, FRUITLESS_MOMENTS, MemoryStats, Patience};
use crate::state::store::Store;
use base::budget::{Account, Charge, Given, Member, MemoryCategory, Need};
use base::sync::lock;
use base::{Error, ErrorKind};
use std::sync::Arc;

/// The part of the budget that the writes of all transactions may take in memory. The rest is for memtables, for the
/// checkpoint that merges them, and for the pages that all of these and spilling itself need.
const WRITE_SETS_PART: usize = 4;

impl Member for Store {
    fn give_idle(&self, bytes: usize) -> usize {
        self.memory.idle.give(bytes)
    }

    fn give_pages(&self, bytes: usize, need: Need) -> Given {
        self.pool.give(bytes, need)
    }

    fn relieve(&self) -> bool {
        let Some(attendant) = self.memory.attendant() else { return false };
        // If the store is latched or read-only, nothing is merged.
        let has_work = self.latch.check().is_ok() && (self.seal_early() | self.has_idle_log());
        if has_work {
            attendant.merge_soon();
        }
        has_work
    }
}

impl Store {
    /// Sets the attendant, once.
    pub fn set_attendant(&self, attendant: Box<dyn Attendant>) {
        assert!(self.memory.attendant.set(attendant).is_ok(), "a store has one attendant");
    }

    /// Waits a moment for the memory that merges free (step 3 of the module). Returns whether it is worth trying again.
    /// The caller holds no lock.
    #[cold]
    pub(crate) fn wait_for_memory(&self, patience: &mut Patience) -> bool {
        let Some(attendant) = self.memory.attendant() else { return false };
        patience.moments += 1;
        if !self.memory.account.budget().relieve() {
            patience.fruitless += 1;
        }
        let is_over = patience.fruitless > FRUITLESS_MOMENTS || patience.moments > patience.most_moments;
        !is_over && self.latch.check().is_ok() && !self.is_closed() && attendant.wait_a_moment()
    }

    /// Asks the attendant to merge if there may be something to do.
    pub(crate) fn merge_soon(&self) {
        if let Some(attendant) = self.memory.attendant() {
            attendant.merge_soon();
        }
    }

    /// Asks for a merge of sealed memtables, and waits for a moment. Returns false if nothing merges, or merging has
    /// failed. The caller holds no lock.
    pub(crate) fn merge_a_moment(&self) -> bool {
        let Some(attendant) = self.memory.attendant() else { return false };
        if self.latch.check().is_err() || self.is_closed() {
            return false;
        }
        if self.seal_early() {
            attendant.merge_soon();
        }
        attendant.wait_a_moment()
    }

    /// Makes the `charge` of a transaction at least `bytes`, after evictions and waits if necessary. Returns false if
    /// that failed, and, if its writes can be spilled, if those of all transactions would take too much.
    pub(crate) fn raise_charge(&self, charge: &mut Charge, bytes: usize, can_spill: bool) -> bool {
        let budget = self.memory.account.budget();
        let others_bytes = budget.held().bytes(MemoryCategory::WriteSets).saturating_sub(charge.bytes());
        if can_spill && others_bytes + bytes > budget.limit_bytes() / WRITE_SETS_PART {
            return false;
        }
        let mut patience = Patience::new(can_spill);
        loop {
            // An eighth more is charged if possible, so that a growing charge is raised seldom.
            if charge.resize(bytes + bytes / 8) || charge.resize(bytes) {
                return true;
            }
            if !self.wait_for_memory(&mut patience) {
                return false;
            }
        }
    }

    /// Returns the account of this database in its budget.
    pub fn account(&self) -> &Arc<Account> {
        &self.memory.account
    }

    /// Frees memory of merged memtables that no other one needed lately. Call it four times a second.
    pub fn rest_memory(&self) {
        self.memory.idle.rest();
    }

    /// Returns the use of the budget by category.
    pub fn memory(&self) -> MemoryStats {
        self.memory.stats()
    }

    /// Seals the open memtable although it is not full, unless others are sealed already, so that a checkpoint can free
    /// its memory. What was charged ahead is released. Returns whether anything is sealed now.
    pub fn seal_early(&self) -> bool {
        if self.pressure().sealed == 0 && !self.is_closed() {
            let mut committer = lock(&self.committer);
            committer.writer.shrink_credit(0);
            self.seal(&mut committer);
        }
        self.pressure().sealed > 0
    }

    /// Returns the error of a transaction that finds no memory, and none that could be freed; it needs `bytes`. If the
    /// cause is that merging has stopped, the error says so.
    #[cold]
    pub(crate) fn no_memory(&self, what: &str, bytes: usize) -> Error {
        if let Err(stopped) = self.check_open().and_then(|()| self.latch.check()) {
            return stopped;
        }
        let MemoryStats { limit_bytes, used_bytes, held_by_all, .. } = self.memory.stats();
        let categories = MemoryCategory::ALL
            .map(|category| format!("{} {}", category.name(), held_by_all.bytes(category)));
        Error::new(
            ErrorKind::Full,
            format!(
                "{what} needs {bytes} more bytes of memory; of the budget of {limit_bytes} bytes, \
                 {used_bytes} are in use \
                 ({}): make the transaction smaller, drop old snapshots, or raise memory_bytes (on the \
                 command line --memory)",
                categories.join(", ")
            ),
        )
    }
}
