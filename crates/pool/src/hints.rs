//! Hints: the frame in which each child of an inner page was last found.
//!
//! A reader takes the child's place in the file from an inner page, then the frame from the table, and only then
//! requests the frame's memory. Each of these is a cache miss that waits for the one before, as soon as there are more
//! pages than the processor's caches hold. A hint names the frame once the child's position is known, so that the
//! processor fetches the child while the others are looked up.
//!
//! 1. A hint decides nothing: it is used only for a prefetch, and the table is always asked. So it may be wrong, and
//!    its block may pass to another page while a reader uses it.
//! 2. A reader writes a hint only if it was wrong: once the caches are warm, it writes nothing.
//! 3. A page with children has a block of hints while it is linked, if the ledger had room for one. Blocks are reused;
//!    their memory is freed with the pool, together with the charge for it.

use crate::frames::Frames;
use crate::ledger::{Charge, Ledger};
use base::PagePtr;
use base::prefetch::prefetch;
use base::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// The number of shelves. Shelf `i` has `2^i` blocks, so that there are more blocks than frames.
const SHELVES: usize = 24;
/// The least bytes of an entry of an inner page: its slot and the pointer.
const LEAST_ENTRY_BYTES: usize = 8 + PagePtr::BYTES;
/// The number of hints in a cache line.
const LINE_HINTS: usize = 64 / size_of::<AtomicU32>();

#[derive(Debug)]
struct Shelf {
    words: Box<[AtomicU32]>,
    _charge: Charge,
}

/// The blocks of a pool. They are numbered from 1; 0 stands for no block.
#[derive(Debug)]
pub(crate) struct Blocks {
    shelves: [OnceLock<Shelf>; SHELVES],
    /// The number of words of a block: no page has more children.
    block_words: usize,
}

/// The blocks that belong to no page. Protected by the pool's lock.
#[derive(Debug, Default)]
pub(crate) struct FreeBlocks {
    made: u32,
    free: Vec<u32>,
}

/// The hints for the children of one page: for each the number of its frame plus 1, or 0.
pub struct Hints<'p> {
    words: &'p [AtomicU32],
    frames: &'p Frames,
}

/// The place of one child's hint, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint<'p>(Option<&'p AtomicU32>);

impl Blocks {
    pub(crate) fn new(page_bytes: usize) -> Blocks {
        let shelves = std::array::from_fn(|_| OnceLock::new());
        Blocks { shelves, block_words: page_bytes / LEAST_ENTRY_BYTES }
    }

    /// Returns the words of `block`.
    #[inline]
    pub(crate) fn words(&self, block: u32) -> &[AtomicU32] {
        let Some(shelf) = block.checked_ilog2() else { return &[] };
        let first = (block - (1 << shelf)) as usize * self.block_words;
        let shelf = self.shelves.get(shelf as usize).and_then(OnceLock::get);
        shelf.and_then(|shelf| shelf.words.get(first..first + self.block_words)).unwrap_or(&[])
    }

    /// Returns a block for a page, or 0 if there is no memory for one.
    pub(crate) fn take(&self, blocks: &mut FreeBlocks, ledger: &Arc<Ledger>) -> u32 {
        if blocks.free.is_empty() {
            self.add_shelf(blocks, ledger);
        }
        blocks.free.pop().unwrap_or(0)
    }

    fn add_shelf(&self, blocks: &mut FreeBlocks, ledger: &Arc<Ledger>) {
        let first = blocks.made + 1;
        let words = first as usize * self.block_words;
        let Some(shelf) = self.shelves.get(first.ilog2() as usize) else { return };
        let Some(charge) = ledger.charge(words * size_of::<AtomicU32>()) else { return };
        let words = (0..words).map(|_| AtomicU32::new(0)).collect();
        let set = shelf.set(Shelf { words, _charge: charge });
        assert!(set.is_ok(), "a shelf was made twice");
        blocks.free.extend((first..2 * first).rev());
        blocks.made = 2 * first - 1;
    }
}

impl FreeBlocks {
    /// Returns the block of a page that is unlinked.
    pub(crate) fn give_back(&mut self, block: u32) {
        if block != 0 {
            self.free.push(block);
        }
    }
}

impl<'p> Hints<'p> {
    #[inline]
    pub(crate) fn new(words: &'p [AtomicU32], frames: &'p Frames) -> Hints<'p> {
        Hints { words, frames }
    }

    /// Prefetches the hints for children near number `at`.
    #[inline]
    pub fn near(&self, at: usize) {
        let word = self.words.as_ptr().wrapping_add(at);
        [word.wrapping_sub(LINE_HINTS), word, word.wrapping_add(LINE_HINTS)].into_iter().for_each(prefetch);
    }

    /// Returns the hint for child `at`, and prefetches the frame that it names.
    #[inline]
    pub fn of_child(&self, at: usize) -> Hint<'p> {
        let hint = Hint(self.words.get(at));
        if let Some(number) = hint.frame() {
            self.frames.fetch_front(number);
        }
        hint
    }
}

impl Hint<'_> {
    /// Returns the frame that the hint names.
    #[inline]
    fn frame(self) -> Option<u32> {
        // Relaxed: nothing follows from it.
        self.0?.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Records that the child is in frame `number`.
    #[inline]
    pub(crate) fn note(self, number: u32) {
        // Relaxed on both, as above.
        if let Some(word) = self.0
            && word.load(Ordering::Relaxed) != number + 1
        {
            word.store(number + 1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use base::budget::Account;

    #[test]
    fn blocks_are_apart_and_used_again() {
        let ledger = Arc::new(Ledger::new(Account::alone(1 << 20), 1 << 20, 4096));
        let (blocks, mut free) = (Blocks::new(4096), FreeBlocks::default());
        let taken: Vec<u32> = (0..9).map(|_| blocks.take(&mut free, &ledger)).collect();
        assert_eq!(taken, (1..10).collect::<Vec<_>>());
        let parts = taken.iter().map(|&block| blocks.words(block).as_ptr_range());
        let mut parts: Vec<_> = parts.map(|part| (part.start, part.end)).collect();
        parts.sort_unstable();
        assert!(parts.windows(2).all(|two| two[0].1 <= two[1].0), "{parts:?}");
        assert!(parts.iter().all(|(start, end)| *end as usize - *start as usize == 4 * (4096 / 24)));
        free.give_back(4);
        free.give_back(0);
        assert_eq!(blocks.take(&mut free, &ledger), 4);
        assert_eq!(ledger.used_bytes(), 15 * 4 * (4096 / 24));
    }

    #[test]
    fn without_memory_there_are_no_hints() {
        let ledger = Arc::new(Ledger::new(Account::alone(1 << 20), 100, 4096));
        let (blocks, mut free) = (Blocks::new(4096), FreeBlocks::default());
        assert_eq!(blocks.take(&mut free, &ledger), 0);
        assert!(blocks.words(0).is_empty() && blocks.words(1).is_empty());
        assert_eq!(ledger.used_bytes(), 0);
    }
}
