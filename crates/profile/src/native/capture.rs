//! Captures one sample: a stack, pushed into the ring.

use super::thread::{Errno, thread_name};
use super::unwind::{Registers, walk};
use crate::ring::{MAX_FRAMES, Ring, Sample};

/// Pushes this thread's stack into `ring`, from the caller outwards. It neither allocates nor locks.
#[inline(never)]
pub(crate) fn capture(ring: &Ring, weight: u64) {
    let errno = Errno::save();
    push(ring, weight, Registers::here());
    errno.restore();
}

/// Pushes the stack of `registers` into `ring`, or counts a lost sample.
pub(super) fn push(ring: &Ring, weight: u64, registers: Registers) {
    let mut frames = [0; MAX_FRAMES];
    match walk(registers, &mut frames) {
        Some(count) => ring.push(Sample { weight, thread: thread_name(), frames: &frames[..count] }),
        None => ring.lose(),
    }
}
