//! What a pool may allocate: its own limit, the budget it shares, and a small overdraft.

use base::budget::Budget;
use base::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// How many pages may exist beyond the limit, and only while no frame can be had: every one pinned, or under the
/// eyes of a call. Two paths down a tree of pages at their usual heights.
const OVERDRAFT_PAGES: usize = 8;

/// One pool's account.
#[derive(Debug)]
pub(crate) struct Ledger {
    budget: Arc<Budget>,
    limit_bytes: usize,
    overdraft_bytes: usize,
    used: AtomicUsize,
    overdrawn: AtomicUsize,
}

impl Ledger {
    pub(crate) fn new(budget: Arc<Budget>, limit_bytes: usize, page_bytes: usize) -> Self {
        let overdraft_bytes = OVERDRAFT_PAGES * page_bytes;
        let (used, overdrawn) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ledger { budget, limit_bytes, overdraft_bytes, used, overdrawn }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    pub(crate) fn overdrawn_bytes(&self) -> usize {
        self.overdrawn.load(Ordering::SeqCst)
    }

    /// Takes `bytes` from the limit and from the budget, or from neither.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        if !take(&self.used, bytes, self.limit_bytes) {
            return None;
        }
        if !self.budget.charge(bytes) {
            self.used.fetch_sub(bytes, Ordering::SeqCst);
            return None;
        }
        Some(Charge { ledger: Arc::clone(self), bytes, overdraft: false })
    }

    /// Takes `bytes` from the overdraft.
    pub(crate) fn overdraw(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        take(&self.overdrawn, bytes, self.overdraft_bytes).then(|| Charge {
            ledger: Arc::clone(self),
            bytes,
            overdraft: true,
        })
    }
}

fn take(used: &AtomicUsize, bytes: usize, limit: usize) -> bool {
    let more = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= limit);
    used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
}

/// Bytes that were taken; dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Charge {
    ledger: Arc<Ledger>,
    bytes: usize,
    overdraft: bool,
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.overdraft {
            self.ledger.overdrawn.fetch_sub(self.bytes, Ordering::SeqCst);
        } else {
            self.ledger.used.fetch_sub(self.bytes, Ordering::SeqCst);
            self.ledger.budget.release(self.bytes);
        }
    }
}
