//! The numbers and the time by which the keys of all databases are written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers that are never used twice: versions and generations. They continue after a restart, because they begin at
/// the time of the start in microseconds.
#[derive(Debug)]
pub struct Versions {
    next: AtomicU64,
    now_ms: AtomicU64,
}

fn since_1970() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Versions {
    /// Begins at the current time.
    pub fn new() -> Self {
        Versions { next: AtomicU64::new(since_1970().as_micros() as u64), now_ms: AtomicU64::new(0) }
    }

    /// Returns a number larger than all before and than `old`.
    pub fn after(&self, old: u64) -> u64 {
        let next = self.next.fetch_add(1, Ordering::SeqCst);
        if next > old {
            return next;
        }
        self.next.fetch_max(old.saturating_add(2), Ordering::SeqCst);
        old.saturating_add(1)
    }

    /// Returns a number that cannot be foreseen well enough to matter, for random choices.
    pub fn random(&self) -> u64 {
        // The finalizer of splitmix64, over numbers that are never the same.
        let mut mixed = self.next.fetch_add(1, Ordering::SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the time in milliseconds since 1970. It never goes back, so that a key that has expired stays away.
    pub fn now_ms(&self) -> u64 {
        let now = since_1970().as_millis() as u64;
        now.max(self.now_ms.fetch_max(now, Ordering::SeqCst))
    }
}
