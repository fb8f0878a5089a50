//! One database's part in a budget.

use super::{Budget, Charge, Given, Holder, Need};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::lock;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// What a budget asks of those who share it. Called without any lock of the budget's.
pub trait Member: Send + Sync {
    /// Gives about `bytes` of the page pool's memory back.
    fn give_pages(&self, bytes: usize, need: Need) -> Given;
    /// Has the memtables merged soon, so that their memory can be given back. Returns at once; answers whether there is
    /// anything to merge.
    fn relieve(&self) -> bool;
}

/// Bytes by holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held(pub(super) [usize; Holder::COUNT]);

impl Held {
    /// What `holder` holds, in bytes.
    pub fn of(&self, holder: Holder) -> usize {
        self.0[holder as usize]
    }

    /// What all hold, in bytes.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

/// One database's account. Dropped with the last of its charges.
pub struct Account {
    budget: Arc<Budget>,
    name: String,
    held: [AtomicUsize; Holder::COUNT],
    /// Held as [`Holder::Checkpoint`], and not as a [`Charge`], which would keep the account it belongs to.
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

    /// An account without a reserve in a budget of its own: for tools and tests.
    pub fn alone(limit_bytes: usize) -> Arc<Self> {
        Budget::new(limit_bytes).join("", 0).expect("nothing always fits")
    }

    pub(super) fn keep_reserve(&self, charge: Charge) {
        self.reserve.store(charge.into_bytes(), Ordering::SeqCst);
    }

    /// The budget that it is part of.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// What was kept from the beginning, in bytes: what its holder can use whatever others hold.
    pub fn reserve_bytes(&self) -> usize {
        self.reserve.load(Ordering::SeqCst)
    }

    /// Who holds what.
    pub fn held(&self) -> Held {
        Held(std::array::from_fn(|at| self.held[at].load(Ordering::SeqCst)))
    }

    /// Names who gives memory back when somebody who shares the budget needs it. Once, when the database is open.
    pub fn set_member(&self, member: Weak<dyn Member>) {
        assert!(self.member.set(member).is_ok(), "an account has one member");
    }

    pub(super) fn with_member<T>(&self, with: impl FnOnce(&dyn Member) -> T) -> Option<T> {
        let member = self.member.get()?.upgrade()?;
        Some(with(&*member))
    }

    /// Takes `bytes` if they fit under the ceiling. Never waits, takes no lock.
    pub fn charge(self: &Arc<Self>, holder: Holder, bytes: usize) -> Option<Charge> {
        self.budget.take(bytes).then(|| self.book(holder, bytes))
    }

    /// Takes `bytes` once page pools have given enough back, if they can. The caller holds no lock of a pool, and is in
    /// no epoch.
    pub fn charge_making_room(self: &Arc<Self>, holder: Holder, bytes: usize) -> Option<Charge> {
        self.budget.take_making_room(bytes).then(|| self.book(holder, bytes))
    }

    /// Takes `bytes` whatever the ceiling: for what is there already, and for what an estimate fell short of.
    pub fn charge_by_force(self: &Arc<Self>, holder: Holder, bytes: usize) -> Charge {
        self.budget.take_by_force(bytes);
        self.book(holder, bytes)
    }

    /// Has the pools of the others who share the budget give `bytes` of pages that were not used lately. Answers
    /// whether any were given.
    pub fn ask_others(&self, bytes: usize) -> bool {
        matches!(self.budget.have_pages_given(bytes, Need::Wish, Some(self)), Given::Bytes(1..))
    }

    fn book(self: &Arc<Self>, holder: Holder, bytes: usize) -> Charge {
        self.held[holder as usize].fetch_add(bytes, Ordering::SeqCst);
        self.budget.held[holder as usize].fetch_add(bytes, Ordering::SeqCst);
        Charge::new(Arc::clone(self), holder, bytes)
    }

    pub(super) fn unbook(&self, holder: Holder, bytes: usize) {
        let before = self.held[holder as usize].fetch_sub(bytes, Ordering::SeqCst);
        assert!(before >= bytes, "{} of {} released more than they held", holder.name(), self.name);
        self.budget.held[holder as usize].fetch_sub(bytes, Ordering::SeqCst);
        self.budget.give_back(bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.unbook(Holder::Checkpoint, self.reserve_bytes());
        // Every charge keeps the account: with the last of them gone nothing can be left.
        debug_assert_eq!(self.held().total(), 0, "{} lost track of memory", self.name);
        lock(&self.budget.accounts).retain(|account| account.strong_count() > 0);
    }
}
