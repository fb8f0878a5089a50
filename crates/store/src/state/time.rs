//! The time for entries with a TTL: a clock of the database's own, which never goes back and does not jump when the
//! wall clock does.
//!
//! 1. *Within a process* time passes as its monotonic clock does: it is that plus an offset.
//! 2. *The wall clock* is assumed to be ahead of the monotonic clock by a constant (`skew`). If it differs by more than
//!    `TOLERANCE_MS`, it was set, or the machine slept. It is believed only after it has differed by the same amount
//!    for `CONFIRM_MS`: if it is ahead, time advances by as much as the machine slept; if it is behind, time continues
//!    as before. A shorter error of the wall clock changes nothing.
//! 3. *Across a reopening* there is only the wall clock. A superblock records the time, and the assumed wall clock's
//!    time then. What the wall clock has gained since has passed; if it shows less, nothing has. So a database whose
//!    time is ahead of the wall clock, because that was wrong once, keeps that lead and ages entries correctly: their
//!    dates are of the same time.
//! 4. *What is stored*: each checkpoint writes both into its superblock. A proper close, and the log thread from time
//!    to time, write them beside it (`superblock`). Only a crash forgets what came since.
//!
//! The reasons are in docs/decisions/0031-time-of-a-database.md.

mod keep;

use base::env::{Clock, Moment};
use base::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The tolerance: clocks are read one after the other, and corrected by less than that repeatedly.
const TOLERANCE_MS: u64 = 1_000;
/// The time for which the wall clock must show another time before it is believed.
const CONFIRM_MS: u64 = 60_000;
/// The greatest time that may have passed without being stored.
const UNSAVED_MS: u64 = 10_000;

/// A time of the database, and the assumed wall clock's time then, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Times {
    /// The latest time that a caller got; 0 if no caller asked.
    pub time_ms: u64,
    /// The assumed wall clock's time, which is less if the wall clock was wrong once.
    pub wall_ms: u64,
}

/// The clock of a database; see the module.
#[derive(Debug)]
pub(crate) struct Time {
    clock: Clock,
    /// The offset of the time from the monotonic clock.
    offset_ms: AtomicU64,
    /// The offset of the wall clock from the monotonic clock.
    skew_ms: AtomicI64,
    latest_ms: AtomicU64,
    suspicion: Mutex<Option<Suspicion>>,
}

/// A time of the wall clock that is not believed yet.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    skew_ms: i64,
    since_passed_ms: u64,
}

fn skew(Moment { wall_ms, passed_ms }: Moment) -> i64 {
    wall_ms.wrapping_sub(passed_ms) as i64
}

impl Time {
    /// Creates a clock that continues from the stored time `was`, and from `least_ms` at least.
    pub fn new(clock: Clock, was: Times, least_ms: u64) -> Time {
        let now = clock.moment();
        let lead_ms = was.time_ms.saturating_sub(was.wall_ms);
        let time_ms = now.wall_ms.saturating_add(lead_ms).max(was.time_ms).max(least_ms);
        Time {
            clock,
            offset_ms: AtomicU64::new(time_ms.saturating_sub(now.passed_ms)),
            skew_ms: AtomicI64::new(skew(now)),
            latest_ms: AtomicU64::new(was.time_ms.max(least_ms)),
            suspicion: Mutex::default(),
        }
    }

    /// Reads the clocks, without giving the time to a caller.
    #[inline]
    fn look(&self) -> u64 {
        let moment = self.clock.moment();
        if skew(moment).abs_diff(self.skew_ms.load(Ordering::SeqCst)) > TOLERANCE_MS {
            self.suspect(moment);
        }
        moment.passed_ms.saturating_add(self.offset_ms.load(Ordering::SeqCst))
    }

    /// Returns the present time in milliseconds since 1970. It writes to a shared cache line at most once a
    /// millisecond.
    pub fn now_ms(&self) -> u64 {
        // SeqCst throughout: a caller that asks later than another one is given no earlier time.
        let now = self.look();
        let latest = self.latest_ms.load(Ordering::SeqCst);
        if now > latest { self.latest_ms.fetch_max(now, Ordering::SeqCst).max(now) } else { latest }
    }

    /// Makes the time at least `least_ms`: another process that has the database open was given that time.
    pub fn pass(&self, least_ms: u64) {
        self.latest_ms.fetch_max(least_ms, Ordering::SeqCst);
    }

    /// Handles a wall clock that does not show the expected time.
    #[cold]
    fn suspect(&self, moment: Moment) {
        let (skew_ms, passed_ms) = (skew(moment), moment.passed_ms);
        let mut suspicion = lock(&self.suspicion);
        let before = suspicion.filter(|before| before.skew_ms.abs_diff(skew_ms) <= TOLERANCE_MS);
        let before = *suspicion.insert(before.unwrap_or(Suspicion { skew_ms, since_passed_ms: passed_ms }));
        if passed_ms.saturating_sub(before.since_passed_ms) < CONFIRM_MS {
            return;
        }
        *suspicion = None;
        let ahead_ms = skew_ms.saturating_sub(self.skew_ms.swap(skew_ms, Ordering::SeqCst));
        // By what the wall clock is behind, it is behind the time from now on.
        self.offset_ms.fetch_add(u64::try_from(ahead_ms).unwrap_or(0), Ordering::SeqCst);
    }

    /// Returns what should be stored: the latest time that a caller got.
    pub fn times(&self) -> Times {
        let time_ms = self.latest_ms.load(Ordering::SeqCst);
        let offset_ms = self.offset_ms.load(Ordering::SeqCst) as i64;
        let lead_ms = offset_ms.saturating_sub(self.skew_ms.load(Ordering::SeqCst));
        Times { time_ms, wall_ms: time_ms.saturating_sub(u64::try_from(lead_ms).unwrap_or(0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 24 * 3_600_000;
    const NOW_MS: u64 = 20_000 * DAY_MS;

    /// A simulated wall clock and monotonic clock, and a database's time by them.
    struct Bed {
        clock: Clock,
        wall: std::sync::Arc<AtomicU64>,
        passed: std::sync::Arc<AtomicU64>,
        time: Time,
    }

    impl Bed {
        fn new() -> Bed {
            let (clock, wall, passed) = Clock::set_by_two_hands(NOW_MS);
            let time = Time::new(clock.clone(), Times::default(), 0);
            Bed { clock, wall, passed, time }
        }

        /// Lets `ms` milliseconds pass on both clocks; a caller asks each second.
        fn pass(&self, ms: u64) {
            for _ in 0..ms / 1000 {
                self.wall.fetch_add(1000, Ordering::SeqCst);
                self.passed.fetch_add(1000, Ordering::SeqCst);
                self.time.now_ms();
            }
        }

        fn set_wall(&self, by_ms: i64) {
            self.wall.fetch_add(by_ms as u64, Ordering::SeqCst);
        }

        fn reopen(&mut self) {
            self.time = Time::new(self.clock.clone(), self.time.times(), 0);
        }

        fn since(&self) -> u64 {
            self.time.now_ms() - NOW_MS
        }
    }

    #[test]
    fn a_wall_that_is_wrong_for_a_moment_changes_nothing() {
        for jump in [DAY_MS as i64, -(DAY_MS as i64)] {
            let mut bed = Bed::new();
            bed.pass(10_000);
            bed.set_wall(jump);
            assert_eq!(bed.since(), 10_000);
            bed.pass(30_000);
            bed.set_wall(-jump);
            bed.pass(10_000);
            assert_eq!(bed.since(), 50_000);
            bed.reopen();
            bed.pass(5_000);
            assert_eq!(bed.since(), 55_000);
        }
    }

    #[test]
    fn what_was_slept_has_passed() {
        let bed = Bed::new();
        bed.pass(10_000);
        bed.set_wall(DAY_MS as i64);
        bed.pass(CONFIRM_MS + 1_000);
        assert_eq!(bed.since(), 11_000 + CONFIRM_MS + DAY_MS);
        assert_eq!(bed.time.times().wall_ms, bed.time.times().time_ms, "as the wall shows");
    }

    #[test]
    fn small_corrections_add_up() {
        let bed = Bed::new();
        for _ in 0..20 {
            bed.set_wall(400);
            bed.pass(2 * CONFIRM_MS);
        }
        assert!(bed.since() + 2 * TOLERANCE_MS > 20 * (2 * CONFIRM_MS + 400), "{}", bed.since());
    }

    /// A wall clock that goes back for good, as one that was wrong before: time continues, and is ahead of it from then
    /// on.
    #[test]
    fn a_wall_that_goes_back_takes_no_time_with_it() {
        let mut bed = Bed::new();
        bed.pass(10_000);
        bed.set_wall(-(DAY_MS as i64));
        bed.pass(2 * CONFIRM_MS);
        assert_eq!(bed.since(), 10_000 + 2 * CONFIRM_MS);
        assert_eq!(bed.time.times().time_ms - bed.time.times().wall_ms, DAY_MS);
        // While it was closed, an hour has passed, which the wall clock shows.
        bed.wall.fetch_add(3_600_000, Ordering::SeqCst);
        bed.reopen();
        assert_eq!(bed.since(), 10_000 + 2 * CONFIRM_MS + 3_600_000);
        // A later step ahead counts from what the wall clock shows now.
        bed.set_wall(5_000);
        bed.pass(2 * CONFIRM_MS);
        assert_eq!(bed.since(), 10_000 + 4 * CONFIRM_MS + 3_605_000);
    }

    #[test]
    fn nothing_comes_back_where_the_wall_went_back_while_it_was_closed() {
        let mut bed = Bed::new();
        bed.pass(100_000);
        bed.set_wall(-50_000);
        bed.reopen();
        assert_eq!(bed.since(), 100_000);
        bed.pass(7_000);
        assert_eq!(bed.since(), 107_000, "and time passes all the same");
    }

    /// The wall clock is a day ahead at an opening, which cannot be detected. The error does not persist.
    #[test]
    fn a_wrong_time_at_an_opening_does_not_stop_time_afterwards() {
        let mut bed = Bed::new();
        bed.pass(10_000);
        bed.set_wall(DAY_MS as i64);
        bed.reopen();
        let put = bed.since();
        bed.set_wall(-(DAY_MS as i64));
        bed.pass(1_000);
        for _ in 0..24 {
            // It is closed for an hour each time.
            bed.wall.fetch_add(3_600_000, Ordering::SeqCst);
            bed.reopen();
            bed.time.now_ms();
        }
        let aged = bed.since() - put;
        assert!((23 * 3_600_000..=DAY_MS + 1_000).contains(&aged), "{aged} ms");
    }
}
