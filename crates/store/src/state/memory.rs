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

use base::budget::{Account, Charge, Held, Holder};
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
