//! Counts heap allocations of each thread.
//!
//! A binary that wants the counts installs the allocator. Without it [`counts`] returns `None`, and rows have no
//! allocation counters.
//!
//! ```
//! use pando_bench::alloc::{CountingAllocator, counts};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! fn main() {
//!     let before = counts().unwrap();
//!     drop(std::hint::black_box(Box::new([0u8; 100])));
//!     assert_eq!(counts().unwrap().since(before).allocations, 1);
//! }
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

/// The system's allocator with a counter.
#[derive(Debug)]
pub struct CountingAllocator;

/// The allocations of one thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of allocations and reallocations.
    pub allocations: u64,
    /// The bytes of all of them. Freed memory is not subtracted.
    pub bytes: u64,
}

impl Counts {
    /// Returns the difference to the counts of `earlier`.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts { allocations: self.allocations - earlier.allocations, bytes: self.bytes - earlier.bytes }
    }
}

thread_local! {
    // It is `const` and has no destructor. Reaching it neither allocates nor fails, even while a thread ends.
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { allocations: 0, bytes: 0 }) };
}

/// Returns the allocations of this thread so far; `None` if [`CountingAllocator`] is not installed.
pub fn counts() -> Option<Counts> {
    let before = COUNTS.get();
    drop(black_box(Box::new(0u8)));
    let probed = COUNTS.get() != before;
    COUNTS.set(before);
    probed.then_some(before)
}

#[inline]
fn count(bytes: usize) {
    let Counts { allocations, bytes: sum } = COUNTS.get();
    COUNTS.set(Counts { allocations: allocations + 1, bytes: sum + bytes as u64 });
}

// SAFETY: every call is passed on to `System` unchanged, and counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    // SAFETY: the caller's promises are passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as promised by our caller.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's promises are passed on.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as promised by our caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: the caller's promises are passed on.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size_bytes: usize) -> *mut u8 {
        count(size_bytes);
        // SAFETY: as promised by our caller.
        unsafe { System.realloc(block, layout, size_bytes) }
    }

    // SAFETY: the caller's promises are passed on.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as promised by our caller.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_allocator_there_are_no_counts() {
        assert_eq!(counts(), None);
    }
}
