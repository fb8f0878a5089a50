//! The numbers and the time by which the keys of all databases are written.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers that this process gives once: versions and generations.
///
/// They begin at the time of the start in microseconds, so that they usually continue after a restart. The clock can be
/// wrong and another process can have written to the tables, so nothing depends on that: before a collection gets a
/// generation, its transaction checks that the table has no elements from that number on
/// ([`Space::new_collection`](crate::space::Space::new_collection)), and WATCH [passes](Versions::pass) the versions
/// that it has seen.
#[derive(Debug)]
pub struct Versions {
    next: AtomicU64,
    /// How many random numbers were drawn. It is a counter of its own: a client can draw a million at once.
    drawn: AtomicU64,
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
        Versions::starting_at(since_1970().as_micros() as u64)
    }

    /// Begins at a number.
    pub fn starting_at(next: u64) -> Self {
        Versions {
            next: AtomicU64::new(next),
            drawn: AtomicU64::new(0),
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

    /// Returns the smallest number that can be given next.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Makes all later numbers larger than `used`.
    pub fn pass(&self, used: u64) {
        if self.next() <= used {
            self.next.fetch_max(used.saturating_add(1), Ordering::SeqCst);
        }
    }

    /// Returns a number that cannot be foreseen, for random choices: the keyed hash of a counter.
    pub fn random(&self) -> u64 {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed); // Relaxed: this is a counter.
        self.hasher.hash_one(drawn)
    }

    /// Returns the time in milliseconds since 1970. It never goes back, so that a key that has expired stays away.
    pub fn now_ms(&self) -> u64 {
        let now = since_1970().as_millis() as u64;
        now.max(self.now_ms.fetch_max(now, Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_larger_than_what_was_passed_and_random_ones_use_none_up() {
        let versions = Versions::new();
        let first = versions.next();
        assert_ne!(versions.random(), versions.random());
        assert_eq!(versions.next(), first);
        versions.pass(first + 10);
        assert_eq!(versions.after(0), first + 11);
        versions.pass(first);
        assert_eq!(versions.after(0), first + 12);
        assert_eq!(versions.after(first + 100), first + 101);
        assert!(versions.after(0) > first + 101);
    }
}
