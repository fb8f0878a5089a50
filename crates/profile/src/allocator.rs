//! An allocator that passes every call on, and samples one allocation in 64 KiB during a recording.
//!
//! A binary installs it around its own allocator:
//!
//! ```
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOCATOR: pando_profile::Allocator<System> = pando_profile::Allocator::new(System);
//!
//! fn main() -> Result<(), pando_profile::Error> {
//!     let recording = pando_profile::Recording::start(pando_profile::Kind::Alloc)?;
//!     let kept: Vec<Vec<u8>> = (0..100).map(|_| vec![0; 10_000]).collect();
//!     assert!(recording.stop().total() > 500_000);
//!     # drop(kept);
//!     Ok(())
//! }
//! ```
//!
//! Without a recording an allocation costs one more load and one more branch. The profile counts requested bytes by
//! caller; freed memory is not subtracted. Every thread counts down a distance to its next sample, which is random
//! between half and one and a half of the mean, so that a loop of equal allocations is not sampled in step. A sample
//! stands for all bytes since the sample before it.

use crate::kind::Error;
use crate::native;
use crate::ring::ring;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mean number of bytes that one sample stands for.
const MEAN_BYTES: u64 = 64 << 10;

static WANTED: AtomicBool = AtomicBool::new(false);

/// A global allocator that samples allocations; see the [module](self).
#[derive(Debug)]
pub struct Allocator<A> {
    inner: A,
}

impl<A> Allocator<A> {
    /// Creates an allocator that passes every call on to `inner`.
    pub const fn new(inner: A) -> Self {
        Allocator { inner }
    }
}

/// The distance of a thread to its next sample.
#[derive(Clone, Copy)]
pub(crate) struct Countdown {
    /// The amount until the next sample.
    left: u64,
    /// The amount since the last sample.
    since: u64,
    random: u64,
}

impl Countdown {
    pub const fn new() -> Self {
        Countdown { left: 0, since: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Counts `amount`. Returns the amount that a sample must stand for, if one is due.
    pub fn pass(&mut self, amount: u64, mean: u64) -> Option<u64> {
        self.since = self.since.saturating_add(amount);
        if amount < self.left {
            self.left -= amount;
            return None;
        }
        // Xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.left = mean / 2 + self.random % mean;
        Some(std::mem::take(&mut self.since))
    }
}

thread_local! {
    // It is `const` and has no destructor. Reaching it neither allocates nor fails, even while a thread ends.
    static COUNTDOWN: Cell<Countdown> = const { Cell::new(Countdown::new()) };
    static MUTED: Cell<bool> = const { Cell::new(false) };
}

/// Excludes the calling thread from sampling, because it works for the profiler.
pub(crate) fn mute() {
    MUTED.set(true);
}

pub(crate) fn is_muted() -> bool {
    MUTED.get()
}

/// Starts sampling.
pub(crate) fn start() -> Result<(), Error> {
    WANTED.store(true, Ordering::SeqCst);
    let counted = COUNTDOWN.get().since;
    COUNTDOWN.set(Countdown { left: u64::MAX, ..COUNTDOWN.get() });
    drop(std::hint::black_box(Box::new(0_u64)));
    let heard = COUNTDOWN.get().since != counted;
    COUNTDOWN.set(Countdown::new());
    if heard {
        return Ok(());
    }
    stop();
    Err(Error::NoAllocator)
}

pub(crate) fn stop() {
    WANTED.store(false, Ordering::SeqCst);
}

#[inline]
fn note(bytes: usize) {
    // Relaxed: it is paired with nothing. A thread that sees it late samples a few allocations more or fewer.
    if WANTED.load(Ordering::Relaxed) {
        count(bytes);
    }
}

#[cold]
fn count(bytes: usize) {
    let mut countdown = COUNTDOWN.get();
    let due = countdown.pass(bytes as u64, MEAN_BYTES);
    COUNTDOWN.set(countdown);
    if let (Some(weight), Some(ring)) = (due, ring())
        && !is_muted()
    {
        native::capture(ring, weight);
    }
}

// SAFETY: every call is passed on to `inner` unchanged, and counting neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    // SAFETY: the caller's promises are passed on.
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as promised by our caller.
        unsafe { self.inner.alloc(layout) }
    }

    // SAFETY: the caller's promises are passed on.
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as promised by our caller.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    // SAFETY: the caller's promises are passed on.
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size_bytes: usize) -> *mut u8 {
        note(size_bytes);
        // SAFETY: as promised by our caller.
        unsafe { self.inner.realloc(block, layout, size_bytes) }
    }

    // SAFETY: the caller's promises are passed on.
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as promised by our caller.
        unsafe { self.inner.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_for_everything_between_them() {
        let mut countdown = Countdown::new();
        let (mut samples, mut weight) = (0_u64, 0);
        for amount in (0..100_000).map(|n| n % 300) {
            if let Some(due) = countdown.pass(amount, MEAN_BYTES) {
                (samples, weight) = (samples + 1, weight + due);
            }
        }
        let all: u64 = (0..100_000).map(|n| n % 300).sum();
        assert_eq!(weight + countdown.since, all);
        assert!((150..350).contains(&samples), "{samples} samples of {all} bytes");
    }
}
