//! Transactions that are repeated after conflicts.
//!
//! Either SQLite repeats a statement that is a transaction by itself (`sqlite3_step` in `c/glue.c`), or something above
//! repeats a transaction as a whole (`Connection::repeating`), which `sqlite3_step` then leaves to it. Both keep
//! [`MOST_ATTEMPTS`]. An interrupt that arrives between two attempts stops the next one.

use super::State;
#[cfg(not(feature = "drop-in"))]
use pando::{Error, ErrorKind, any::AnyTransaction};
use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::Duration;
#[cfg(not(feature = "drop-in"))]
use std::time::Instant;

/// How often a transaction runs at most.
const MOST_ATTEMPTS: u32 = 9;
/// How many of the attempts exclude other writers: the last ones.
const INSISTENT_ATTEMPTS: u32 = 2;

impl State {
    /// Begins the first attempt of a transaction (0), or a later one. Returns whether there is such an attempt.
    pub(crate) fn begin_attempt(&mut self, number: u32) -> bool {
        self.is_repeated = number < MOST_ATTEMPTS;
        self.insists = self.is_repeated && number + INSISTENT_ATTEMPTS >= MOST_ATTEMPTS;
        self.is_repeated
    }

    /// Notes that there are no more attempts.
    pub(crate) fn end_attempts(&mut self) {
        (self.is_repeated, self.insists) = (false, false);
    }

    /// Makes a turn exclusive that outlasts its statement, because its end depends on the program. Within an attempt
    /// it does not: what repeats the transaction also ends it.
    pub(crate) fn lengthen_turn(&mut self) {
        if let (Some(excluding), false) = (&mut self.excluding, self.is_repeated) {
            excluding.lengthen();
        }
    }

    /// Commits a transaction of the same database beside the one of the connection, also while that excludes others:
    /// they would wait for one another otherwise. Waits up to `patience` for another connection that excludes writers
    /// until the end of its transaction.
    ///
    /// # Errors
    /// `Locked` if it still does.
    #[cfg(not(feature = "drop-in"))]
    pub(crate) fn commit_beside(&self, transaction: AnyTransaction, patience: Duration) -> pando::Result<()> {
        if let Some(excluding) = &self.excluding {
            return excluding.commit(transaction).map(drop);
        }
        let begun = Instant::now();
        loop {
            // It waits for a part of its own.
            if let Ok(_running) = self.writers.begin_commit() {
                return transaction.commit().map(drop);
            }
            if begun.elapsed() >= patience {
                return Err(Error::new(ErrorKind::Locked, super::busy().message));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Pauses before a transaction is repeated: up to 20 microseconds, and twice as long each time.
pub(crate) fn pause(attempt: u32) {
    let most_us = 20_u64 << attempt.min(10);
    // The hasher's keys are random, which is random enough for the pauses of two connections to differ.
    let random = RandomState::new().hash_one(attempt);
    thread::sleep(Duration::from_micros(random % most_us));
}
