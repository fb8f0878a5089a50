//! How long operations waited, by cause.
//!
//! * Each cause has a histogram: buckets whose width grows with the value (four to each power of two), so that a
//!   quantile is accurate to an eighth, from nanoseconds to a minute, in 1 KiB.
//! * Each thread writes to a shard, and a reader of the figures adds the shards up. A shard is allocated when its first
//!   thread waits for the first time.
//! * Only an operation that waits reads the clock. Reads that never wait are timed once in [`SAMPLE_EVERY`] times.
//!
//! ```
//! use pando_base::latency::{Cause, Latencies};
//! let latencies = Latencies::default();
//! (1..=1000).for_each(|us| latencies.record(Cause::Sync, us * 1000));
//! let syncs = latencies.get(Cause::Sync);
//! assert_eq!((syncs.count, syncs.max_ns), (1000, 1_000_000));
//! assert!((syncs.p99_ns as f64 / 990_000.0 - 1.0).abs() < 0.13);
//! ```

use crate::env::Stopwatch;
use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One in this many reads that do not wait is timed, because reading the clock twice costs as much as a short read.
pub const SAMPLE_EVERY: u64 = 1024;

/// A cause of a wait, or a kind of work that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
#[non_exhaustive]
pub enum Cause {
    /// A commit created a log segment, because none with room was ready.
    LogRoom,
    /// A commit or a `sync` waited for a flush of the log, by its own or another thread.
    Sync,
    /// A commit waited for others in the critical section.
    CommitQueue,
    /// `write` ran a transaction again after a conflict. Measured from the first conflict to the end.
    ConflictRetry,
    /// A read that found its key in a memtable (one in 1024).
    Memtable,
    /// A read that found its key in pages in memory (one in 1024).
    PoolHit,
    /// A page was read from the file.
    PoolFault,
    /// A writer was slowed down, because merging is slower than the writes.
    Debt,
    /// A writer waited until a checkpoint ended, because the memory for writes was full.
    MemoryFull,
}

impl Cause {
    /// The number of causes.
    pub const COUNT: usize = 9;
    /// All causes.
    pub const ALL: [Cause; Cause::COUNT] = [
        Cause::LogRoom,
        Cause::Sync,
        Cause::CommitQueue,
        Cause::ConflictRetry,
        Cause::Memtable,
        Cause::PoolHit,
        Cause::PoolFault,
        Cause::Debt,
        Cause::MemoryFull,
    ];

    /// Returns the name that metrics use.
    pub fn name(self) -> &'static str {
        match self {
            Cause::LogRoom => "log_room",
            Cause::Sync => "sync",
            Cause::CommitQueue => "commit_queue",
            Cause::ConflictRetry => "conflict_retry",
            Cause::Memtable => "memtable",
            Cause::PoolHit => "pool_hit",
            Cause::PoolFault => "pool_fault",
            Cause::Debt => "debt",
            Cause::MemoryFull => "memory_full",
        }
    }

    /// Returns how many events one timed event stands for.
    pub fn sampled_every(self) -> u64 {
        if matches!(self, Cause::Memtable | Cause::PoolHit) { SAMPLE_EVERY } else { 1 }
    }
}

/// The waits for one cause since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// The number of waits that were timed.
    pub count: u64,
    /// The sum of the waits in nanoseconds.
    pub total_ns: u64,
    /// The median in nanoseconds, accurate to an eighth.
    pub p50_ns: u64,
    /// The 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// The 99.9th percentile in nanoseconds.
    pub p999_ns: u64,
    /// The longest wait in nanoseconds.
    pub max_ns: u64,
}

/// Four buckets to each power of two up to 2^36 ns, 69 seconds; the last bucket takes all longer waits.
const OCTAVES: usize = 35;
const BUCKETS: usize = OCTAVES * 4;
const SHARDS: usize = 8;

struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Histogram {
    const fn new() -> Self {
        let (total_ns, max_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Histogram { buckets: [const { AtomicU64::new(0) }; BUCKETS], total_ns, max_ns }
    }
}

type Shard = [Histogram; Cause::COUNT];

/// A histogram for each [`Cause`].
#[derive(Default)]
pub struct Latencies {
    shards: [OnceLock<Box<Shard>>; SHARDS],
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(Cause::ALL.map(|cause| (cause, self.get(cause)))).finish()
    }
}

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns this thread's shard. Shards are assigned to threads in turn.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if SHARD.get() == usize::MAX {
        SHARD.set(NEXT.fetch_add(1, Ordering::SeqCst) % SHARDS);
    }
    SHARD.get()
}

impl Latencies {
    /// Counts a wait.
    #[cold]
    pub fn record(&self, cause: Cause, ns: u64) {
        let shard = self.shards[shard()].get_or_init(|| Box::new([const { Histogram::new() }; Cause::COUNT]));
        let histogram = &shard[cause as usize];
        // Relaxed throughout: tallies order nothing.
        histogram.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        histogram.total_ns.fetch_add(ns, Ordering::Relaxed);
        histogram.max_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// Runs `wait` and counts how long it took.
    #[cold]
    #[inline(never)]
    pub fn time<T>(&self, cause: Cause, wait: impl FnOnce() -> T) -> T {
        let watch = Stopwatch::start();
        let result = wait();
        self.record(cause, watch.elapsed_ns());
        result
    }

    /// Returns the waits for `cause`. While other threads count, sums and quantiles can differ by one wait.
    pub fn get(&self, cause: Cause) -> Latency {
        let mut merged = [0; BUCKETS];
        let mut latency = Latency::default();
        for histogram in self.shards.iter().filter_map(OnceLock::get).map(|shard| &shard[cause as usize]) {
            // Relaxed throughout: as above.
            latency.total_ns += histogram.total_ns.load(Ordering::Relaxed);
            latency.max_ns = latency.max_ns.max(histogram.max_ns.load(Ordering::Relaxed));
            for (sum, bucket) in merged.iter_mut().zip(&histogram.buckets) {
                *sum += bucket.load(Ordering::Relaxed); // Relaxed: as above.
            }
        }
        latency.count = merged.iter().sum();
        let quantile = |permille: u64| {
            let rank = (latency.count * permille).div_ceil(1000).max(1);
            let mut seen = 0;
            let reached = merged.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            reached.map_or(0, |bucket| middle(bucket).min(latency.max_ns))
        };
        (latency.p50_ns, latency.p99_ns, latency.p999_ns) = (quantile(500), quantile(990), quantile(999));
        latency
    }
}

/// Returns the bucket of `ns`: values below 8 have a bucket each.
fn bucket(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let octave = ns.ilog2() as usize;
    let quarter = (ns >> (octave - 2)) as usize & 3;
    ((octave - 1) * 4 + quarter).min(BUCKETS - 1)
}

/// Returns the middle of a bucket's values.
fn middle(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (octave, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
    let width = 1_u64 << (octave - 2);
    (4 + quarter) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Random;

    #[test]
    fn a_bucket_is_within_an_eighth_of_its_values() {
        let mut last = 0;
        for ns in (0..100_000).chain((17..36).map(|shift| (1_u64 << shift) + 12_345)) {
            let bucket = bucket(ns);
            assert!(bucket >= last, "{ns}");
            last = bucket;
            assert!(middle(bucket).abs_diff(ns) * 8 <= ns.max(4), "{ns}: {}", middle(bucket));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn shards_add_up_to_what_was_recorded() {
        let (latencies, mut random) = (Latencies::default(), Random::seeded(3));
        let mut all: Vec<u64> = (0..20_000).map(|_| random.next_u64() >> (30 + random.below(24))).collect();
        std::thread::scope(|scope| {
            for part in all.chunks(3_000) {
                let latencies = &latencies;
                scope.spawn(move || part.iter().for_each(|&ns| latencies.record(Cause::Debt, ns)));
            }
        });
        all.sort_unstable();
        let found = latencies.get(Cause::Debt);
        assert_eq!(found.count, 20_000);
        assert_eq!((found.total_ns, found.max_ns), (all.iter().sum(), all[19_999]));
        for (is, rank) in [(found.p50_ns, 9_999), (found.p99_ns, 19_799), (found.p999_ns, 19_979)] {
            assert!(is.abs_diff(all[rank]) * 8 <= all[rank], "{is} for {}", all[rank]);
        }
        assert_eq!(latencies.get(Cause::Sync), Latency::default());
    }
}
