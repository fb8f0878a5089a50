//! The store's part in its memory budget: what it reserves, what it charges, how it makes room.
//!
//! What happens when something needs memory and the budget has none:
//! 1. Page pools give way: this database's, and those of the others that share the budget
//!    ([`base::budget::Account::charge_making_room`]).
//! 2. Memtables are sealed early, of all databases that share the budget, and their [`Attendant`]s are asked to have
//!    them merged now ([`base::budget::Budget::relieve`]).
//! 3. The thread that needs the memory waits for that, in short slices, if an attendant lets it.
//! 4. If nothing is left that could be given back, the transaction gets [`base::ErrorKind::Full`], which says what to
//!    raise.
//!
//! A checkpoint never waits for memory: what it cannot do without is in the account's reserve, from the opening on.

mod make_room;

use crate::state::options::Shares;
use base::budget::{Account, Charge, Held, Holder};
use base::sync::lock;
use memtable::{Memtable, Writer};
use pool::Pool;
use run::Editor;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

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

/// The use of the memory budget, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The limit, of this database or of all that share the budget.
    pub limit_bytes: u64,
    /// How much is in use, by all that share it.
    pub used_bytes: u64,
    /// The highest use so far.
    pub peak_bytes: u64,
    /// How many databases share the budget.
    pub databases: u64,
    /// How much this database uses, by holder.
    pub held: Held,
    /// How much all databases that share the budget use, by holder.
    pub held_by_all: Held,
}

/// Does a store's background work. A store that has none never waits.
pub trait Attendant: Send + Sync {
    /// There are memtables to merge, and somebody waits for their memory. Called by any thread; returns at once.
    fn merge_soon(&self);
    /// Lets a moment pass, a millisecond or so. False: merging has stopped, or failed; waiting is of no use.
    fn wait_a_moment(&self) -> bool;
}

/// What a store holds of its budget, and may hold for what.
pub(crate) struct Memory {
    /// What all that it holds is charged to.
    pub account: Arc<Account>,
    /// How much each purpose may take.
    pub shares: Shares,
    /// The mapping of the log's newest segment counts as memory.
    log: Mutex<Charge>,
    /// Once there is one.
    attendant: OnceLock<Box<dyn Attendant>>,
}

impl Memory {
    /// Memory of `account`, in which a segment of the log of `mapped_bytes` is mapped.
    pub fn new(account: Arc<Account>, shares: Shares, mapped_bytes: usize) -> Memory {
        // The pools of other databases give way. Where they have nothing, it is charged all the same: it is mapped.
        let log = account.charge_making_room(Holder::Log, mapped_bytes);
        let log = log.unwrap_or_else(|| account.charge_by_force(Holder::Log, mapped_bytes));
        Memory { account, shares, log: Mutex::new(log), attendant: OnceLock::new() }
    }

    /// Who does the background work, if anybody does.
    pub fn attendant(&self) -> Option<&dyn Attendant> {
        self.attendant.get().map(|attendant| &**attendant)
    }

    /// No segment of the log is mapped any more.
    pub fn give_back_log(&self) {
        lock(&self.log).shrink_to(0);
    }

    /// A memtable whose memory is charged, and first to `credit`.
    pub fn new_memtable(&self, credit: Option<Charge>) -> (Arc<Memtable>, Writer) {
        charged_memtable(&self.account, credit, self.shares.memtable_chunk_bytes)
    }

    /// What a checkpoint may hold in dirty pages beyond the reserve: its share, or what the budget has of it.
    pub fn charge_dirty_pages(&self) -> Charge {
        let mut bytes = self.shares.dirty_bytes.saturating_sub(self.account.reserve_bytes());
        while bytes >= 256 << 10 {
            if let Some(charge) = self.account.charge_making_room(Holder::Checkpoint, bytes) {
                return charge;
            }
            bytes /= 2;
        }
        Charge::none(&self.account, Holder::Checkpoint)
    }

    /// Who holds what of the budget.
    pub fn stats(&self) -> MemoryStats {
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
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("stats", &self.stats())
            .field("shares", &self.shares)
            .finish_non_exhaustive()
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

/// A memtable charged to `account`.
pub(crate) fn charged_memtable(
    account: &Arc<Account>,
    credit: Option<Charge>,
    chunk_bytes: usize,
) -> (Arc<Memtable>, Writer) {
    let credit = credit.unwrap_or_else(|| Charge::none(account, Holder::Memtables));
    Memtable::charged(credit, chunk_bytes)
}
