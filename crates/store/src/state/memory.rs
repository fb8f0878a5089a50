//! The store's part in its memory budget: reserves, charges, and making room.
//!
//! If something needs memory and the budget has none:
//! 1. Chunks that merged memtables left are freed, and page pools evict pages: this database's, and those of the others
//!    that share the budget
//!    ([`base::budget::Account::charge_making_room`]).
//! 2. The memtables of all databases that share the budget are sealed early, and their [`Attendant`]s are asked to
//!    merge them now ([`base::budget::Budget::relieve`]).
//! 3. The thread that needs the memory waits for that, in short slices, if an attendant allows it: shortly, if its
//!    transaction has writes that can be spilled.
//! 4. If nothing is left that could be freed, the transaction spills its writes. If it has none, it gets
//!    [`base::ErrorKind::Full`], which names the option to raise.
//!
//! A checkpoint never waits for memory: the least that it needs is in the account's reserve, from the opening on.

mod log_charge;
mod make_room;

use crate::state::options::Shares;
use base::budget::{Account, Charge, Held, MemoryCategory};
use log::Log;
use memtable::{IdleChunks, Memtable, Writer};
use pool::Pool;
use run::Editor;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

/// The memory that a transaction may hold without being charged: most stay below it, and pay nothing.
pub const FREE_TRANSACTION_BYTES: usize = 32 << 10;

/// Returns how much a database with such pages reserves of its budget from its opening on: the least dirty pages and
/// buffers that a checkpoint needs, and the pages that the pool may have beyond its limit.
pub fn reserve_bytes(page_bytes: usize) -> usize {
    Editor::least_bytes(page_bytes) + Pool::overdraft_bytes(page_bytes)
}

/// Returns the smallest budget with which a database with such pages can be opened, in bytes: the
/// [reserve](reserve_bytes), 40 pages; full memtables, 48; and as many for what a merge of runs reads, a page each.
/// With 64 pages a database of LSM tables could fill its memtables, crash, and find no page for the merge that its
/// recovery begins with.
pub fn least_budget_bytes(page_bytes: usize) -> usize {
    (128 * page_bytes).max(1 << 20)
}

/// The use of the memory budget, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The limit in bytes, of this database or of all that share the budget.
    pub limit_bytes: u64,
    /// The number of bytes in use, by all databases that share the budget.
    pub used_bytes: u64,
    /// The highest number of bytes in use so far.
    pub peak_bytes: u64,
    /// The number of databases that share the budget.
    pub databases: u64,
    /// The bytes that this database uses, by category.
    pub held: Held,
    /// The bytes that all databases that share the budget use, by category.
    pub held_by_all: Held,
}

/// The thread that does a store's background work. A store without one never waits.
pub trait Attendant: Send + Sync {
    /// Notes that there are memtables to merge, and that a thread waits for their memory. Any thread may call it; it
    /// returns at once.
    fn merge_soon(&self);
    /// Waits for about a millisecond. Returns false if merging has stopped or failed, so that waiting is useless.
    fn wait_a_moment(&self) -> bool;
}

/// The store's account of its budget.
pub(crate) struct Memory {
    /// The account to which everything that the store holds is charged.
    pub account: Arc<Account>,
    /// The memory that each purpose may take.
    pub shares: Shares,
    /// The memory of merged memtables, for the next ones.
    pub idle: Arc<IdleChunks>,
    /// The charge for the mapping of the log's newest segment: see `log_charge`.
    log: Mutex<Charge>,
    /// The attendant, once there is one.
    attendant: OnceLock<Box<dyn Attendant>>,
}

impl Memory {
    /// Creates the memory of `account`, with a log that has a segment mapped already if it maps any.
    pub fn new(account: Arc<Account>, shares: Shares, log: &Log) -> Memory {
        let log = log_charge::charge_opened(&account, log);
        let idle = IdleChunks::new(&account, shares.seal_bytes);
        Memory { account, shares, idle, log: Mutex::new(log), attendant: OnceLock::new() }
    }

    /// Returns the attendant, if there is one.
    pub fn attendant(&self) -> Option<&dyn Attendant> {
        self.attendant.get().map(|attendant| &**attendant)
    }

    /// Creates a memtable whose memory is charged, first to `allowance`.
    pub fn new_memtable(&self, allowance: Option<Charge>) -> (Arc<Memtable>, Writer) {
        let allowance = allowance.unwrap_or_else(|| Charge::none(&self.account, MemoryCategory::Memtables));
        Memtable::reusing(allowance, self.shares.memtable_chunk_bytes, &self.idle)
    }

    /// Charges the dirty pages of a checkpoint beyond the reserve: its share, or what the budget has of it.
    pub fn charge_dirty_pages(&self) -> Charge {
        let mut bytes = self.shares.dirty_bytes.saturating_sub(self.account.reserve_bytes());
        while bytes >= 256 << 10 {
            if let Some(charge) = self.account.charge_making_room(MemoryCategory::Checkpoint, bytes) {
                return charge;
            }
            bytes /= 2;
        }
        Charge::none(&self.account, MemoryCategory::Checkpoint)
    }

    /// Returns the use of the budget by category.
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

/// One wait for memory, in short slices.
#[derive(Debug)]
pub(crate) struct Patience {
    moments: u32,
    most_moments: u32,
    /// The number of slices in which there was nothing to merge.
    fruitless: u32,
}

impl Patience {
    /// Begins a wait. It is short if there is another way than waiting.
    pub fn new(is_short: bool) -> Patience {
        let most_moments = if is_short { SHORT_MOMENTS } else { MOST_MOMENTS };
        Patience { moments: 0, most_moments, fruitless: 0 }
    }
}

/// The number of slices without anything to merge after which a wait ends: merged memory is freed a moment later.
const FRUITLESS_MOMENTS: u32 = 8;
/// The greatest number of slices of a wait (some ten seconds), even if others keep taking what becomes free.
const MOST_MOMENTS: u32 = 10_000;
/// The greatest number of slices of a wait if spilling is possible (some 50 ms): each transaction that waits may hold
/// memory that the others wait for.
const SHORT_MOMENTS: u32 = 50;
