//! Chunks: the memory of a group of frames, and how a chunk is found.
//!
//! The head of `frames.rs` says what may be done with a frame's bytes, and when a chunk is freed. The numbers in
//! comments here refer to that list.

use crate::huge::MemoryPages;
use crate::ledger::Charge;
use base::prefetch::prefetch;
use base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use io::memory::{HUGE_BYTES, Memory};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// The largest chunk: a huge page, if the limit is large enough for that.
pub(crate) const MAX_CHUNK_BYTES: usize = HUGE_BYTES;
pub(crate) const MIN_CHUNK_BYTES: usize = 64 << 10;
/// The cache lines that a look at a page fetches at once: the header and sixteen slots, which is all slots of a leaf of
/// documents.
const FETCHED_LINES: usize = 3;

/// The state of the page in a frame. It is aligned so that it never spans two cache lines.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Meta {
    pub(crate) unit: AtomicU64,
    pub(crate) checksum: AtomicU64,
    pub(crate) pins: AtomicU32,
    pub(crate) visited: AtomicBool,
    /// The block of hints of a linked inner page; 0 if it has none.
    pub(crate) hints: AtomicU32,
}

/// The memory of some frames. It is always in an `Arc`.
pub(crate) struct Chunk {
    memory: Memory,
    is_huge: bool,
    pub(crate) page_bytes: usize,
    pub(crate) metas: Box<[Meta]>,
    charge: Charge,
}

impl Chunk {
    /// Returns memory for `frames` frames, or `None` if the system has none. Memory is not touched before it is used
    /// ([`Vacant::bytes`]). Huge `pages` are for a chunk that will soon be used whole, if it fills one.
    pub(crate) fn new(
        frames: usize,
        page_bytes: usize,
        pages: MemoryPages,
        charge: Charge,
    ) -> Option<Arc<Chunk>> {
        let bytes = frames * page_bytes;
        let is_huge = pages == MemoryPages::Huge && bytes == MAX_CHUNK_BYTES;
        let memory = Memory::mapped(bytes, is_huge)?;
        let meta = || Meta {
            unit: AtomicU64::new(0),
            checksum: AtomicU64::new(0),
            pins: AtomicU32::new(0),
            visited: AtomicBool::new(false),
            hints: AtomicU32::new(0),
        };
        let metas = (0..frames).map(|_| meta()).collect();
        Some(Arc::new(Chunk { memory, is_huge, page_bytes, metas, charge }))
    }

    /// Returns whether huge pages were requested.
    pub(crate) fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Returns whether its memory is of the overdraft.
    #[inline]
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.charge.is_overdrawn()
    }

    /// Returns the address of frame `index`.
    #[inline]
    pub(crate) fn frame(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.metas.len());
        // SAFETY: the frame is within the mapping, as the assertion says.
        unsafe { self.memory.start().add(index * self.page_bytes) }
    }

    /// Calls [`fetch_front`] for frame `index`.
    #[inline]
    pub(crate) fn fetch_front(&self, index: usize) {
        fetch_front(self.frame(index).as_ptr());
    }

    /// # Safety
    /// The frame must not be written while the result lives: it is linked and the caller's epoch lasts as
    /// long, or it is pinned that long.
    #[inline]
    pub(crate) unsafe fn bytes(&self, index: usize) -> &[u8] {
        // SAFETY: within the mapping, which is zero at first; not written, as the caller promises.
        unsafe { std::slice::from_raw_parts(self.frame(index).as_ptr(), self.page_bytes) }
    }

    /// Returns another reference to the chunk.
    #[inline]
    pub(crate) fn another(&self) -> Arc<Chunk> {
        // SAFETY: every chunk lies in the `Arc` that `new` made, and one of its references, a place's or a token's,
        // lives as long as the loan.
        unsafe {
            Arc::increment_strong_count(self);
            Arc::from_raw(self)
        }
    }
}

/// Prefetches the header of the page at `front` and its first slots together, because a search would wait for the
/// header before it requests a slot.
#[inline]
fn fetch_front(front: *const u8) {
    const LINE_BYTES: usize = 64;
    (0..FETCHED_LINES).for_each(|line| prefetch(front.wrapping_add(line * LINE_BYTES)));
}

/// The place where a chunk is found by the numbers of its frames: empty, or the owner of one reference.
#[derive(Debug)]
pub(crate) struct Place {
    chunk: AtomicPtr<Chunk>,
    /// The address of the chunk's current or former frames, for prefetches by threads that may not look at the chunk.
    frames: AtomicPtr<u8>,
}

impl Place {
    pub(crate) fn empty() -> Place {
        let (chunk, frames) = (std::ptr::null_mut(), std::ptr::null_mut());
        Place { chunk: AtomicPtr::new(chunk), frames: AtomicPtr::new(frames) }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&Chunk> {
        // SAFETY: null, or from `Arc::into_raw` in `set`, which this place owns until `clear`; and a thread in here
        // may be, by (6), or holds the pool's lock. Acquire, for the Release in `set`.
        unsafe { self.chunk.load(Ordering::Acquire).as_ref() }
    }

    /// Prefetches the front of the page at `offset_bytes` in the chunk. Allowed at any time, for any chunk.
    #[inline]
    pub(crate) fn fetch_front(&self, offset_bytes: usize) {
        // Relaxed: a prefetch may go anywhere.
        fetch_front(self.frames.load(Ordering::Relaxed).wrapping_add(offset_bytes));
    }

    /// Stores the chunk in an empty place. Called under the pool's lock.
    pub(crate) fn set(&self, chunk: Arc<Chunk>) {
        // Relaxed: for prefetches.
        self.frames.store(chunk.memory.start().as_ptr(), Ordering::Relaxed);
        // Release, for the Acquire in `get`: after what the chunk holds.
        let before = self.chunk.swap(Arc::into_raw(chunk).cast_mut(), Ordering::Release);
        assert!(before.is_null(), "a place holds one chunk");
    }

    /// Drops the reference to the chunk. Called under the pool's lock, when (6) allows it.
    pub(crate) fn clear(&self) {
        let chunk = self.chunk.swap(std::ptr::null_mut(), Ordering::SeqCst);
        if !chunk.is_null() {
            // SAFETY: from `Arc::into_raw` in `set`, and taken out once, by the swap.
            drop(unsafe { Arc::from_raw(chunk) });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames of {} bytes", self.metas.len(), self.page_bytes)
    }
}
