//! The channel from the sampled threads to the drainer: a ring of slots, each with one stack.
//!
//! 1. A source claims the next slot: `next` is incremented, and the slot changes from `EMPTY` to `WRITING`. If it is
//!    not empty, the drainer is late. The sample is then counted as lost, and no thread waits.
//! 2. The source writes the stack and sets `READY`.
//! 3. The drainer visits every slot, takes those that are ready, and sets `EMPTY`.
//!
//! Every step is a single atomic operation, so a signal may interrupt between any two.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The largest depth of a stack. Deeper stacks lose their outer frames.
pub(crate) const MAX_FRAMES: usize = 128;
/// The number of slots. A drainer that runs every 10 ms keeps up with 50,000 samples a second.
const SLOTS: usize = 512;

const EMPTY: u32 = 0;
const WRITING: u32 = 1;
const READY: u32 = 2;

/// One stack, innermost frame first, and its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    /// The number of samples, bytes or nanoseconds.
    pub weight: u64,
    /// The thread's name in the kernel's form: 16 bytes, padded with zeros.
    pub thread: [u64; 2],
    pub frames: &'a [u64],
}

#[derive(Debug)]
struct Slot {
    state: AtomicU32,
    count: AtomicU32,
    weight: AtomicU64,
    thread: [AtomicU64; 2],
    frames: [AtomicU64; MAX_FRAMES],
}

#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    next: AtomicUsize,
    lost: AtomicU64,
}

/// The process's ring. It is created for the first recording and never freed, because a late signal may write to it.
static RING: OnceLock<Ring> = OnceLock::new();

/// Returns the ring to which sources push samples; `None` before the first recording.
pub(crate) fn ring() -> Option<&'static Ring> {
    RING.get()
}

/// Returns the process's ring, and creates it for the first recording.
pub(crate) fn ensure() -> &'static Ring {
    RING.get_or_init(Ring::new)
}

impl Ring {
    pub fn new() -> Self {
        let slot = || Slot {
            state: AtomicU32::new(EMPTY),
            count: AtomicU32::new(0),
            weight: AtomicU64::new(0),
            thread: [const { AtomicU64::new(0) }; 2],
            frames: [const { AtomicU64::new(0) }; MAX_FRAMES],
        };
        Ring {
            slots: std::iter::repeat_with(slot).take(SLOTS).collect(),
            next: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Pushes a sample, or counts it as lost. It neither waits nor allocates.
    pub fn push(&self, sample: Sample<'_>) {
        let slot = &self.slots[self.next.fetch_add(1, Ordering::SeqCst) % SLOTS];
        if slot.state.compare_exchange(EMPTY, WRITING, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return self.lose();
        }
        let count = sample.frames.len().min(MAX_FRAMES);
        // Relaxed, here and below: the store of READY publishes all of them to the drainer, which loads the state
        // first.
        slot.count.store(count as u32, Ordering::Relaxed);
        slot.weight.store(sample.weight, Ordering::Relaxed); // Relaxed: as above.
        for (word, value) in slot.thread.iter().zip(sample.thread) {
            word.store(value, Ordering::Relaxed); // Relaxed: as above.
        }
        for (word, value) in slot.frames.iter().zip(&sample.frames[..count]) {
            word.store(*value, Ordering::Relaxed); // Relaxed: as above.
        }
        slot.state.store(READY, Ordering::SeqCst);
    }

    /// Counts a sample that could not be taken.
    pub fn lose(&self) {
        self.lost.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how many samples were lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::SeqCst)
    }

    /// Passes every ready sample to `each`. Only one drainer may run at a time.
    pub fn drain(&self, mut each: impl FnMut(Sample<'_>)) {
        let mut frames = [0; MAX_FRAMES];
        for slot in self.slots.iter().filter(|slot| slot.state.load(Ordering::SeqCst) == READY) {
            // Relaxed, here and below: READY was seen above, and was stored after all of them.
            let count = slot.count.load(Ordering::Relaxed) as usize;
            for (frame, word) in frames[..count].iter_mut().zip(&slot.frames) {
                *frame = word.load(Ordering::Relaxed); // Relaxed: as above.
            }
            // Relaxed: see above.
            let thread = [0, 1].map(|index: usize| slot.thread[index].load(Ordering::Relaxed));
            let weight = slot.weight.load(Ordering::Relaxed); // Relaxed: as above.
            slot.state.store(EMPTY, Ordering::SeqCst);
            each(Sample { weight, thread, frames: &frames[..count] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_once_or_is_counted_as_lost() {
        let ring = Ring::new();
        let pushed = 4 * 10_000_u64;
        let (mut seen, mut weights) = (0, 0);
        let mut take = |sample: Sample<'_>| {
            assert_eq!(sample.frames.len() as u64, 1 + sample.weight % 100);
            assert!(sample.frames.iter().all(|&frame| frame == sample.weight), "torn");
            assert_eq!(sample.thread, [sample.weight, !sample.weight]);
            (seen, weights) = (seen + 1, weights + sample.weight);
        };
        std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..4)
                .map(|pusher| {
                    let ring = &ring;
                    scope.spawn(move || {
                        for weight in (pusher..pushed).step_by(4) {
                            let frames = vec![weight; 1 + (weight % 100) as usize];
                            ring.push(Sample { weight, thread: [weight, !weight], frames: &frames });
                        }
                    })
                })
                .collect();
            while pushers.iter().any(|pusher| !pusher.is_finished()) {
                ring.drain(&mut take);
            }
        });
        ring.drain(&mut take);
        assert!(seen > 0 && weights > 0);
        assert_eq!(seen + ring.take_lost(), pushed);
    }

    #[test]
    fn too_deep_a_stack_keeps_its_inner_frames() {
        let ring = Ring::new();
        let frames: Vec<u64> = (0..1000).collect();
        ring.push(Sample { weight: 1, thread: [0, 0], frames: &frames });
        ring.drain(|sample| assert_eq!(sample.frames, &frames[..MAX_FRAMES]));
    }
}
