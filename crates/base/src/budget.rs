//! A ceiling on memory that several holders share.

use crate::sync::atomic::{AtomicUsize, Ordering};

/// A ceiling in bytes, and how much of it is taken. Holders charge before they allocate and release after they
/// free; a charge that would pass the ceiling is refused and the holder frees something of its own instead.
///
/// ```
/// use base::budget::Budget;
/// let budget = Budget::new(100);
/// assert!(budget.charge(80));
/// assert!(!budget.charge(30));
/// budget.release(80);
/// assert_eq!(budget.used_bytes(), 0);
/// ```
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Budget { limit, used: AtomicUsize::new(0) }
    }

    /// The ceiling, in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.limit
    }

    /// What is taken, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// Takes `bytes` if they fit under the ceiling.
    pub fn charge(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    /// Gives back `bytes` that were charged.
    pub fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        debug_assert!(before >= bytes, "more released than was charged");
    }
}
