//! The store's part in its memory budget: what it reserves, what it charges, how it makes room.
//!
//! What happens when something needs memory and the budget has none:
//! 1. Page pools give way: this database's, and those of the others that share the budget
//!    ([`base::budget::Account::charge_making_room`]).
//! 2. Memtables are sealed early, of all databases that share the budget, and their [`Attendant`]s are told to have
//!    them merged now ([`base::budget::Budget::relieve`]).
//! 3. Whoever needs the memory waits for that, in short slices, if an attendant lets it.
//! 4. If nothing is left that could be given back, the transaction gets [`ErrorKind::Full`], which says what to raise.
//!
//! A checkpoint never waits for memory: what it cannot do without is in the account's reserve, from the opening on.

use crate::state::store::Store;
use base::budget::{Account, Charge, Given, Held, Holder, Member, Need};
use base::sync::lock;
use base::{Error, ErrorKind};
use memtable::{Memtable, Writer};
use pool::Pool;
use run::Editor;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// What a transaction may hold without being charged: most never reach it, and pay for their memory in nothing.
pub const FREE_TRANSACTION_BYTES: usize = 32 << 10;

/// What a database of such pages keeps of its budget from its opening on: the least dirty pages and buffers with which
/// a checkpoint gets along, and the pages that the pool may have beyond its limit.
pub fn reserve_bytes(page_bytes: usize) -> usize {
    Editor::least_bytes(page_bytes) + Pool::overdraft_bytes(page_bytes)
}

/// The smallest budget with which a database of such pages can be opened, in bytes: the [reserve](reserve_bytes), 40
/// pages; full memtables, 48; and as many for what a merge of runs reads, a page each. With 64 pages a database of LSM
/// tables could fill its memtables, crash, and find no page for the merge that its recovery begins with.
pub fn least_budget_bytes(page_bytes: usize) -> usize {
    (128 * page_bytes).max(1 << 20)
}

/// Who holds what of the memory budget, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The ceiling: of this database, or of all that share its budget.
    pub limit_bytes: u64,
    /// What is taken of it, by all that share it.
    pub used_bytes: u64,
    /// The most that was ever taken of it.
    pub peak_bytes: u64,
    /// The databases that share it.
    pub databases: u64,
    /// What this database holds, by holder.
    pub held: Held,
    /// What all databases that share the budget hold, by holder.
    pub held_by_all: Held,
}

/// Whoever does a store's background work. A store that has none never waits.
pub trait Attendant: Send + Sync {
    /// There are memtables to merge, and somebody waits for their memory. Called by any thread; returns at once.
    fn merge_soon(&self);
    /// Lets a moment pass, a millisecond or so. False: merging has stopped, or failed; waiting is of no use.
    fn wait_a_moment(&self) -> bool;
}

/// The attendant, once there is one.
#[derive(Default)]
pub(crate) struct Attended(OnceLock<Box<dyn Attendant>>);

impl fmt::Debug for Attended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attended({})", self.0.get().is_some())
    }
}

/// One wait for memory, moment by moment.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    moments: u32,
    /// Moments in which nobody had anything to merge.
    fruitless: u32,
}

/// So many moments without anything to merge are enough: what was merged is freed a moment later.
const FRUITLESS_MOMENTS: u32 = 8;
/// Nobody waits for more moments than this (some ten seconds), also if others keep taking what becomes free.
const MOST_MOMENTS: u32 = 10_000;

impl Member for Store {
    fn give_pages(&self, bytes: usize, need: Need) -> Given {
        self.pool.give(bytes, need)
    }

    fn relieve(&self) -> bool {
        let Some(attendant) = self.attended.0.get() else { return false };
        // Latched or open to read only, nothing is merged any more.
        let has_work = self.latch.check().is_ok() && self.seal_early();
        if has_work {
            attendant.merge_soon();
        }
        has_work
    }
}

impl Store {
    /// Who does the background work. Once.
    pub fn set_attendant(&self, attendant: Box<dyn Attendant>) {
        assert!(self.attended.0.set(attendant).is_ok(), "a store has one attendant");
    }

    /// Step 3 of the module's: answers whether it is worth trying again. The caller holds no lock.
    #[cold]
    pub(crate) fn wait_for_memory(&self, patience: &mut Patience) -> bool {
        let Some(attendant) = self.attended.0.get() else { return false };
        patience.moments += 1;
        if !self.account.budget().relieve() {
            patience.fruitless += 1;
        }
        let is_over = patience.fruitless > FRUITLESS_MOMENTS || patience.moments > MOST_MOMENTS;
        !is_over && self.latch.check().is_ok() && !self.is_closed() && attendant.wait_a_moment()
    }

    /// Whether anybody makes checkpoints.
    pub(crate) fn attended(&self) -> bool {
        self.attended.0.get().is_some()
    }

    /// Says to whoever makes checkpoints that there may be something to do.
    pub(crate) fn merge_soon(&self) {
        if let Some(attendant) = self.attended.0.get() {
            attendant.merge_soon();
        }
    }

    /// Has sealed memtables merged, and waits for a moment. False: nobody merges, or merging has failed. The caller
    /// holds no lock.
    pub(crate) fn merge_a_moment(&self) -> bool {
        let Some(attendant) = self.attended.0.get() else { return false };
        if self.latch.check().is_err() || self.is_closed() {
            return false;
        }
        if self.seal_early() {
            attendant.merge_soon();
        }
        attendant.wait_a_moment()
    }

    /// Makes `charge` at least `bytes`, whatever has to give way or be waited for; false if that was in vain.
    pub(crate) fn raise_charge(&self, charge: &mut Charge, bytes: usize) -> bool {
        let mut patience = Patience::default();
        loop {
            // An eighth more, if it is to be had, so that what grows is raised seldom.
            if charge.resize(bytes + bytes / 8) || charge.resize(bytes) {
                return true;
            }
            if !self.wait_for_memory(&mut patience) {
                return false;
            }
        }
    }

    /// The account of this database in its budget.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Who holds what of the budget.
    pub fn memory(&self) -> MemoryStats {
        let budget = self.account.budget();
        MemoryStats {
            limit_bytes: budget.limit_bytes() as u64,
            used_bytes: budget.used_bytes() as u64,
            peak_bytes: budget.peak_bytes() as u64,
            databases: budget.members() as u64,
            held: self.account.held(),
            held_by_all: budget.held(),
        }
    }

    /// A memtable whose memory is charged, and first to `credit`.
    pub(crate) fn new_memtable(&self, credit: Option<Charge>) -> (Arc<Memtable>, Writer) {
        charged_memtable(&self.account, credit, self.shares.memtable_chunk_bytes)
    }

    /// Seals the open memtable, unless others are sealed already, although it is not full: so that its memory can be
    /// given back after a checkpoint. Answers whether anything is sealed now.
    pub fn seal_early(&self) -> bool {
        if self.pressure().sealed == 0 && !self.is_closed() {
            self.seal(&mut lock(&self.committer));
        }
        self.pressure().sealed > 0
    }

    /// What a transaction is told that finds no memory, and none that could be given back: `bytes` is what it needs. If
    /// that is because nothing is merged any more, it is told why.
    #[cold]
    pub(crate) fn no_memory(&self, what: &str, bytes: usize) -> Error {
        if let Err(stopped) = self.check_open().and_then(|()| self.latch.check()) {
            return stopped;
        }
        let MemoryStats { limit_bytes, used_bytes, held_by_all, .. } = self.memory();
        let holders = Holder::ALL.map(|holder| format!("{} {}", holder.name(), held_by_all.of(holder)));
        Error::new(
            ErrorKind::Full,
            format!(
                "{what} needs {bytes} bytes of memory; the budget of {limit_bytes} has {used_bytes} in use \
                 ({}): make the transaction smaller, end old snapshots, or raise memory_bytes (on the \
                 command line --memory)",
                holders.join(", ")
            ),
        )
    }
}

/// A memtable charged to `account`.
pub(crate) fn charged_memtable(
    account: &Arc<Account>,
    credit: Option<Charge>,
    chunk_bytes: usize,
) -> (Arc<Memtable>, Writer) {
    let credit = credit.unwrap_or_else(|| Charge::none(account, Holder::Memtables));
    Memtable::charged(credit, chunk_bytes)
}

/// What a checkpoint may hold in dirty pages beyond the reserve: its share, or what the budget has of it.
pub(crate) fn dirty_pages_charge(account: &Arc<Account>, share_bytes: usize) -> Charge {
    let mut bytes = share_bytes.saturating_sub(account.reserve_bytes());
    while bytes >= 256 << 10 {
        if let Some(charge) = account.charge_making_room(Holder::Checkpoint, bytes) {
            return charge;
        }
        bytes /= 2;
    }
    Charge::none(account, Holder::Checkpoint)
}
