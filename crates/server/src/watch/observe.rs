//! Counts requests, their latencies and their statuses, without a lock and without a cache line that two workers write.
//!
//! A latency is counted in a bucket. There are eight buckets for each doubling, from a microsecond to a minute, so a
//! percentile that is computed from them is at most an eighth too long. Each thread counts into its own shard, and the
//! reader adds the shards up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The kind of a request, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One record is read.
    Get,
    /// One record is set.
    Put,
    /// One record is removed.
    Delete,
    /// Many records are read, set or removed.
    Range,
    /// A batch, or a step of an interactive transaction.
    Transaction,
    /// Statements.
    Sql,
    /// Everything else.
    Other,
}

impl Kind {
    /// The number of kinds.
    pub const COUNT: usize = 7;
    /// All kinds.
    pub const ALL: [Kind; Kind::COUNT] =
        [Kind::Get, Kind::Put, Kind::Delete, Kind::Range, Kind::Transaction, Kind::Sql, Kind::Other];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Get => "get",
            Kind::Put => "put",
            Kind::Delete => "delete",
            Kind::Range => "range",
            Kind::Transaction => "transaction",
            Kind::Sql => "sql",
            Kind::Other => "other",
        }
    }
}

/// The number of buckets for each doubling, as a power of two.
const STEPS_LOG2: u32 = 3;
const STEPS: usize = 1 << STEPS_LOG2;
/// The first doubling. All latencies below 2^10 ns share a bucket.
const FIRST_LOG2: u32 = 10;
/// The last doubling. All latencies above 2^36 ns, about a minute, share a bucket.
const LAST_LOG2: u32 = 36;
/// The number of buckets.
pub const BUCKETS: usize = (LAST_LOG2 - FIRST_LOG2) as usize * STEPS + 2;
/// The number of shards. Further workers share them.
pub(super) const SHARDS: usize = 16;
/// The number of status classes, such as 2xx. Class 0 is unused.
pub const CLASSES: usize = 6;

/// Returns the bucket of a latency.
fn bucket(ns: u64) -> usize {
    let log2 = 63 - (ns | 1).leading_zeros();
    if log2 < FIRST_LOG2 {
        return 0;
    }
    if log2 >= LAST_LOG2 {
        return BUCKETS - 1;
    }
    let step = (ns >> (log2 - STEPS_LOG2)) as usize - STEPS;
    1 + (log2 - FIRST_LOG2) as usize * STEPS + step
}

/// Returns the longest latency of a bucket, in nanoseconds.
pub fn bucket_end_ns(bucket: usize) -> u64 {
    if bucket == 0 {
        return 1 << FIRST_LOG2;
    }
    let (doubling, step) = ((bucket - 1) / STEPS, (bucket - 1) % STEPS);
    ((STEPS + step + 1) as u64) << (doubling as u32 + FIRST_LOG2 - STEPS_LOG2)
}

#[derive(Debug)]
struct Counts {
    buckets: [AtomicU64; BUCKETS],
    total_ns: AtomicU64,
    statuses: [AtomicU64; CLASSES],
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard([Counts; Kind::COUNT]);

/// The counts of all requests.
#[derive(Debug)]
pub struct Observed {
    shards: Box<[Shard]>,
}

/// The totals of requests of one kind.
#[derive(Clone, Debug)]
pub struct Totals {
    /// The number of requests in each bucket of latency.
    pub buckets: Box<[u64; BUCKETS]>,
    /// The sum of their latencies, in nanoseconds.
    pub total_ns: u64,
    /// The number of responses by the first digit of the status.
    pub statuses: [u64; CLASSES],
}

impl Totals {
    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns the shard of this thread.
#[inline]
pub(super) fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SHARD.with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT.fetch_add(1, Ordering::SeqCst) % SHARDS);
        }
        shard.get()
    })
}

impl Observed {
    /// Creates counts of zero.
    pub fn new() -> Self {
        let counts = || Counts {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            total_ns: AtomicU64::new(0),
            statuses: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Observed { shards: (0..SHARDS).map(|_| Shard(std::array::from_fn(|_| counts()))).collect() }
    }

    /// Counts one request.
    #[inline]
    pub fn note(&self, kind: Kind, took: Duration, status: u16) {
        let counts = &self.shards[shard()].0[kind as usize];
        let ns = took.as_nanos() as u64;
        // Relaxed for all: these are counters, which order nothing.
        counts.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        counts.total_ns.fetch_add(ns, Ordering::Relaxed);
        let class = usize::from(status / 100).min(CLASSES - 1);
        counts.statuses[class].fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Returns the sum of all shards.
    pub fn totals(&self, kind: Kind) -> Totals {
        let mut totals = Totals { buckets: Box::new([0; BUCKETS]), total_ns: 0, statuses: [0; CLASSES] };
        for shard in &self.shards {
            let counts = &shard.0[kind as usize];
            // Relaxed for all: these are counters, which order nothing.
            for (total, count) in totals.buckets.iter_mut().zip(&counts.buckets) {
                *total += count.load(Ordering::Relaxed);
            }
            totals.total_ns += counts.total_ns.load(Ordering::Relaxed);
            // Relaxed: as above.
            for (total, count) in totals.statuses.iter_mut().zip(&counts.statuses) {
                *total += count.load(Ordering::Relaxed);
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_lies_in_its_bucket() {
        assert_eq!(
            (bucket(0), bucket(1023), bucket(1 << 36), bucket(u64::MAX)),
            (0, 0, BUCKETS - 1, BUCKETS - 1)
        );
        for ns in
            (10..36).flat_map(|log2| [1u64 << log2, (1 << log2) + 1, (1 << log2) * 15 / 8, (2 << log2) - 1])
        {
            let at = bucket(ns);
            assert!(ns < bucket_end_ns(at), "{ns} is in bucket {at}");
            assert!(ns >= bucket_end_ns(at - 1), "{ns} is in bucket {at}");
            assert!((bucket_end_ns(at) - ns) * 8 <= ns + 8, "{ns}: the bucket is narrow");
        }
    }

    #[test]
    fn threads_count_together() {
        let observed = Observed::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..1000).for_each(|n| observed.note(Kind::Put, Duration::from_micros(n), 201))
                });
            }
        });
        let totals = observed.totals(Kind::Put);
        assert_eq!((totals.count(), totals.statuses[2]), (4000, 4000));
        assert_eq!(totals.total_ns, 4 * 499_500_000);
        assert_eq!(observed.totals(Kind::Get).count(), 0);
    }
}
