//! Whether the pool grows by huge memory pages, or for somebody who has time by small ones.
//!
//! The kernel clears a huge page in one go when it is first touched. That is a tenth of a millisecond as a rule, but
//! several on a virtual machine whose host takes free memory back, or where memory must be moved to make room for one;
//! and a thread that needs that processor waits. So each is timed. After a slow one, chunks that a checkpoint with time
//! asks for consist of small pages, until it is tried again. A caller in a hurry gets huge ones always: all together
//! they are cleared the faster.

use base::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longer than this, somebody notices that he waits.
const SLOW: Duration = Duration::from_millis(1);
/// After so many chunks in small pages, 30 MiB as a rule, the next is huge again.
const SMALL_IN_A_ROW: usize = 15;

/// The memory pages that a chunk consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryPages {
    Huge,
    Small,
}

/// What clearing huge pages took lately.
#[derive(Debug, Default)]
pub(crate) struct Clearing {
    small_left: AtomicUsize,
}

impl Clearing {
    /// What a chunk that is to be had now consists of. `has_time` is asked only where it matters.
    pub(crate) fn pages(&self, has_time: impl FnOnce() -> bool) -> MemoryPages {
        if self.small_left() > 0 && has_time() { MemoryPages::Small } else { MemoryPages::Huge }
    }

    /// How many chunks may still consist of small pages.
    pub(crate) fn small_left(&self) -> usize {
        self.small_left.load(Ordering::SeqCst)
    }

    /// A chunk in small pages was taken.
    pub(crate) fn took_small(&self) {
        let less = |left: usize| left.checked_sub(1);
        // Nothing left to count if another thread's huge page was fast meanwhile.
        let _ = self.small_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// Clearing a huge page kept a processor for `worked`.
    pub(crate) fn note(&self, worked: Duration) {
        let small = if worked > SLOW { SMALL_IN_A_ROW } else { 0 };
        self.small_left.store(small, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn after_a_slow_one_who_has_time_takes_small_ones_for_a_while() {
        let clearing = Clearing::default();
        assert_eq!(clearing.pages(|| unreachable!("nothing was slow")), MemoryPages::Huge);
        clearing.note(SLOW);
        assert_eq!(clearing.pages(|| true), MemoryPages::Huge);
        clearing.note(SLOW * 2);
        for _ in 0..SMALL_IN_A_ROW {
            assert_eq!(clearing.pages(|| false), MemoryPages::Huge, "in a hurry");
            assert_eq!(clearing.pages(|| true), MemoryPages::Small);
            clearing.took_small();
        }
        assert_eq!(clearing.pages(|| true), MemoryPages::Huge, "tried again");
        clearing.note(SLOW * 2);
        clearing.note(SLOW / 8);
        assert_eq!(clearing.pages(|| true), MemoryPages::Huge, "the last one counts");
    }
}
