//! Samples waits for locks. The hook of [`base::waits`] is called for every wait for a lock of the engine, for a flush
//! that another thread leads, for a page that another thread reads, and for room in memory.
//!
//! A thread is sampled after a wait, for about every 20 us that it has waited. The sample stands for all waits since
//! the sample before it. Waits on other locks (the system's allocator, the caller's own) are not seen.

use crate::allocator::{Countdown, is_muted};
use crate::kind::Error;
use crate::native;
use crate::ring::ring;
use std::cell::Cell;

/// The mean time that one sample stands for.
const MEAN_NS: u64 = 20_000;

thread_local! {
    static COUNTDOWN: Cell<Countdown> = const { Cell::new(Countdown::new()) };
}

pub(crate) fn start() -> Result<(), Error> {
    if base::waits::listen(note) { Ok(()) } else { Err(Error::Busy) }
}

pub(crate) fn stop() {
    base::waits::ignore();
}

fn note(waited_ns: u64) {
    let mut countdown = COUNTDOWN.get();
    let due = countdown.pass(waited_ns, MEAN_NS);
    COUNTDOWN.set(countdown);
    if let (Some(weight), Some(ring)) = (due, ring())
        && !is_muted()
    {
        native::capture(ring, weight);
    }
}
