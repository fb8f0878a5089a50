//! The slowest requests of the last minutes, with what is known about the cause.
//!
//! A request that took longer than `--slow` (10 ms) is kept if it is among the slowest. A faster one costs only a
//! comparison. A single write records what its time was spent on: waiting for the commit before it, or its own commit,
//! and with how many other writes. A get can be explained afterwards with `/v1/.../explain`. What it waited for is
//! counted by the database, in `pando_wait_seconds`.
//!
//! SQL statements are kept without their parameters. For a streamed response, the time to its first piece counts.
//!
//! Addresses contain keys, and statements contain values. Therefore only a client that may see all data may see the
//! list.

use crate::spans::Phases;
use crate::wire::body::Body;
use axum::http::Response;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The number of requests that are kept.
const KEPT: usize = 50;
/// The time for which they are kept.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// The list of slow requests.
#[derive(Debug)]
pub struct SlowRequests {
    threshold_ns: AtomicU64,
    /// The slow requests, slowest first.
    list: Mutex<Vec<Slow>>,
}

/// A slow request.
#[derive(Clone, Debug)]
pub struct Slow {
    /// The method of the request.
    pub method: String,
    /// The target of the request, including the query.
    pub target: String,
    /// The status of the response.
    pub status: u16,
    /// The statements of an SQL request.
    pub statements: Option<Asked>,
    /// The time at which the request ended.
    pub at: Instant,
    /// The duration of the request.
    pub took: Duration,
    /// The phases of a single write.
    pub phases: Option<Phases>,
}

/// The beginning of a request's statements, without their parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(String);

#[cfg(feature = "sql")]
impl Asked {
    /// Keeps the beginning of `text`.
    pub fn new(text: &str) -> Self {
        /// The number of characters that are kept.
        const KEPT_CHARS: usize = 1000;
        Asked(text.chars().take(KEPT_CHARS).collect())
    }
}

/// The shortest write whose response carries its phases.
const WORTH_SAYING: Duration = Duration::from_millis(1);

/// Attaches the phases of this request to its response, for the code that counts requests.
pub fn say(response: &mut Response<Body>, phases: Option<Phases>) {
    if let Some(phases) = phases.filter(|phases| phases.queued + phases.committed >= WORTH_SAYING) {
        response.extensions_mut().insert(phases);
    }
}

impl SlowRequests {
    /// Creates an empty list of requests that take `threshold` or longer.
    pub fn new(threshold: Duration) -> Self {
        let slow = SlowRequests { threshold_ns: AtomicU64::new(0), list: Mutex::default() };
        slow.renew(threshold);
        slow
    }

    /// Changes the duration from which a request counts as slow.
    pub fn renew(&self, threshold: Duration) {
        let ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
        self.threshold_ns.store(ns, Ordering::Relaxed); // Relaxed: it orders nothing.
    }

    fn threshold(&self) -> Duration {
        Duration::from_nanos(self.threshold_ns.load(Ordering::Relaxed)) // Relaxed: as above.
    }

    /// Returns whether a request of this duration is slow.
    #[inline]
    pub fn is_slow(&self, took: Duration) -> bool {
        took >= self.threshold()
    }

    /// Keeps a request if it is among the slowest.
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

    /// Returns the list as JSON, slowest first.
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
        json!({ "threshold_us": us(self.threshold()), "slow": list.collect::<Vec<_>>() })
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
