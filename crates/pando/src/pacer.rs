//! The pacer makes writers keep to the pace that the store asks for: each commit waits a little after it was
//! acknowledged, outside any lock.
//!
//! It is a leaky bucket for the database: each commit moves the time at which its bytes are due. A commit that finds
//! that time in the future sleeps until then, in at most [`MOST_SLICES`] slices of at most a millisecond. If the time
//! is less than [`QUANTUM_NS`] away, no writer sleeps, because the kernel would wake it too late. Instead one writer at
//! a time stays awake and yields, if there is a second processor to merge on: a sleep for each microsecond would cost
//! as many cycles. As long as there is no debt, a commit reads one flag.

use base::latency::{self, Latencies};
use base::sync::lock;
use io::precise_sleep;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use store::Store;
use store::pacing::{Cause, Delays, PacingStats};

/// The interval at which the pace is computed again.
const LOOK_NS: u64 = 1_000_000;
/// The longest single sleep.
const SLICE_NS: u64 = 1_000_000;
/// The greatest number of sleeps of one commit. The rest is left to the next commit.
const MOST_SLICES: u32 = 4;
/// The shortest sleep: shorter ones take almost as long.
const QUANTUM_NS: u64 = 50_000;
/// The usual greatest time between the end of a sleep and the thread's next instruction. A sleep is shortened by it.
const WAKING_NS: u64 = 45_000;

/// The pacer of a database; see the module.
#[derive(Debug)]
pub(crate) struct Pacer {
    started: Instant,
    /// Whether commits have to look at the pace at all.
    active: AtomicBool,
    /// The time at which the pace was computed last, in nanoseconds since the start; and the pace, in picoseconds.
    looked_ns: AtomicU64,
    ps_per_byte: AtomicU64,
    cause: AtomicU64,
    /// Whether a writer stays awake, or none may.
    is_awake: AtomicBool,
    /// The time at which everything committed is due.
    due_ns: AtomicU64,
    merged: Mutex<Merged>,
    absorbed_bytes_per_s: AtomicU64,
    delays: Mutex<[Delays; Cause::COUNT]>,
    latencies: Arc<Latencies>,
}

/// The bytes of merged memtables, and the time that this took, over all checkpoints; each checkpoint weighs three
/// quarters of the next. Bytes and time are kept apart, because a mean of rates would favor the fast checkpoints.
#[derive(Debug, Default)]
struct Merged {
    bytes: u64,
    ns: u64,
}

impl Pacer {
    pub fn new(latencies: Arc<Latencies>) -> Self {
        let number = || AtomicU64::new(0);
        Pacer {
            started: Instant::now(),
            active: AtomicBool::new(false),
            looked_ns: number(),
            ps_per_byte: number(),
            cause: number(),
            is_awake: AtomicBool::new(has_one_processor()),
            due_ns: number(),
            merged: Mutex::default(),
            absorbed_bytes_per_s: number(),
            delays: Mutex::default(),
            latencies,
        }
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Notes that a memtable was sealed, so that there may be debt from now on.
    pub fn activate(&self) {
        self.active.store(true, Ordering::SeqCst);
    }

    /// Returns whether commits wait at all, according to the last computation of the pace.
    pub fn is_owed(&self) -> bool {
        self.active.load(Ordering::SeqCst) && self.ps_per_byte.load(Ordering::SeqCst) > 0
    }

    /// Notes that `bytes` of memtables were merged in `took`; 0 bytes if only runs were merged while memtables waited.
    pub fn absorbed(&self, bytes: u64, took: Duration) {
        let mut merged = lock(&self.merged);
        if bytes == 0 && merged.bytes == 0 {
            return;
        }
        merged.bytes = merged.bytes / 4 * 3 + bytes;
        merged.ns = merged.ns / 4 * 3 + took.as_nanos() as u64;
        let rate = u128::from(merged.bytes) * 1_000_000_000 / u128::from(merged.ns.max(1));
        self.absorbed_bytes_per_s.store((rate as u64).max(1), Ordering::SeqCst);
    }

    /// Waits as long as a commit of `bytes` has to. Returns true if this call computed the pace and the debt is at its
    /// ceiling.
    #[inline]
    pub fn pay(&self, store: &Store, bytes: u64) -> bool {
        self.active.load(Ordering::SeqCst) && self.pay_now(store, bytes)
    }

    #[cold]
    fn pay_now(&self, store: &Store, bytes: u64) -> bool {
        let is_full = self.look(store);
        let Some((begun, mine)) = self.charge(bytes) else { return is_full };
        let mut now = self.stay_awake(begun, mine);
        for _ in 0..MOST_SLICES {
            if mine <= now + QUANTUM_NS {
                break;
            }
            precise_sleep(Duration::from_nanos((mine - now - WAKING_NS).min(SLICE_NS)));
            now = self.now_ns();
        }
        if now > begun {
            self.waited(now - begun, now);
        }
        is_full
    }

    /// Returns how long a commit of `bytes` has to wait, for a caller that waits without a thread, and whether this
    /// call computed the pace and the debt is at its ceiling.
    #[cfg(feature = "aio")]
    pub fn delay(&self, store: &Store, bytes: u64) -> (Duration, bool) {
        if !self.active.load(Ordering::SeqCst) {
            return (Duration::ZERO, false);
        }
        let is_full = self.look(store);
        let Some((begun, mine)) = self.charge(bytes) else { return (Duration::ZERO, is_full) };
        let ns = mine.saturating_sub(begun).min(u64::from(MOST_SLICES) * SLICE_NS);
        if ns < QUANTUM_NS {
            return (Duration::ZERO, is_full);
        }
        self.waited(ns, begun + ns);
        (Duration::from_nanos(ns), is_full)
    }

    /// Adds the cost of `bytes` to what is due. Returns the current time, and when these bytes are due; `None` if they
    /// cost nothing.
    fn charge(&self, bytes: u64) -> Option<(u64, u64)> {
        let cost_ns = (u128::from(bytes) * u128::from(self.ps_per_byte.load(Ordering::SeqCst)) / 1000) as u64;
        if cost_ns == 0 {
            return None;
        }
        let begun = self.now_ns();
        // Time that was not used within a slice is forfeited: there are no bursts after a pause.
        let due = |due: u64| Some(due.max(begun.saturating_sub(SLICE_NS)).saturating_add(cost_ns));
        let before = self.due_ns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, due);
        Some((begun, due(before.unwrap_or(begun)).unwrap_or(begun)))
    }

    /// Counts a wait of `ns` that ends at `now`.
    fn waited(&self, ns: u64, now: u64) {
        self.count(latency::Cause::Debt, self.cause(), ns);
        // Time that no commit slept for does not accumulate: the rate counts, not the sum.
        self.due_ns.fetch_min(now + u64::from(MOST_SLICES) * SLICE_NS, Ordering::SeqCst);
    }

    /// Spins until `due_ns` if the time from `now` is too short for a sleep and no other writer spins. Returns the
    /// current time.
    fn stay_awake(&self, mut now: u64, due_ns: u64) -> u64 {
        if due_ns <= now || due_ns > now + QUANTUM_NS || self.is_awake.swap(true, Ordering::SeqCst) {
            return now;
        }
        while now < due_ns {
            thread::yield_now();
            now = self.now_ns();
        }
        self.is_awake.store(false, Ordering::SeqCst);
        now
    }

    /// Returns the cause of the greatest debt, as of the last computation.
    fn cause(&self) -> Cause {
        Cause::ALL[self.cause.load(Ordering::SeqCst) as usize]
    }

    /// Computes the pace, unless that was done within the last millisecond. Returns whether the debt is at its ceiling.
    fn look(&self, store: &Store) -> bool {
        let (now, looked) = (self.now_ns(), self.looked_ns.load(Ordering::SeqCst));
        let is_due = now >= looked + LOOK_NS;
        if !is_due
            || self.looked_ns.compare_exchange(looked, now, Ordering::SeqCst, Ordering::SeqCst).is_err()
        {
            return false;
        }
        let pressure = store.pressure();
        let pace = pressure.pace(self.absorbed_bytes_per_s.load(Ordering::SeqCst));
        self.ps_per_byte.store(pace.map_or(0, |pace| pace.ps_per_byte), Ordering::SeqCst);
        if let Some(pace) = pace {
            self.cause.store(pace.cause as u64, Ordering::SeqCst);
        } else if pressure.sealed == 0 {
            self.active.store(false, Ordering::SeqCst);
        }
        pressure.is_full()
    }

    /// Counts the time that a writer waited because the memory was full.
    pub fn count_full(&self, ns: u64) {
        self.count(latency::Cause::MemoryFull, self.cause(), ns);
    }

    fn count(&self, wait: latency::Cause, cause: Cause, ns: u64) {
        self.latencies.record(wait, ns);
        let delays = &mut lock(&self.delays)[cause as usize];
        delays.count += 1;
        delays.total_ns += ns;
    }

    /// Adds the pacer's figures.
    pub fn fill(&self, stats: &mut PacingStats) {
        stats.absorbed_bytes_per_s = self.absorbed_bytes_per_s.load(Ordering::SeqCst);
        stats.delays = *lock(&self.delays);
    }
}

/// Returns whether there is only one processor. The result is computed once, because that reads files.
fn has_one_processor() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| thread::available_parallelism().is_ok_and(|processors| processors.get() == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_merging_is_bytes_by_time() {
        let pacer = Pacer::new(Arc::default());
        let rate = || pacer.absorbed_bytes_per_s.load(Ordering::SeqCst);
        pacer.absorbed(0, Duration::from_secs(5));
        assert_eq!(rate(), 0, "merging runs says nothing yet");
        for _ in 0..50 {
            pacer.absorbed(1_000_000, Duration::from_millis(10));
            pacer.absorbed(1_000_000, Duration::from_millis(90));
        }
        assert!((15_000_000..25_000_000).contains(&rate()), "{}: 2 MB take 100 ms", rate());
        let before = rate();
        pacer.absorbed(0, Duration::from_millis(100));
        assert!(rate() < before, "memtables that wait for runs to be merged are merged more slowly");
    }

    #[test]
    fn one_writer_stays_awake_for_what_is_too_short_to_sleep() {
        let pacer = Pacer::new(Arc::default());
        pacer.is_awake.store(false, Ordering::SeqCst);
        let now = pacer.now_ns();
        assert!(pacer.stay_awake(now, now + 20_000) >= now + 20_000);
        assert_eq!(pacer.stay_awake(now, now), now, "nothing is due");
        assert_eq!(pacer.stay_awake(now, now + QUANTUM_NS + 1), now, "it is for a sleep");
        pacer.is_awake.store(true, Ordering::SeqCst);
        assert_eq!(pacer.stay_awake(now, now + 20_000), now, "somebody else does, or there is one processor");
    }
}
