//! Whether the pool grows by huge memory pages or by small ones.
//!
//! The kernel clears a huge page at once when it is first touched. That takes a tenth of a millisecond as a rule, but
//! several on a virtual machine whose host takes free memory back, or where memory must be moved to make room for one;
//! and a thread that needs that processor waits. So each clearing is timed. After a slow one, the chunks that a
//! throttled checkpoint asks for consist of small pages, until a huge one is tried again. Other callers always get huge
//! pages, which the kernel clears faster in total. `docs/background-work.md` says what this is worth.

use base::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A clearing that takes longer delays other threads noticeably.
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
pub(crate) struct HugePages {
    small_left: AtomicUsize,
}

impl HugePages {
    /// Returns what the next chunk consists of. `is_throttled` is called only where it matters.
    pub(crate) fn pages(&self, is_throttled: impl FnOnce() -> bool) -> MemoryPages {
        if self.small_left() > 0 && is_throttled() { MemoryPages::Small } else { MemoryPages::Huge }
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
    fn after_a_slow_one_a_throttled_thread_takes_small_ones_for_a_while() {
        let huge = HugePages::default();
        assert_eq!(huge.pages(|| unreachable!("nothing was slow")), MemoryPages::Huge);
        huge.note(SLOW);
        assert_eq!(huge.pages(|| true), MemoryPages::Huge);
        huge.note(SLOW * 2);
        for _ in 0..SMALL_IN_A_ROW {
            assert_eq!(huge.pages(|| false), MemoryPages::Huge, "in a hurry");
            assert_eq!(huge.pages(|| true), MemoryPages::Small);
            huge.took_small();
        }
        assert_eq!(huge.pages(|| true), MemoryPages::Huge, "tried again");
        huge.note(SLOW * 2);
        huge.note(SLOW / 8);
        assert_eq!(huge.pages(|| true), MemoryPages::Huge, "the last one counts");
    }
}
