//! What depends on the system and the processor: [`modules`] (whose code is loaded, with its unwind tables), [`unwind`]
//! (from registers to return addresses), [`signal`] (ticks of CPU time).

mod modules;
mod signal;
mod unwind;

pub(crate) use signal::{start_ticks, stop_ticks};
pub(crate) use unwind::prepare;

use crate::ring::{MAX_FRAMES, Ring, Sample};
use unwind::Registers;

/// Puts this thread's stack into `ring`, from the caller on outwards. Neither allocates nor locks.
#[inline(never)]
pub(crate) fn capture(ring: &Ring, weight: u64) {
    let errno = signal::Errno::save();
    push(ring, weight, Registers::here());
    errno.restore();
}

fn push(ring: &Ring, weight: u64, registers: Registers) {
    let mut frames = [0; MAX_FRAMES];
    match unwind::walk(registers, &mut frames) {
        Some(count) => ring.push(Sample { weight, thread: signal::thread_name(), frames: &frames[..count] }),
        None => ring.lose(),
    }
}
