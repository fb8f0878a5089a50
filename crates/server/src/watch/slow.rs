//! The slowest requests of the last minutes, with what is known of why.
//!
//! A request that took longer than `--slow` (10 ms) is kept, if it is among the slowest; one that did not costs a
//! comparison. A single write says what its time went to: waiting for the commit before it, or its own commit, and with
//! how many others. A get is explained afterwards, by who asks for `/v1/.../explain`: what it waited for then is
//! counted by the database, in `pando_wait_seconds`.
//!
//! Of SQL the statements are kept, without their parameters; of an answer that is streamed, what it took to its first
//! piece counts.
//!
//! Keys stand in addresses, and values in statements: who may see the list may see everything.

use crate::wire::body::Body;
use axum::http::Response;
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// So many are kept.
const KEPT: usize = 50;
/// For so long.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// The list.
#[derive(Debug)]
pub struct SlowRequests {
    threshold: Duration,
    /// The slowest first.
    list: Mutex<Vec<Slow>>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Slow {
    /// What was asked.
    pub method: String,
    /// For what, query included.
    pub target: String,
    /// How it was answered.
    pub status: u16,
    /// The statements, of a request of SQL.
    pub statements: Option<Asked>,
    /// When that was.
    pub at: Instant,
    /// How long it took.
    pub took: Duration,
    /// What it went to, if it was a single write.
    pub phases: Option<Phases>,
}

/// The beginning of a request's statements, without their parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(String);

#[cfg(feature = "sql")]
impl Asked {
    /// Of a text.
    pub fn new(text: &str) -> Self {
        /// Characters that are kept.
        const KEPT_CHARS: usize = 1000;
        Asked(text.chars().take(KEPT_CHARS).collect())
    }
}

/// What the time of a single write went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// Waiting in the queue: others were being committed, or no thread was there yet.
    pub queued: Duration,
    /// The commit of which it was a part, its flush included.
    pub committed: Duration,
    /// How many writes that commit had.
    pub together: usize,
}

/// A response to a quicker write does not say what its time went to.
const WORTH_SAYING: Duration = Duration::from_millis(1);

/// Says, to who counts requests, what the time of this one went to.
pub fn say(response: &mut Response<Body>, phases: Option<Phases>) {
    if let Some(phases) = phases.filter(|phases| phases.queued + phases.committed >= WORTH_SAYING) {
        response.extensions_mut().insert(phases);
    }
}

impl SlowRequests {
    /// None yet. Those that take `threshold` or longer will be kept.
    pub fn new(threshold: Duration) -> Self {
        SlowRequests { threshold, list: Mutex::default() }
    }

    /// Whether a request that took so long is slow.
    #[inline]
    pub fn is_slow(&self, took: Duration) -> bool {
        took >= self.threshold
    }

    /// Keeps one, if it is among the slowest.
    #[cold]
    pub fn note(&self, slow: Slow) {
        let mut list = self.list();
        list.retain(|kept| slow.at.saturating_duration_since(kept.at) < KEPT_FOR);
        let place = list.partition_point(|kept| kept.took >= slow.took);
        if place < KEPT {
            list.insert(place, slow);
            list.truncate(KEPT);
        }
    }

    /// The list, the slowest first.
    pub fn to_json(&self, now: Instant) -> Value {
        let us = |time: Duration| time.as_micros() as u64;
        let fresh = |slow: &&Slow| now.saturating_duration_since(slow.at) < KEPT_FOR;
        let list = self.list();
        let list = list.iter().filter(fresh).map(|slow| {
            json!({
                "method": slow.method,
                "target": slow.target,
                "sql": slow.statements.as_ref().map(|asked| &asked.0),
                "status": slow.status,
                "ago_ms": now.saturating_duration_since(slow.at).as_millis() as u64,
                "us": us(slow.took),
                "queued_us": slow.phases.map(|phases| us(phases.queued)),
                "committed_us": slow.phases.map(|phases| us(phases.committed)),
                "committed_together": slow.phases.map(|phases| phases.together),
            })
        });
        json!({ "threshold_us": us(self.threshold), "slow": list.collect::<Vec<_>>() })
    }

    fn list(&self) -> MutexGuard<'_, Vec<Slow>> {
        self.list.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_the_last_minutes_are_kept() {
        let slow = SlowRequests::new(Duration::from_millis(10));
        assert!(slow.is_slow(Duration::from_millis(10)) && !slow.is_slow(Duration::from_millis(9)));
        let start = Instant::now();
        let request = |ms: u64, at: Instant| Slow {
            method: "PUT".to_owned(),
            target: "/v0/entity?id=k".to_owned(),
            status: 201,
            statements: None,
            at,
            took: Duration::from_millis(ms),
            phases: None,
        };
        (10..200).for_each(|ms| slow.note(request(ms * 7 % 190 + 10, start)));
        let times = |now| -> Vec<u64> {
            let list = slow.to_json(now);
            list["slow"].as_array().unwrap().iter().map(|slow| slow["us"].as_u64().unwrap() / 1000).collect()
        };
        assert_eq!(times(start), (150..200).rev().collect::<Vec<_>>());
        let later = start + KEPT_FOR;
        assert_eq!(times(later), [0; 0]);
        slow.note(request(11, later));
        assert_eq!(times(later), [11]);
    }
}
