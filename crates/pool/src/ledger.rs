//! What a pool may allocate: its own limit, the budget it shares, and a small overdraft.

use base::budget::{self, Account, Holder};
use base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// How many pages may exist beyond the limit, and only while no frame can be had: every one pinned, or under the
/// eyes of a call. Two paths down a tree of pages at their usual heights.
pub const OVERDRAFT_PAGES: usize = 8;

/// One pool's account.
#[derive(Debug)]
pub(crate) struct Ledger {
    account: Arc<Account>,
    limit_bytes: usize,
    overdraft_bytes: usize,
    used: AtomicUsize,
    overdrawn: AtomicUsize,
    /// Whether the budget, and not the pool's own limit, refused something since this was looked at.
    refused: AtomicBool,
}

impl Ledger {
    pub(crate) fn new(account: Arc<Account>, limit_bytes: usize, page_bytes: usize) -> Self {
        let overdraft_bytes = OVERDRAFT_PAGES * page_bytes;
        let (used, overdrawn) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let refused = AtomicBool::new(false);
        Ledger { account, limit_bytes, overdraft_bytes, used, overdrawn, refused }
    }

    /// The account that everything but the overdraft is charged to.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Whether the budget refused memory since the last call.
    pub(crate) fn take_refusal(&self) -> bool {
        self.refused.swap(false, Ordering::SeqCst)
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
        let Some(charge) = self.account.charge(Holder::Pool, bytes) else {
            self.used.fetch_sub(bytes, Ordering::SeqCst);
            self.refused.store(true, Ordering::SeqCst);
            return None;
        };
        Some(Charge { ledger: Arc::clone(self), bytes, budgeted: Some(charge) })
    }

    /// Takes `bytes` from the overdraft.
    pub(crate) fn overdraw(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        take(&self.overdrawn, bytes, self.overdraft_bytes).then(|| Charge {
            ledger: Arc::clone(self),
            bytes,
            budgeted: None,
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
    /// What the budget was charged; nothing for the overdraft, which the account's reserve covers.
    budgeted: Option<budget::Charge>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let count = if self.budgeted.is_some() { &self.ledger.used } else { &self.ledger.overdrawn };
        count.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}
