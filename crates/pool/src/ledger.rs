//! The memory that a pool may allocate: its own limit, the budget it shares, and a small overdraft.

use base::budget::{self, Account, MemoryCategory};
use base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// The number of pages that may exist beyond the limit, and only while no frame is available because each is pinned or
/// used by a call: two paths down a tree of pages at their usual heights.
pub const OVERDRAFT_PAGES: usize = 8;

/// The part of the budget in which pages may be kept although others need the memory: by pins, and as the last frames
/// of pools.
pub(crate) const KEPT_PART: usize = 8;

/// One pool's account.
#[derive(Debug)]
pub(crate) struct Ledger {
    account: Arc<Account>,
    limit_bytes: usize,
    overdraft_bytes: usize,
    /// The bytes lent beyond the overdraft.
    lent_bytes: AtomicUsize,
    used: AtomicUsize,
    overdrawn: AtomicUsize,
    /// Whether the budget, and not the pool's own limit, refused memory since the last look.
    refused: AtomicBool,
}

impl Ledger {
    pub(crate) fn new(account: Arc<Account>, limit_bytes: usize, page_bytes: usize) -> Self {
        let overdraft_bytes = OVERDRAFT_PAGES * page_bytes;
        let [lent_bytes, used, overdrawn] = [0; 3].map(AtomicUsize::new);
        let refused = AtomicBool::new(false);
        Ledger { account, limit_bytes, overdraft_bytes, lent_bytes, used, overdrawn, refused }
    }

    /// Returns the account that is charged for everything except the overdraft.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Returns whether the budget refused memory since the last call.
    pub(crate) fn take_refusal(&self) -> bool {
        self.refused.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    pub(crate) fn overdrawn_bytes(&self) -> usize {
        self.overdrawn.load(Ordering::SeqCst)
    }

    /// Returns whether each database of the budget may keep `bytes`, together at most [`KEPT_PART`] of it.
    pub(crate) fn can_spare_for_each(&self, bytes: usize) -> bool {
        let budget = self.account.budget();
        budget.members().saturating_mul(bytes) <= budget.limit_bytes() / KEPT_PART
    }

    /// Takes `bytes` from the limit and from the budget, or from neither.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        if !take(&self.used, bytes, self.limit_bytes) {
            return None;
        }
        let Some(charge) = self.account.charge(MemoryCategory::Pool, bytes) else {
            self.used.fetch_sub(bytes, Ordering::SeqCst);
            self.refused.store(true, Ordering::SeqCst);
            return None;
        };
        Some(Charge { ledger: Arc::clone(self), bytes, is_overdrawn: false, budgeted: Some(charge) })
    }

    /// Takes `bytes` from the overdraft, or from what was lent.
    pub(crate) fn overdraw(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let overdrawn = |budgeted| Charge { ledger: Arc::clone(self), bytes, is_overdrawn: true, budgeted };
        if take(&self.overdrawn, bytes, self.overdraft_bytes) {
            return Some(overdrawn(None));
        }
        let lent = self.lent_bytes.load(Ordering::SeqCst);
        let is_lent = lent > 0 && take(&self.overdrawn, bytes, self.overdraft_bytes + lent);
        is_lent.then(|| overdrawn(Some(self.account.charge_by_force(MemoryCategory::Pool, bytes))))
    }
}

/// Permission to exceed the limit and the budget, until it is dropped: see [`crate::Pool::lend`].
#[derive(Debug)]
pub struct Loan {
    ledger: Arc<Ledger>,
    bytes: usize,
}

impl Loan {
    pub(crate) fn new(ledger: &Arc<Ledger>, bytes: usize) -> Loan {
        ledger.lent_bytes.fetch_add(bytes, Ordering::SeqCst);
        Loan { ledger: Arc::clone(ledger), bytes }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.ledger.lent_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

fn take(used: &AtomicUsize, bytes: usize, limit: usize) -> bool {
    let more = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= limit);
    used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
}

/// Bytes that were taken; dropping the charge returns them.
#[derive(Debug)]
pub(crate) struct Charge {
    ledger: Arc<Ledger>,
    bytes: usize,
    is_overdrawn: bool,
    /// The charge to the budget. The overdraft has none, because the account's reserve covers it.
    #[allow(dead_code)] // Held to be dropped.
    budgeted: Option<budget::Charge>,
}

impl Charge {
    /// Returns whether the bytes are of the overdraft, or of what was lent to the pool.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.is_overdrawn
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let count = if self.is_overdrawn { &self.ledger.overdrawn } else { &self.ledger.used };
        count.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}
