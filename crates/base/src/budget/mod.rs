//! A memory limit that many databases share. Each database has an account that records which category uses how much.
//!
//! ```text
//!   Budget (the ceiling, bytes in use) ◄── Account, one a database (bytes by category) ◄── Charge (some bytes, held)
//! ```
//! 1. Memory is charged before it is allocated and released after it was freed, by chunks and never by operations. An
//!    arena, a chunk of a pool or a checkpoint holds a [`Charge`], and dropping the charge releases the bytes. So the
//!    accounts always agree with the chunks that exist.
//! 2. A charge that would exceed the limit is refused. A caller that can wait for memory calls
//!    [`Account::charge_making_room`], which first asks the databases that share the budget to free memory: idle chunks
//!    of any of them, then the least used pages.
//! 3. A charge that cannot be refused (a commit that is in the log must be applied in memory) is reserved beforehand.
//!    If an estimate was a few bytes too low, the rest is charged by force and counted: [`Account::charge_by_force`].
//! 4. Each account keeps a small *reserve* for as long as it exists: the least that one checkpoint and one read need.
//!    So memory can always be freed, however full the budget is.
//!
//! The budget holds no lock while it asks a database to free memory: [`Member`]'s methods take the locks of their own
//! database.

mod account;
mod charge;
mod kept;

pub use account::{Account, Held, Member};
pub use charge::Charge;
pub use kept::KeptPage;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use crate::{Error, ErrorKind, Result};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MemoryCategory {
    /// Pages in memory, and the tables that find them.
    Pool,
    /// Memtables: open, sealed, and those kept for snapshots and as conflict history, including memory reserved by
    /// commits in progress.
    Memtables,
    /// Writes and reads of uncommitted transactions, and their commit records.
    WriteSets,
    /// Dirty pages and buffers of a checkpoint, and the reserve for the next one.
    Checkpoint,
    /// Buffers used while an open replays the log.
    Recovery,
    /// The mapping of the newest log segment.
    Log,
    /// Filters of LSM tables that are kept in memory.
    Filters,
    /// Memory of merged memtables that is kept for the next ones.
    IdleChunks,
}

impl MemoryCategory {
    /// The number of categories.
    pub const COUNT: usize = 8;
    /// All categories, in the order of their numbers.
    pub const ALL: [MemoryCategory; MemoryCategory::COUNT] = [
        MemoryCategory::Pool,
        MemoryCategory::Memtables,
        MemoryCategory::WriteSets,
        MemoryCategory::Checkpoint,
        MemoryCategory::Recovery,
        MemoryCategory::Log,
        MemoryCategory::Filters,
        MemoryCategory::IdleChunks,
    ];

    /// Returns the name: `pool`, `memtables`, `write_sets`, `checkpoint`, `recovery`, `log`, `filters` or
    /// `idle_chunks`.
    pub fn name(self) -> &'static str {
        match self {
            MemoryCategory::Pool => "pool",
            MemoryCategory::Memtables => "memtables",
            MemoryCategory::WriteSets => "write_sets",
            MemoryCategory::Checkpoint => "checkpoint",
            MemoryCategory::Recovery => "recovery",
            MemoryCategory::Log => "log",
            MemoryCategory::Filters => "filters",
            MemoryCategory::IdleChunks => "idle_chunks",
        }
    }
}

/// The urgency with which memory is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Another database needs memory for pages: evict pages that were not used lately.
    Wish,
    /// A caller waits and cannot continue without the memory: evict the least used pages, but leave some frames if that
    /// costs the budget little.
    Must,
    /// The database is closed: free everything that no reader holds.
    All,
}

/// The number of times that a charge asks for memory before it is refused. Each round waits for calls that use pages at
/// this moment, which takes microseconds.
const ROUNDS: usize = 64;
/// How often an account that is opened asks for its reserve, and how often if only merges could make room for it; and
/// the pause between.
const JOIN_ATTEMPTS: usize = 50;
const JOIN_ATTEMPTS_MERGING: usize = 10;
const JOIN_PAUSE: Duration = Duration::from_millis(10);

/// A memory limit in bytes, and how much of it is in use.
///
/// ```
/// use pando_base::budget::{Budget, MemoryCategory};
/// let budget = Budget::new(100);
/// let account = budget.join("a database", 10)?;
/// let pages = account.charge(MemoryCategory::Pool, 60).unwrap();
/// assert!(account.charge(MemoryCategory::Memtables, 40).is_none(), "the reserve counts");
/// assert_eq!((budget.used_bytes(), account.held().bytes(MemoryCategory::Pool)), (70, 60));
/// drop(pages);
/// drop(account);
/// assert_eq!(budget.used_bytes(), 0);
/// # pando_base::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// The highest number of bytes in use so far.
    peak: AtomicUsize,
    held: [AtomicUsize; MemoryCategory::COUNT],
    accounts: Mutex<Vec<Weak<Account>>>,
    kept_pages: kept::KeptPages,
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        let (used, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let held = std::array::from_fn(|_| AtomicUsize::new(0));
        let (accounts, kept_pages) = (Mutex::new(Vec::new()), kept::KeptPages::default());
        Arc::new(Budget { limit, used, peak, held, accounts, kept_pages })
    }

    /// Returns the right to keep one more page pinned, unless readers keep `most` pages of this budget's databases.
    #[inline]
    pub fn keep_page(&self, most: usize) -> Option<KeptPage> {
        self.kept_pages.keep(most)
    }

    /// Opens an account, which holds `reserve` bytes until it is dropped. `name` appears in messages. If the reserve
    /// would fit without the pages of pools, it waits for up to half a second: threads that read at this moment may
    /// take what others' pools give up. If it would not, it waits for up to a tenth of a second while members merge
    /// memtables or shorten their logs.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] if the reserve does not fit within the limit.
    pub fn join(self: &Arc<Self>, name: impl Into<String>, reserve: usize) -> Result<Arc<Account>> {
        let account = Arc::new(Account::new(Arc::clone(self), name.into()));
        let Some(charge) = self.reserve(&account, reserve) else {
            let (limit, used) = (self.limit, self.used_bytes());
            let message = format!(
                "the memory budget of {limit} bytes has {used} in use; another database needs a reserve of \
                 {reserve}: raise the budget, or let fewer databases share it"
            );
            return Err(Error::new(ErrorKind::Full, message));
        };
        account.keep_reserve(charge);
        let mut accounts = lock(&self.accounts);
        accounts.retain(|account| account.strong_count() > 0);
        accounts.push(Arc::downgrade(&account));
        drop(accounts);
        Ok(account)
    }

    fn reserve(&self, account: &Arc<Account>, bytes: usize) -> Option<Charge> {
        for attempt in 1..=JOIN_ATTEMPTS {
            let charge = account.charge_making_room(MemoryCategory::Checkpoint, bytes);
            let is_firm = || self.firm_bytes() + bytes > self.limit;
            if charge.is_some() || is_firm() && (attempt > JOIN_ATTEMPTS_MERGING || !self.relieve()) {
                return charge;
            }
            std::thread::sleep(JOIN_PAUSE);
        }
        None
    }

    /// Returns the limit in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.limit
    }

    /// Returns how many bytes are in use.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// Returns the highest use so far in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }

    /// Returns how many accounts are open.
    pub fn members(&self) -> usize {
        self.accounts().len()
    }

    /// Returns how much each category uses, over all accounts.
    pub fn held(&self) -> Held {
        Held(std::array::from_fn(|at| self.held[at].load(Ordering::SeqCst)))
    }

    /// Returns how many bytes all accounts use for `category`. It costs one load.
    #[inline]
    pub fn held_as(&self, category: MemoryCategory) -> usize {
        self.held[category as usize].load(Ordering::SeqCst)
    }

    /// Returns how many bytes are in use that are not given up when others need memory: all but pages and idle chunks.
    pub fn firm_bytes(&self) -> usize {
        let yielding = self.held_as(MemoryCategory::Pool) + self.held_as(MemoryCategory::IdleChunks);
        self.used_bytes().saturating_sub(yielding)
    }

    /// Asks every member to merge its memtables soon, or to shorten an idle log, because a caller waits for their
    /// memory. Returns whether any member has something to do.
    pub fn relieve(&self) -> bool {
        let relieve = |account: &Arc<Account>| account.with_member(|member| member.relieve()) == Some(true);
        // All members are asked, also those after the first that has something.
        self.accounts().iter().filter(|account| relieve(account)).count() > 0
    }

    fn accounts(&self) -> Vec<Arc<Account>> {
        lock(&self.accounts).iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes `bytes` if they fit within the limit.
    fn take(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        let taken = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        // Relaxed: a statistic.
        let note = |used: &usize| _ = self.peak.fetch_max(used + bytes, Ordering::Relaxed);
        taken.inspect(note).is_ok()
    }

    fn take_by_force(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.peak.fetch_max(used, Ordering::Relaxed); // Relaxed: a statistic.
    }

    fn give_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        assert!(before >= bytes, "more memory was released than was charged");
    }

    /// Takes `bytes` after others have freed enough. Returns false if they cannot.
    fn take_making_room(&self, bytes: usize) -> bool {
        if bytes > self.limit {
            return false;
        }
        for _ in 0..ROUNDS {
            if self.take(bytes) {
                return true;
            }
            let missing = (self.used_bytes() + bytes).saturating_sub(self.limit);
            match self.have_memory_given(missing, Need::Must, None) {
                Given::Bytes(0) => break,
                Given::Bytes(_) => {}
                Given::Soon => pause(),
            }
        }
        self.take(bytes)
    }

    /// Asks for `bytes`: idle chunks of all databases, then pages, of the largest pool first. The pool of account `but`
    /// is not asked.
    fn have_memory_given(&self, bytes: usize, need: Need, but: Option<&Account>) -> Given {
        let mut accounts = self.accounts();
        let mut given = 0;
        for account in &accounts {
            if given >= bytes || self.held_as(MemoryCategory::IdleChunks) == 0 {
                break;
            }
            given += account.with_member(|member| member.give_idle(bytes - given)).unwrap_or(0);
        }
        accounts.retain(|account| but.is_none_or(|but| !std::ptr::eq(but, &**account)));
        accounts.sort_by_key(|account| std::cmp::Reverse(account.held().bytes(MemoryCategory::Pool)));
        let mut soon = false;
        for account in accounts {
            if given >= bytes {
                break;
            }
            match account.with_member(|member| member.give_pages(bytes - given, need)) {
                Some(Given::Bytes(more)) => given += more,
                Some(Given::Soon) => soon = true,
                None => {}
            }
        }
        if given == 0 && soon { Given::Soon } else { Given::Bytes(given) }
    }
}

/// The result of asking for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// This many bytes were freed. 0 means that no bytes can be freed.
    Bytes(usize),
    /// No bytes were freed yet: calls that use pages at this moment must return first.
    Soon,
}

fn pause() {
    crate::sync::spin();
    if cfg!(not(any(loom, shuttle))) {
        std::thread::yield_now();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
