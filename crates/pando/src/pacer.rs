//! Makes writers keep the pace that the store asks for: a little from each commit, after it was acknowledged and
//! outside any lock.
//!
//! A leaky bucket for the database: each commit moves the time at which its bytes are due, and a commit that finds that
//! time ahead sleeps until then, in slices of at most a millisecond and [`MOST_SLICES`] of them. Less than
//! [`QUANTUM_NS`] ahead nobody sleeps: the kernel would not wake him in time. One writer at a time stays awake instead,
//! and yields, if there is a second processor to merge on: a sleep for each microsecond would come to as many cycles.
//! As long as there is no debt, a commit looks at one flag.

use base::latency::{self, Latencies};
use base::sync::lock;
use io::precise_sleep;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use store::Store;
use store::pacing::{Cause, Delays, PacingStats};

/// How often the pace is looked at again.
const LOOK_NS: u64 = 1_000_000;
/// The longest sleep at once.
const SLICE_NS: u64 = 1_000_000;
/// A commit sleeps at most so often; what is left is the next one's.
const MOST_SLICES: u32 = 4;
/// What is not slept for: shorter sleeps take almost as long.
const QUANTUM_NS: u64 = 50_000;
/// What passes between the end of a sleep and the thread's next instruction, at most as a rule: a sleep asks for as
/// much less.
const WAKING_NS: u64 = 45_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pacer {
    started: Instant,
    /// Whether commits have to look at all.
    active: AtomicBool,
    /// When the pace was last looked at, and what it was. In nanoseconds since the start; picoseconds.
    looked_ns: AtomicU64,
    ps_per_byte: AtomicU64,
    cause: AtomicU64,
    /// Whether a writer is staying awake, or none may.
    is_awake: AtomicBool,
    /// When all that was committed is due.
    due_ns: AtomicU64,
    merged: Mutex<Merged>,
    absorbed_bytes_per_s: AtomicU64,
    delays: Mutex<[Delays; Cause::COUNT]>,
    latencies: Arc<Latencies>,
}

/// Bytes of memtables merged, and the time that this took, of all checkpoints: each counts three quarters of the next.
/// Bytes and time apart: a mean of rates would be that of the quick ones.
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

    /// Something was sealed: there may be debt from now on.
    pub fn activate(&self) {
        self.active.store(true, Ordering::SeqCst);
    }

    /// Whether commits pay anything, as far as was seen when somebody last looked.
    pub fn is_owed(&self) -> bool {
        self.active.load(Ordering::SeqCst) && self.ps_per_byte.load(Ordering::SeqCst) > 0
    }

    /// Notes that `bytes` of memtables were merged in `took`; none where runs alone were, while memtables waited.
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

    /// A commit of `bytes` pays what it has to. Answers whether the ceiling is reached, when this call was the one that
    /// looked.
    #[inline]
    pub fn pay(&self, store: &Store, bytes: u64) -> bool {
        self.active.load(Ordering::SeqCst) && self.pay_now(store, bytes)
    }

    #[cold]
    fn pay_now(&self, store: &Store, bytes: u64) -> bool {
        let is_full = self.look(store);
        let cost_ns = (u128::from(bytes) * u128::from(self.ps_per_byte.load(Ordering::SeqCst)) / 1000) as u64;
        if cost_ns == 0 {
            return is_full;
        }
        let begun = self.now_ns();
        // What was not used in a slice's time is forgotten: no bursts after a pause.
        let due = |due: u64| Some(due.max(begun.saturating_sub(SLICE_NS)).saturating_add(cost_ns));
        let before = self.due_ns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, due);
        let mine = due(before.unwrap_or(begun)).unwrap_or(begun);
        let mut now = self.stay_awake(begun, mine);
        for _ in 0..MOST_SLICES {
            if mine <= now + QUANTUM_NS {
                break;
            }
            precise_sleep(Duration::from_nanos((mine - now - WAKING_NS).min(SLICE_NS)));
            now = self.now_ns();
        }
        if now > begun {
            self.count(latency::Cause::Debt, self.cause(), now - begun);
            // What nobody slept for is not heaped up: the rate is what counts, not the sum.
            self.due_ns.fetch_min(now + u64::from(MOST_SLICES) * SLICE_NS, Ordering::SeqCst);
        }
        is_full
    }

    /// Lets the time from `now` to `due_ns` pass, if it is too short for a sleep and nobody else does this. Answers
    /// what time it is.
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

    /// What debt is greatest, when it was last looked at.
    fn cause(&self) -> Cause {
        Cause::ALL[self.cause.load(Ordering::SeqCst) as usize]
    }

    /// Looks at the debt, if nobody did in the last millisecond. Answers whether it is at the ceiling.
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

    /// Counts what a writer who found the memory full waited for.
    pub fn count_full(&self, ns: u64) {
        self.count(latency::Cause::MemoryFull, self.cause(), ns);
    }

    fn count(&self, wait: latency::Cause, cause: Cause, ns: u64) {
        self.latencies.record(wait, ns);
        let delays = &mut lock(&self.delays)[cause as usize];
        delays.count += 1;
        delays.total_ns += ns;
    }

    /// Adds what is known here.
    pub fn fill(&self, stats: &mut PacingStats) {
        stats.absorbed_bytes_per_s = self.absorbed_bytes_per_s.load(Ordering::SeqCst);
        stats.delays = *lock(&self.delays);
    }
}

/// Asked once: the answer takes reading files.
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
