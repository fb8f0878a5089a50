//! One database's account in a budget.

use super::{Budget, Charge, Given, MemoryCategory, Need};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::lock;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// The requests that a budget makes to the databases that share it. The budget holds no lock of its own during a call.
pub trait Member: Send + Sync {
    /// Frees memory that nothing uses, of at least `bytes`, or all there is. Returns how many bytes were freed.
    fn give_idle(&self, bytes: usize) -> usize;
    /// Frees about `bytes` of the page pool's memory.
    fn give_pages(&self, bytes: usize, need: Need) -> Given;
    /// Schedules a merge of the memtables, and a shorter segment of an idle log, so that their memory can be freed.
    /// Returns at once, with whether there is anything to do.
    fn relieve(&self) -> bool;
}

/// Bytes in use by each category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held(pub(super) [usize; MemoryCategory::COUNT]);

impl Held {
    /// Returns how many bytes `category` uses.
    pub fn bytes(&self, category: MemoryCategory) -> usize {
        self.0[category as usize]
    }

    /// Returns how many bytes all categories use.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

/// One database's account. It is dropped with the last of its charges.
pub struct Account {
    budget: Arc<Budget>,
    name: String,
    held: [AtomicUsize; MemoryCategory::COUNT],
    /// Held as [`MemoryCategory::Checkpoint`], and not as a [`Charge`], which would keep the account it belongs to.
    reserve: AtomicUsize,
    member: OnceLock<Weak<dyn Member>>,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "account of {}: {:?}", self.name, self.held())
    }
}

impl Account {
    pub(super) fn new(budget: Arc<Budget>, name: String) -> Self {
        let held = std::array::from_fn(|_| AtomicUsize::new(0));
        Account { budget, name, held, reserve: AtomicUsize::new(0), member: OnceLock::new() }
    }

    /// Opens an account without a reserve in a budget of its own, for tools and tests.
    pub fn alone(limit_bytes: usize) -> Arc<Self> {
        Budget::new(limit_bytes).join("", 0).expect("nothing always fits")
    }

    pub(super) fn keep_reserve(&self, charge: Charge) {
        self.reserve.store(charge.into_bytes(), Ordering::SeqCst);
    }

    /// Returns the budget.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns the reserve in bytes: the account can use this much no matter how much others hold.
    pub fn reserve_bytes(&self) -> usize {
        self.reserve.load(Ordering::SeqCst)
    }

    /// Returns how much each category uses.
    pub fn held(&self) -> Held {
        Held(std::array::from_fn(|at| self.held[at].load(Ordering::SeqCst)))
    }

    /// Sets the member that frees memory when another account of the budget needs it. Call it once, when the database
    /// is open.
    pub fn set_member(&self, member: Weak<dyn Member>) {
        assert!(self.member.set(member).is_ok(), "an account has one member");
    }

    pub(super) fn with_member<T>(&self, with: impl FnOnce(&dyn Member) -> T) -> Option<T> {
        let member = self.member.get()?.upgrade()?;
        Some(with(&*member))
    }

    /// Takes `bytes` if they fit within the limit. It never waits and takes no lock.
    pub fn charge(self: &Arc<Self>, category: MemoryCategory, bytes: usize) -> Option<Charge> {
        self.budget.take(bytes).then(|| self.book(category, bytes))
    }

    /// Takes `bytes`, and if they do not fit has idle chunks and pages freed first. The caller must hold no lock of a
    /// pool and be in no epoch.
    pub fn charge_making_room(self: &Arc<Self>, category: MemoryCategory, bytes: usize) -> Option<Charge> {
        self.budget.take_making_room(bytes).then(|| self.book(category, bytes))
    }

    /// Takes `bytes` even beyond the limit: for memory that is already allocated, or where an estimate was too low.
    pub fn charge_by_force(self: &Arc<Self>, category: MemoryCategory, bytes: usize) -> Charge {
        self.budget.take_by_force(bytes);
        self.book(category, bytes)
    }

    /// Asks for `bytes` of idle chunks of any account, and of pages that were not used lately in the pools of others.
    /// Returns whether any were freed.
    pub fn ask_others(&self, bytes: usize) -> bool {
        matches!(self.budget.have_memory_given(bytes, Need::Wish, Some(self)), Given::Bytes(1..))
    }

    fn book(self: &Arc<Self>, category: MemoryCategory, bytes: usize) -> Charge {
        self.held[category as usize].fetch_add(bytes, Ordering::SeqCst);
        self.budget.held[category as usize].fetch_add(bytes, Ordering::SeqCst);
        Charge::new(Arc::clone(self), category, bytes)
    }

    /// Books `bytes` of one category as another.
    pub(super) fn rebook(&self, from: MemoryCategory, to: MemoryCategory, bytes: usize) {
        for held in [&self.held, &self.budget.held] {
            held[to as usize].fetch_add(bytes, Ordering::SeqCst);
            held[from as usize].fetch_sub(bytes, Ordering::SeqCst);
        }
    }

    pub(super) fn unbook(&self, category: MemoryCategory, bytes: usize) {
        let before = self.held[category as usize].fetch_sub(bytes, Ordering::SeqCst);
        assert!(before >= bytes, "{} of {} released more than they held", category.name(), self.name);
        self.budget.held[category as usize].fetch_sub(bytes, Ordering::SeqCst);
        self.budget.give_back(bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.unbook(MemoryCategory::Checkpoint, self.reserve_bytes());
        // Every charge keeps the account alive, so no byte can be in use when the account is dropped.
        debug_assert_eq!(self.held().total(), 0, "{} lost track of memory", self.name);
        lock(&self.budget.accounts).retain(|account| account.strong_count() > 0);
    }
}
