//! Pacing: how fast writers may go, so that merging keeps up and no writer waits for a whole merge.
//!
//! *Debt* is what was committed and is not merged yet, relative to its limit: memtables relative to their share of the
//! memory, the log that a recovery would replay relative to its cap in bytes and records, and the memtables of all
//! databases that share a budget relative to the same share. What the current checkpoint has merged already counts as
//! paid, although its memory is freed only at its end: so debt falls while a merge runs. After the last record a
//! checkpoint writes and flushes, which cannot be observed as progress: the part of its time that this takes counts
//! only at its end.
//!
//! Let *x* be the greatest of these fractions and *R* the recent rate at which memtables were merged. Writers get
//! *R (1 - x) / x*: at half the limit exactly what is merged, so that debt settles there; three times as much at a
//! quarter, below which no writer is slowed; less and less towards the limit, and nothing at it. In addition, the free
//! room must last until the current checkpoint frees its memory: *room / time left* (spring and gear, as in bLSM), with
//! a fifth to spare; if that estimate was too short, the rate for the last of the room decreases further. The smaller
//! rate applies.
//!
//! *R* is an average, and checkpoints differ: one that also merges runs of an LSM table takes ten times as long as one
//! that does not. So the time left is estimated from all records that are left, and from the recent times of a record
//! and a flush.
//!
//! Well below the debt at which writers are slowed, a checkpoint pauses between the pieces of its work: see
//! [`Pressure::pause_permille`].
//!
//! All of this is a function of [`Pressure`] and *R*. The program that drives the store has the clock and sleeps.

use crate::state::options::MAX_SEALED;
use base::background;
use base::sync::atomic::{AtomicU64, Ordering};

/// A reason for which writers are slowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The memtables of this database fill their share of the memory.
    Memtables,
    /// The log that a recovery must replay approaches its limit.
    Log,
    /// The memtables of all databases that share the budget fill their share.
    Budget,
}

impl Cause {
    /// The number of causes.
    pub const COUNT: usize = 3;
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; Cause::COUNT] = [Cause::Memtables, Cause::Log, Cause::Budget];

    /// Returns the name: `memtables`, `log` or `budget`.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Memtables => "memtables",
            Cause::Log => "log",
            Cause::Budget => "budget",
        }
    }
}

/// The debt below which no writer is slowed, in thousandths.
const FREE_PERMILLE: u64 = 250;
/// The debt below which the pauses of a checkpoint are longest, in thousandths.
const FULL_PAUSE_PERMILLE: u64 = FREE_PERMILLE / 2;
/// The longest pauses, in thousandths of the time that a checkpoint works.
const MOST_PAUSE_PERMILLE: u64 = 3000;
/// The debt that counts for the rate at and above the limit, where writers get a hundredth of what is merged.
/// [`Pressure::is_full`] decides whether they may begin at all.
const MOST_PERMILLE: u64 = 990;

/// The factor by which the free room must outlast the estimated time of the current checkpoint.
const SPARE: (u128, u128) = (5, 4);
/// The part of the limit below which room is little: the checkpoint has taken longer than estimated, and its time is
/// unknown, so writers are slowed in proportion to the room.
const LITTLE_ROOM: u64 = 8;
/// The part of the limit below which less room does not slow writers further.
const LEAST_ROOM: u64 = 1000;

/// The rate at which writers may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time that a byte written costs, in picoseconds.
    pub ps_per_byte: u64,
    /// The cause of the rate.
    pub cause: Cause,
}

/// The delays of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delays {
    /// The number of commits that were delayed, and of transactions that had to wait before they began.
    pub count: u64,
    /// The total time of the delays, in nanoseconds.
    pub total_ns: u64,
}

/// The debt of merging, and the delays of writers because of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacingStats {
    /// The debt of each [`Cause`], in thousandths of its limit.
    pub debt_permille: [u64; Cause::COUNT],
    /// The bytes of the log that a recovery would replay.
    pub unabsorbed_log_bytes: u64,
    /// The records of the log that a recovery would replay.
    pub unabsorbed_records: u64,
    /// The recent rate at which memtables were merged, in bytes a second; 0 if none were.
    pub absorbed_bytes_per_s: u64,
    /// The delays of each [`Cause`].
    pub delays: [Delays; Cause::COUNT],
}

/// The progress of the current checkpoint. The checkpoint writes it, and [`Pressure`] reads it. All accesses are
/// `Relaxed`, because these are estimates that order nothing.
#[derive(Debug)]
pub(crate) struct Merging {
    bytes: AtomicU64,
    /// The records of the memtables.
    absorbed_records: AtomicU64,
    /// The records of LSM tables' runs in addition.
    compacted_records: AtomicU64,
    /// The merged records of both.
    done: AtomicU64,
    /// The recent time for a record, in picoseconds.
    ps_per_record: AtomicU64,
    /// The recent time of a checkpoint from its last record to the switch, in nanoseconds.
    tail_ns: AtomicU64,
}

impl Default for Merging {
    fn default() -> Self {
        let number = AtomicU64::new;
        Merging {
            bytes: number(0),
            absorbed_records: number(0),
            compacted_records: number(0),
            done: number(0),
            ps_per_record: number(PS_PER_RECORD),
            tail_ns: number(TAIL_NS),
        }
    }
}

/// The assumed time for a record before the first checkpoint: 1 microsecond.
const PS_PER_RECORD: u64 = 1_000_000;
/// The assumed time of a checkpoint's end before the first checkpoint: 5 milliseconds.
const TAIL_NS: u64 = 5_000_000;
/// The least number of records of a checkpoint from which times are measured.
const LEAST_TIMED_RECORDS: u64 = 256;

impl Merging {
    pub fn begin(&self, bytes: u64, records: u64) {
        self.done.store(0, Ordering::Relaxed); // Relaxed: see `Merging`.
        self.compacted_records.store(0, Ordering::Relaxed); // Relaxed: a tally as well.
        self.absorbed_records.store(records, Ordering::Relaxed); // Relaxed: a tally as well.
        self.bytes.store(bytes, Ordering::Relaxed); // Relaxed: a tally as well.
    }

    /// Sets the approximate number of records of LSM tables to merge in addition. The memory of the memtables is freed
    /// only after these are merged, too, so they count as part of the way.
    pub fn expect(&self, records: u64) {
        self.compacted_records.store(records, Ordering::Relaxed); // Relaxed: see `Merging`.
    }

    /// Notes that `records` more records were merged. Pauses, if this thread is throttled.
    pub fn advance(&self, records: u64) {
        self.done.fetch_add(records, Ordering::Relaxed); // Relaxed: see `Merging`.
        background::pause();
    }

    pub fn end(&self) {
        self.bytes.store(0, Ordering::Relaxed); // Relaxed: see `Merging`.
        self.absorbed_records.store(0, Ordering::Relaxed); // Relaxed: a tally as well.
        self.compacted_records.store(0, Ordering::Relaxed); // Relaxed: a tally as well.
    }

    /// Records the times of the ended checkpoint: of its records, and of what follows them.
    pub fn note(&self, records_ns: u64, tail_ns: u64) {
        // Relaxed, in two steps: see `Merging`; one thread makes checkpoints. A longer time than estimated counts by
        // half, because it may be the first of many; a shorter one by an eighth.
        let mean = |of: &AtomicU64, ns: u64| {
            let before = of.load(Ordering::Relaxed); // Relaxed: a tally as well.
            let mean = if ns > before { before / 2 + ns / 2 } else { before - (before - ns) / 8 };
            of.store(mean, Ordering::Relaxed); // Relaxed: a tally as well.
        };
        let records = self.done.load(Ordering::Relaxed); // Relaxed: a tally as well.
        if records >= LEAST_TIMED_RECORDS {
            mean(&self.ps_per_record, records_ns.saturating_mul(1000) / records);
        }
        mean(&self.tail_ns, tail_ns);
    }

    /// Returns the progress of the current checkpoint.
    pub fn progress(&self) -> Progress {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed); // Relaxed: see `Merging`.
        let records = load(&self.absorbed_records) + load(&self.compacted_records);
        if records == 0 {
            return Progress::default();
        }
        let done = load(&self.done).min(records);
        let ns = |records: u64| (u128::from(records) * u128::from(load(&self.ps_per_record)) / 1000) as u64;
        let all_ns = ns(records) + load(&self.tail_ns);
        let merged = u128::from(load(&self.bytes)) * u128::from(ns(done)) / u128::from(all_ns.max(1));
        Progress { merged_bytes: merged as u64, left_ns: all_ns - ns(done) }
    }
}

/// The progress of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The approximate bytes of the memtables that it has merged.
    pub merged_bytes: u64,
    /// The approximate time until it frees their memory, in nanoseconds.
    pub left_ns: u64,
}

fn permille(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 1000 / u128::from(whole.max(1))).min(1_000_000) as u64
}

impl Pressure {
    /// Returns the debt of each [`Cause`], in thousandths of its limit.
    pub fn debt_permille(&self) -> [u64; Cause::COUNT] {
        let (own, limit) = (self.memtables_bytes as u64, self.limit_bytes as u64);
        let unmerged = own.saturating_sub(self.merged_bytes);
        let log =
            permille(self.log_bytes, self.max_log_bytes).max(permille(self.records, self.max_log_records));
        // A database alone has only one debt of memtables.
        let shared = if self.others_bytes == 0 { 0 } else { self.shared_bytes as u64 };
        let shared = shared.saturating_sub(self.merged_bytes);
        // Merged records count as removed from the log, too.
        let log = (u128::from(log) * u128::from(unmerged) / u128::from(own.max(1))) as u64;
        [permille(unmerged, limit), log, permille(shared, limit)]
    }

    /// Returns how long a checkpoint may pause after a piece of work, in thousandths of the time that the piece took.
    /// At half of the debt at which writers are slowed, the checkpoint uses a quarter of a processor. If writers are
    /// faster than the checkpoint, it uses more as the debt grows, and a whole processor before any writer is slowed.
    pub fn pause_permille(&self) -> u64 {
        let debt = self.debt_permille().into_iter().max().unwrap_or(0);
        let left = FREE_PERMILLE.saturating_sub(debt);
        (left * MOST_PAUSE_PERMILLE / (FREE_PERMILLE - FULL_PAUSE_PERMILLE)).min(MOST_PAUSE_PERMILLE)
    }

    /// Returns how fast writers may go if memtables are merged at `absorbed_bytes_per_s` (0: unknown); `None`: without
    /// a limit.
    pub fn pace(&self, absorbed_bytes_per_s: u64) -> Option<Pace> {
        let debts = self.debt_permille();
        let (cause, debt) = Cause::ALL.into_iter().zip(debts).max_by_key(|(_, debt)| *debt)?;
        if debt < FREE_PERMILLE {
            return None;
        }
        let merged_ps = 1_000_000_000_000_u64.checked_div(absorbed_bytes_per_s).unwrap_or(0);
        let debt = debt.min(MOST_PERMILLE);
        let by_debt = merged_ps * debt / (1000 - debt);
        let held = self.memtables_bytes.max(self.shared_bytes) as u64;
        let limit = self.limit_bytes as u64;
        let room = limit.saturating_sub(held).max(limit / LEAST_ROOM).max(1);
        let by_room = u128::from(self.left_ns) * 1000 * SPARE.0 / SPARE.1 / u128::from(room);
        let by_room = by_room * u128::from(room.max(limit / LITTLE_ROOM)) / u128::from(room);
        let ps_per_byte = by_debt.max(u64::try_from(by_room).unwrap_or(u64::MAX));
        (ps_per_byte > 0).then_some(Pace { ps_per_byte, cause })
    }
}

/// The result of [`crate::Store::pressure`].
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    /// The bytes of all memtables that are not absorbed yet.
    pub memtables_bytes: usize,
    /// The bytes of all memtables of all databases that share the budget, including those that wait to be freed;
    /// without those that only this one's open readers keep, up to one memtable.
    pub shared_bytes: usize,
    /// The part of these that other databases hold.
    pub others_bytes: usize,
    /// The memtables' share of the memory.
    pub limit_bytes: usize,
    /// The number of memtables that are sealed and wait for a checkpoint.
    pub sealed: usize,
    /// The approximate bytes that the current checkpoint has merged of its memtables.
    pub merged_bytes: u64,
    /// The approximate time until that checkpoint frees their memory, in nanoseconds.
    pub left_ns: u64,
    /// The bytes of the log that a recovery would replay, including what segments left unused.
    pub log_bytes: u64,
    /// The limit on these bytes.
    pub max_log_bytes: u64,
    /// The records of all memtables that are not absorbed yet.
    pub records: u64,
    /// The limit on these records.
    pub max_log_records: u64,
}

impl Pressure {
    /// Returns whether a writer should wait for the checkpoint before it adds more.
    pub fn is_full(&self) -> bool {
        let bytes = self.memtables_bytes.max(self.shared_bytes);
        let log = self.log_bytes >= self.max_log_bytes || self.records >= self.max_log_records;
        ((bytes > self.limit_bytes || log) && self.sealed > 0) || self.sealed >= MAX_SEALED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    const LIMIT: u64 = 24 << 20;
    const SEAL: u64 = LIMIT / 3;

    fn pressure(held: u64, merged: u64, left_ns: u64) -> Pressure {
        Pressure {
            memtables_bytes: held as usize,
            shared_bytes: held as usize,
            others_bytes: 0,
            limit_bytes: LIMIT as usize,
            sealed: 1,
            merged_bytes: merged,
            left_ns,
            log_bytes: 0,
            max_log_bytes: u64::MAX,
            records: 0,
            max_log_records: u64::MAX,
        }
    }

    #[test]
    fn the_more_debt_the_slower() {
        let mut last = 0;
        for held in (0..=LIMIT + LIMIT / 2).step_by(LIMIT as usize / 200) {
            let pace = pressure(held, 0, 0).pace(1 << 20).map_or(0, |pace| pace.ps_per_byte);
            assert!(pace >= last, "at {held}");
            last = pace;
        }
        assert_eq!(pressure(LIMIT / 5, 0, 0).pace(1 << 20), None);
        let half = pressure(LIMIT / 2, 0, 0).pace(1_000_000).expect("half full");
        assert_eq!(half.ps_per_byte, 1_000_000, "at half the ceiling what is merged comes in");
        assert!(last >= 90 * half.ps_per_byte, "at the ceiling next to nothing does");
        assert_eq!(pressure(LIMIT, 0, 0).pace(0), None, "before the first merge nothing is known");
        let merged = pressure(LIMIT / 2, SEAL, 0).pace(1 << 20);
        assert_eq!(merged, None, "what is merged is paid");
        let long = pressure(LIMIT / 2, 0, 2_000_000_000).pace(1 << 40).expect("half full");
        let room_ps = 2_000_000_000_000 / (LIMIT / 2);
        assert!(long.ps_per_byte > room_ps, "what is free lasts until a long merge ends");
        assert!(long.ps_per_byte < 2 * room_ps, "and not much longer");
    }

    #[test]
    fn pauses_end_before_writers_are_slowed() {
        assert_eq!(pressure(0, 0, 0).pause_permille(), 3000);
        assert_eq!(pressure(LIMIT / 8, 0, 0).pause_permille(), 3000);
        assert_eq!(pressure(LIMIT * 3 / 16, 0, 0).pause_permille(), 1512);
        assert_eq!(pressure(LIMIT / 2, LIMIT * 3 / 8, 0).pause_permille(), 3000, "what is merged is paid");
        for held in (0..=LIMIT).step_by(LIMIT as usize / 200) {
            let pressure = pressure(held, 0, 0);
            let (pause, pace) = (pressure.pause_permille(), pressure.pace(1 << 20));
            assert!(pause == 0 || pace.is_none(), "at {held}: {pause} and {pace:?}");
        }
    }

    #[test]
    fn the_time_left_is_told_from_all_records() {
        let merging = Merging::default();
        assert_eq!(merging.progress(), Progress::default());
        merging.begin(1_000_000, 10_000);
        merging.advance(10_000);
        merging.end();
        (0..20).for_each(|_| merging.note(10_000_000, 4_000_000));
        merging.begin(1_000_000, 10_000);
        let near = |ns: u64, ms: u64| ns.abs_diff(ms * 1_000_000) < 500_000;
        assert!(near(merging.progress().left_ns, 14), "{:?}", merging.progress());
        merging.expect(90_000);
        assert!(near(merging.progress().left_ns, 104), "{:?}", merging.progress());
        merging.advance(50_000);
        let Progress { merged_bytes, left_ns } = merging.progress();
        assert!(near(left_ns, 54) && merged_bytes.abs_diff(480_000) < 10_000, "{merged_bytes}, {left_ns}");
        merging.note(50_000_000, 30_000_000);
        assert!(merging.progress().left_ns > 60_000_000, "a slow flush is taken for the first of many");
        merging.end();
        assert_eq!(merging.progress(), Progress::default());
    }

    #[test]
    fn log_and_records_count_as_well() {
        let log = Pressure { log_bytes: 800, max_log_bytes: 1000, ..pressure(1000, 0, 0) };
        assert_eq!(log.debt_permille()[Cause::Log as usize], 800);
        assert_eq!(log.pace(1000).map(|pace| pace.cause), Some(Cause::Log));
        let records = Pressure { records: 90, max_log_records: 100, ..pressure(1000, 0, 0) };
        assert_eq!(records.debt_permille()[Cause::Log as usize], 900);
        assert!(Pressure { records: 100, ..records }.is_full() && !records.is_full());
        let full = Pressure { log_bytes: 1000, ..log };
        assert!(full.is_full() && !log.is_full());
        let others_bytes = LIMIT as usize / 2;
        let shared = Pressure { shared_bytes: others_bytes + 1000, others_bytes, ..pressure(1000, 0, 0) };
        assert_eq!(shared.pace(1000).map(|pace| pace.cause), Some(Cause::Budget));
    }

    const RECORD_BYTES: u64 = 100;

    /// A simulated checkpoint and its maker, with a time of its own.
    #[derive(Default)]
    struct Made {
        /// What it knows of its progress.
        known: Merging,
        /// The bytes of the memtables that are merged; 0: none.
        merging: u64,
        records: u64,
        done: u64,
        /// What is written and flushed after the records, as bytes that take as long.
        tail: u64,
        records_ms: u64,
        tail_ms: u64,
        /// Bytes and milliseconds; each checkpoint weighs three quarters of the next.
        sum: (u64, u64),
        count: u64,
    }

    impl Made {
        fn begin(&mut self, merging: u64, besides: u64, tail_permille: u64) {
            let records = merging / RECORD_BYTES;
            self.known.begin(merging, records);
            self.known.expect(records * besides);
            (self.merging, self.records, self.done) = (merging, records * (1 + besides), 0);
            (self.tail, self.records_ms, self.tail_ms) = (merging * tail_permille / 1000, 0, 0);
        }

        /// Simulates a millisecond in which `bytes` are merged. Returns the previous size at the end.
        fn go_on(&mut self, bytes: u64) -> Option<u64> {
            if self.done < self.records {
                let done = (bytes / RECORD_BYTES).min(self.records - self.done);
                self.known.advance(done);
                (self.done, self.records_ms) = (self.done + done, self.records_ms + 1);
                return None;
            }
            (self.tail, self.tail_ms) = (self.tail.saturating_sub(bytes), self.tail_ms + 1);
            if self.tail > 0 {
                return None;
            }
            self.known.note(self.records_ms * 1_000_000, self.tail_ms * 1_000_000);
            self.known.end();
            let took_ms = self.records_ms + self.tail_ms;
            self.sum = (self.sum.0 / 4 * 3 + self.merging, self.sum.1 * 3 / 4 + took_ms);
            self.count += 1;
            Some(std::mem::take(&mut self.merging))
        }
    }

    /// Rates change, and so does what a checkpoint merges in addition. The limit is not exceeded, hardly any writer is
    /// stopped after a few checkpoints, and writers go as fast as merging does.
    #[test]
    fn a_paced_writer_never_meets_the_ceiling() {
        for seed in 0..60 {
            let mut random = Random::seeded(seed);
            // These are bytes in a millisecond.
            let write = 20_000 + random.below(400_000);
            let mut merge = 4_000 + random.below(100_000);
            let (most_besides, tail_permille) = (random.below(9), random.below(700));
            let (mut open, mut sealed, mut made) = (0u64, Vec::<u64>::new(), Made::default());
            let (mut written, mut absorbed, mut stopped_ms) = (0u64, 0u64, 0);
            for ms in 0..60_000u64 {
                if ms % 3_000 == 2_999 {
                    merge = (merge * (60 + random.below(80)) / 100).clamp(4_000, 200_000);
                }
                let Progress { merged_bytes, left_ns } = made.known.progress();
                let now = pressure(open + sealed.iter().sum::<u64>(), merged_bytes, left_ns);
                assert!(now.memtables_bytes as u64 <= LIMIT + LIMIT / 50, "seed {seed}, {ms} ms: {now:?}");
                let rate = made.sum.0 * 1000 / made.sum.1.max(1);
                let allowed = now.pace(rate).map_or(u64::MAX, |p| 1_000_000_000 / p.ps_per_byte.max(1));
                let bytes = if now.is_full() { 0 } else { write.min(allowed) };
                stopped_ms += u64::from(now.is_full() && made.count > 5);
                (open, written) = (open + bytes, written + bytes);
                if open >= SEAL {
                    sealed.push(std::mem::take(&mut open));
                }
                if made.merging == 0 && !sealed.is_empty() {
                    let besides = if random.chance(1, 2) { random.below(most_besides + 1) } else { 0 };
                    made.begin(sealed.iter().sum(), besides, tail_permille);
                } else if made.merging > 0
                    && let Some(merged) = made.go_on(merge)
                {
                    absorbed += merged;
                    let mut gone = 0;
                    sealed.retain(|bytes| {
                        gone += bytes;
                        gone > merged
                    });
                }
            }
            assert!(stopped_ms <= 20, "seed {seed}: stopped for {stopped_ms} ms of 60,000");
            let least = absorbed + SEAL;
            assert!(written >= absorbed && written <= least + LIMIT, "seed {seed}: {written} of {absorbed}");
        }
    }
}
