//! The choice between huge and small memory pages for new chunks.
//!
//! The kernel clears a huge page at once when it is first touched. That usually takes a tenth of a millisecond, but
//! several on a virtual machine whose host takes free memory back, or where memory must be moved to make room for one.
//! A thread that needs that processor waits meanwhile. So each clearing is timed. After a slow one, the chunks that a
//! throttled checkpoint requests have small pages, until a huge one is tried again. Other callers always get huge
//! pages, which the kernel clears faster in total. `docs/background-work.md` has the effect.

use base::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A clearing that takes longer delays other threads noticeably.
const SLOW: Duration = Duration::from_millis(1);
/// The number of chunks in small pages, usually 30 MiB, after which the next is huge again.
const SMALL_IN_A_ROW: usize = 15;

/// The kind of memory pages of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryPages {
    Huge,
    Small,
}

/// The recent cost of clearing huge pages.
#[derive(Debug, Default)]
pub(crate) struct HugePages {
    small_left: AtomicUsize,
}

impl HugePages {
    /// Returns the kind of pages for the next chunk. Calls `is_throttled` only where it matters.
    pub(crate) fn pages(&self, is_throttled: impl FnOnce() -> bool) -> MemoryPages {
        if self.small_left() > 0 && is_throttled() { MemoryPages::Small } else { MemoryPages::Huge }
    }

    /// Returns how many chunks may still have small pages.
    pub(crate) fn small_left(&self) -> usize {
        self.small_left.load(Ordering::SeqCst)
    }

    /// Records that a chunk in small pages was taken.
    pub(crate) fn took_small(&self) {
        let less = |left: usize| left.checked_sub(1);
        // The count is 0 if another thread's huge page was fast meanwhile.
        let _ = self.small_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// Records that clearing a huge page took `worked`.
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
