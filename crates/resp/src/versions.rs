//! The numbers and the time by which the keys of all databases are written.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers that are never used twice: versions and generations. They continue after a restart, because they begin at
/// the time of the start in microseconds.
#[derive(Debug)]
pub struct Versions {
    next: AtomicU64,
    now_ms: AtomicU64,
    /// How often a key was created, by a hash of its database and its name. An array of a fixed size needs no list of
    /// the keys that are watched; in return, the creation of another key stops one transaction of [`COUNTERS`].
    creations: Vec<AtomicU64>,
    hasher: RandomState,
}

/// The number of counters of creations, which take 32 KiB.
const COUNTERS: usize = 4096;

fn since_1970() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Versions {
    /// Begins at the current time.
    pub fn new() -> Self {
        Versions {
            next: AtomicU64::new(since_1970().as_micros() as u64),
            now_ms: AtomicU64::new(0),
            creations: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    fn creations_of(&self, database: usize, key: &[u8]) -> &AtomicU64 {
        &self.creations[self.hasher.hash_one((database, key)) as usize % COUNTERS]
    }

    /// Returns a number that has changed when a key was created since, also if it was removed again.
    ///
    /// Read it before the snapshot in which the key is absent, and again after that in which it still is.
    pub fn creations(&self, database: usize, key: &[u8]) -> u64 {
        self.creations_of(database, key).load(Ordering::SeqCst)
    }

    /// Notes that a key is created, before that is committed.
    pub fn note_creation(&self, database: usize, key: &[u8]) {
        self.creations_of(database, key).fetch_add(1, Ordering::SeqCst);
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
