//! Clocks and random numbers, each of one type, so that a simulation can control both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock with the wall time, for entries that expire. The wall time can stand still, jump and go back.
///
/// ```
/// use pando_base::env::Clock;
/// let (clock, hand) = Clock::set_by_hand(1_000);
/// hand.store(2_000, std::sync::atomic::Ordering::SeqCst);
/// assert_eq!(clock.now_ms(), 2_000);
/// ```
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// A clock that the caller sets, in milliseconds, for tests and simulations.
    Hands {
        /// The wall time.
        wall: Arc<AtomicU64>,
        /// The time that has passed.
        passed: Arc<AtomicU64>,
    },
}

/// The time at one moment, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Wall time since 1970. It can jump.
    pub wall_ms: u64,
    /// Time that has passed in this process, from an arbitrary start. It never jumps.
    pub passed_ms: u64,
}

/// The start of the time that has passed in this process.
static BEGUN: OnceLock<Instant> = OnceLock::new();

impl Clock {
    /// Creates a clock that stands at `now_ms`, and the value that sets it. An increase of the value lets that much
    /// time pass.
    pub fn set_by_hand(now_ms: u64) -> (Clock, Arc<AtomicU64>) {
        let hand = Arc::new(AtomicU64::new(now_ms));
        (Clock::Hands { wall: Arc::clone(&hand), passed: Arc::clone(&hand) }, hand)
    }

    /// Creates a clock with two values that set it: the first is the wall time, the second is the time that has passed,
    /// which begins at 0.
    pub fn set_by_two_hands(now_ms: u64) -> (Clock, Arc<AtomicU64>, Arc<AtomicU64>) {
        let (wall, passed) = (Arc::new(AtomicU64::new(now_ms)), Arc::new(AtomicU64::new(0)));
        (Clock::Hands { wall: Arc::clone(&wall), passed: Arc::clone(&passed) }, wall, passed)
    }

    /// Returns the wall time and the time that has passed. Takes about 50 ns.
    pub fn moment(&self) -> Moment {
        let passed_ms = match self {
            Clock::System => BEGUN.get_or_init(Instant::now).elapsed().as_millis() as u64,
            Clock::Hands { passed, .. } => passed.load(Ordering::SeqCst),
        };
        Moment { wall_ms: self.now_ms(), passed_ms }
    }

    /// Returns the milliseconds since 1970; 0 before. Takes about 25 ns.
    pub fn now_ms(&self) -> u64 {
        match self {
            Clock::System => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
            }
            Clock::Hands { wall, .. } => wall.load(Ordering::SeqCst),
        }
    }
}

/// A stopwatch for reported figures. No decision may depend on it, or a simulation would not repeat.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Instant,
}

impl Stopwatch {
    /// Starts a stopwatch. Takes about 20 ns.
    pub fn start() -> Self {
        Stopwatch { began: Instant::now() }
    }

    /// Returns the nanoseconds since the start.
    pub fn elapsed_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): a small, fast generator with a seed. Not for secrets.
///
/// ```
/// use pando_base::env::Random;
/// let mut a = Random::seeded(7);
/// let mut b = Random::seeded(7);
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator whose numbers `seed` determines.
    pub fn seeded(seed: u64) -> Self {
        Random { state: seed }
    }

    /// Creates a generator that differs from run to run, seeded from the clock, the process and the hasher's keys.
    pub fn from_entropy() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Random::seeded(RandomState::new().hash_one((nanos, std::process::id())))
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which must not be 0. The bias is below 2^-32 for bounds below 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true in `n` of `of` cases.
    #[inline]
    pub fn chance(&mut self, n: u64, of: u64) -> bool {
        self.below(of) < n
    }

    /// Shuffles `items` in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
