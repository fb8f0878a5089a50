//! One ceiling on memory, shared by many databases, each with an account that says who holds what.
//!
//! ```text
//!   Budget (the ceiling, bytes in use) ◄── Account, one a database (bytes by holder) ◄── Charge (some bytes, held)
//! ```
//! 1. Memory is charged before it is taken and released after it was freed, by chunks and never by operations: a
//!    [`Charge`] is what an arena, a pool's chunk or a checkpoint holds, and dropping it is the release. So the
//!    books cannot lose a byte that some chunk still has, nor keep one that none has.
//! 2. A charge that would pass the ceiling is refused. Whoever can wait for room calls [`Account::charge_making_room`],
//!    which has pools give memory back first: the pages least used, of whichever database that shares the budget.
//! 3. What cannot be refused (a commit that is in the log must go into memory) is reserved beforehand. The few bytes
//!    by which an estimate may fall short are charged by force and counted, see [`Account::charge_by_force`].
//! 4. Each account keeps a small *reserve* from its beginning to its end: what one checkpoint and one read need at
//!    least, so that memory can always be given back, however full the budget is.
//!
//! No lock is held while a pool is asked to give: [`Member`]'s methods take the locks of their own database.

mod account;
mod charge;

pub use account::{Account, Held, Member};
pub use charge::Charge;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use crate::{Error, ErrorKind, Result};
use std::sync::{Arc, Weak};

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// Pages in memory, and what finds them.
    Pool,
    /// Memtables: open, sealed, and those kept for snapshots and as conflict history. What commits under way have
    /// reserved counts too.
    Memtables,
    /// Writes and reads of transactions that are not committed, and their commit records.
    WriteSets,
    /// Dirty pages and buffers of a checkpoint, and the reserve for the next.
    Checkpoint,
    /// Buffers of an opening that replays the log.
    Recovery,
    /// The mapping of the log's newest segment.
    Log,
}

impl Holder {
    /// How many there are.
    pub const COUNT: usize = 6;
    /// All of them, as they are numbered.
    pub const ALL: [Holder; Holder::COUNT] = [
        Holder::Pool,
        Holder::Memtables,
        Holder::WriteSets,
        Holder::Checkpoint,
        Holder::Recovery,
        Holder::Log,
    ];

    /// One word for lists: `pool`, `memtables`, `write_sets`, `checkpoint`, `recovery`, `log`.
    pub fn name(self) -> &'static str {
        match self {
            Holder::Pool => "pool",
            Holder::Memtables => "memtables",
            Holder::WriteSets => "write_sets",
            Holder::Checkpoint => "checkpoint",
            Holder::Recovery => "recovery",
            Holder::Log => "log",
        }
    }
}

/// How hard memory is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// For another database's pages: give what was not used lately.
    Wish,
    /// Something waits that cannot do without: give what is used least.
    Must,
}

/// How often a charge that makes room asks again before it is refused: each round waits for calls that look at pages
/// just now, which lasts microseconds.
const ROUNDS: usize = 64;

/// A ceiling in bytes, and how much of it is taken.
///
/// ```
/// use pando_base::budget::{Budget, Holder};
/// let budget = Budget::new(100);
/// let account = budget.join("a database", 10)?;
/// let pages = account.charge(Holder::Pool, 60).unwrap();
/// assert!(account.charge(Holder::Memtables, 40).is_none(), "the reserve counts");
/// assert_eq!((budget.used_bytes(), account.held().of(Holder::Pool)), (70, 60));
/// drop(pages);
/// drop(account);
/// assert_eq!(budget.used_bytes(), 0);
/// # pando_base::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// The most that was ever taken.
    peak: AtomicUsize,
    held: [AtomicUsize; Holder::COUNT],
    accounts: Mutex<Vec<Weak<Account>>>,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        let (used, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let held = std::array::from_fn(|_| AtomicUsize::new(0));
        Arc::new(Budget { limit, used, peak, held, accounts: Mutex::new(Vec::new()) })
    }

    /// Opens an account, which keeps `reserve` bytes until it is dropped. `name` is for messages.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] if the reserve does not fit under the ceiling.
    pub fn join(self: &Arc<Self>, name: impl Into<String>, reserve: usize) -> Result<Arc<Account>> {
        let account = Arc::new(Account::new(Arc::clone(self), name.into()));
        let Some(charge) = account.charge_making_room(Holder::Checkpoint, reserve) else {
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

    /// The ceiling, in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.limit
    }

    /// What is taken, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// The most that was ever taken, in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }

    /// How many accounts are open.
    pub fn members(&self) -> usize {
        self.accounts().len()
    }

    /// Who holds what, all accounts together.
    pub fn held(&self) -> Held {
        Held(std::array::from_fn(|at| self.held[at].load(Ordering::SeqCst)))
    }

    /// What all hold as `holder`, in bytes. One load.
    #[inline]
    pub fn held_as(&self, holder: Holder) -> usize {
        self.held[holder as usize].load(Ordering::SeqCst)
    }

    /// Asks every member to turn its memtables into pages soon: somebody waits for their memory. Answers whether any
    /// has something to merge.
    pub fn relieve(&self) -> bool {
        let relieve = |account: &Arc<Account>| account.with_member(|member| member.relieve()) == Some(true);
        // All are asked, also behind the first that has something.
        self.accounts().iter().filter(|account| relieve(account)).count() > 0
    }

    fn accounts(&self) -> Vec<Arc<Account>> {
        lock(&self.accounts).iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes `bytes` if they fit under the ceiling.
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

    /// Takes `bytes` once pools have given enough back; false if they cannot.
    fn take_making_room(&self, bytes: usize) -> bool {
        if bytes > self.limit {
            return false;
        }
        for _ in 0..ROUNDS {
            if self.take(bytes) {
                return true;
            }
            let missing = (self.used_bytes() + bytes).saturating_sub(self.limit);
            match self.have_pages_given(missing, Need::Must, None) {
                Given::Bytes(0) => break,
                Given::Bytes(_) => {}
                Given::Soon => pause(),
            }
        }
        self.take(bytes)
    }

    /// Has pools give `bytes`, the largest first; those of account `but` are not asked.
    fn have_pages_given(&self, bytes: usize, need: Need, but: Option<&Account>) -> Given {
        let mut accounts = self.accounts();
        accounts.retain(|account| but.is_none_or(|but| !std::ptr::eq(but, &**account)));
        accounts.sort_by_key(|account| std::cmp::Reverse(account.held().of(Holder::Pool)));
        let (mut given, mut soon) = (0, false);
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

/// What asking for memory came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// So many bytes were given back; 0: none can be.
    Bytes(usize),
    /// None yet: calls that look at pages just now have to return first.
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
