//! Counts the bytes of connections, the requests of HTTP/2, and the refused requests by reason, without a cache line
//! that two workers write.
//!
//! The reasons are the names of the server's problems, a fixed list, so that the metric has a bounded number of
//! samples whatever clients send.

use crate::watch::observe::{SHARDS, shard};
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of every problem that a response of this server can have, in order. [`OTHER`] counts those that are not
/// here, which a debug build rejects.
pub const REASONS: [&str; 56] = [
    "bad-request",
    "busy",
    "closed",
    "committed",
    "concurrency-limit",
    "conflict",
    "constraint",
    "corruption",
    "ending",
    "exists",
    "fenced",
    "forbidden",
    "full",
    "head-too-large",
    "import",
    "in-use",
    "indeterminate",
    "internal",
    "latched",
    "locked",
    "method-not-allowed",
    "mismatch",
    "no-transaction",
    "not-a-replica",
    "not-applied",
    "not-found",
    "not-ready",
    "not-shipped",
    "other-files",
    "precondition-failed",
    "profile-busy",
    "proto-error",
    "range",
    "rate-limit",
    "refused",
    "replica",
    "reserved-table",
    "snapshot-too-old",
    "sql",
    "store-busy",
    "store-full",
    "store-misconfigured",
    "store-timeout",
    "store-unavailable",
    "stream-expired",
    "stream-limit",
    "time-limit",
    "timeout",
    "too-large",
    "too-many-statements",
    "too-many-transactions",
    "too-old",
    "transaction-busy",
    "unauthorized",
    "unsupported",
    "uri-too-long",
];
/// The name of the sample that counts problems without a name of their own.
const OTHER: &str = "other";

/// The bytes that were received and sent, and the requests that were refused.
#[derive(Debug)]
pub struct Traffic {
    shards: Box<[Shard]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    /// Those of HTTP/1 are the others, which therefore cost nothing here.
    second_version: AtomicU64,
    /// By the place of the reason in [`REASONS`]; the last one is [`OTHER`].
    refusals: [AtomicU64; REASONS.len() + 1],
}

impl Traffic {
    /// Creates counts of zero.
    pub fn new() -> Self {
        let shard = || Shard {
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            second_version: AtomicU64::new(0),
            refusals: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Traffic { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Counts bytes that a client sent.
    #[inline]
    pub fn received(&self, bytes: usize) {
        // Relaxed: this is a counter, which orders nothing.
        self.shards[shard()].received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that were sent to a client.
    #[inline]
    pub fn sent(&self, bytes: usize) {
        // Relaxed: as above.
        self.shards[shard()].sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a request over HTTP/2.
    #[inline]
    pub fn second_version(&self) {
        self.shards[shard()].second_version.fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Counts a refused request.
    pub fn refused(&self, reason: &str) {
        let place = REASONS.binary_search(&reason);
        debug_assert!(place.is_ok(), "{reason:?} is not in the list of reasons");
        let count = &self.shards[shard()].refusals[place.unwrap_or(REASONS.len())];
        count.fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Returns how many bytes clients sent.
    pub fn received_bytes(&self) -> u64 {
        // Relaxed: as above.
        self.shards.iter().map(|shard| shard.received_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Returns how many bytes were sent to clients.
    pub fn sent_bytes(&self) -> u64 {
        // Relaxed: as above.
        self.shards.iter().map(|shard| shard.sent_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of requests over HTTP/2.
    pub fn of_second_version(&self) -> u64 {
        // Relaxed: as above.
        self.shards.iter().map(|shard| shard.second_version.load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of refused requests for each reason that occurred.
    pub fn refusals(&self) -> Vec<(&'static str, u64)> {
        let names = REASONS.into_iter().chain([OTHER]).enumerate();
        let count = |place: usize| -> u64 {
            // Relaxed: as above.
            self.shards.iter().map(|shard| shard.refusals[place].load(Ordering::Relaxed)).sum()
        };
        names.map(|(place, name)| (name, count(place))).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together_and_reasons_are_found() {
        assert!(REASONS.is_sorted(), "they are searched");
        let traffic = Traffic::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    traffic.received(10);
                    traffic.sent(100);
                    traffic.second_version();
                    REASONS.iter().for_each(|reason| traffic.refused(reason));
                });
            }
        });
        assert_eq!((traffic.received_bytes(), traffic.sent_bytes()), (40, 400));
        assert_eq!(traffic.of_second_version(), 4);
        assert_eq!(traffic.refusals(), REASONS.map(|reason| (reason, 4)));
    }

    #[test]
    fn the_docs_list_every_reason() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, section) = page.split_once("\n## Refused requests\n").expect("the page has the section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let is_absent = |reason: &&str| !section.contains(&format!("`{reason}`"));
        assert_eq!(REASONS.into_iter().find(is_absent), None, "docs/http.md lists the problems");
    }
}
