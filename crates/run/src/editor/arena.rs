//! The editor's own pages, by index.
//!
//! A pointer to one has [`PagePtr::IN_MEMORY`], and the index as its unit. Pages that were written back are reused
//! without being cleared: the next user fills or initialises them.
//!
//! Memory comes in chunks. The first is small, so that a small checkpoint costs little. Each other chunk is a huge
//! memory page, because random edits would otherwise miss the TLB on every leaf, but no larger than a quarter of what
//! may be dirty at once. A throttled thread takes small ones: the kernel clears a huge page in one go, which takes 6 ms
//! where a virtual machine has not had it before, and another thread that waits for that processor waits as long.

use base::{PagePtr, background};
use io::memory::{HUGE_BYTES, Memory};
use page::{Page, PageMut};
use std::ops::Range;

/// The greatest length of a chunk.
const CHUNK_BYTES: usize = HUGE_BYTES;
/// The number of pages in the first chunk, and the least number in others.
const FIRST_PAGES: usize = 16;
const LEAST_PAGES: usize = 4;

const _: () = assert!(CHUNK_BYTES >= base::limits::MAX_PAGE_BYTES);

pub(super) struct Arena {
    chunks: Vec<Memory>,
    /// The number of pages that were ever taken.
    high: usize,
    free: Vec<u32>,
    page_bytes: usize,
    /// The number of pages in a chunk, as a power of two.
    chunk_shift: u32,
}

/// Returns the arena index that `ptr` names, if it names a dirty page.
#[inline]
pub(super) fn node_of(ptr: PagePtr) -> Option<u32> {
    (ptr.flags() & PagePtr::IN_MEMORY != 0).then_some(ptr.unit() as u32)
}

/// Returns the pointer to dirty page `node`.
#[inline]
pub(super) fn link_to(node: u32) -> PagePtr {
    PagePtr::new(u64::from(node), 0, 0).with_flags(PagePtr::IN_MEMORY)
}

impl Arena {
    /// Creates an arena for about `pages` pages of `page_bytes`, which is a power of two.
    pub fn new(page_bytes: usize, pages: usize) -> Arena {
        let chunk_shift = (pages / 4).clamp(LEAST_PAGES, CHUNK_BYTES / page_bytes).ilog2();
        Arena { chunks: Vec::new(), high: 0, free: Vec::new(), page_bytes, chunk_shift }
    }

    /// Returns how many pages are in use.
    #[inline]
    pub fn live(&self) -> usize {
        self.high - self.free.len()
    }

    /// Returns a page with arbitrary contents.
    pub fn take(&mut self) -> u32 {
        if let Some(node) = self.free.pop() {
            return node;
        }
        let node = self.high as u32;
        if self.place(node).0 == self.chunks.len() {
            let pages = if node == 0 { FIRST_PAGES } else { 1 << self.chunk_shift };
            self.chunks.push(Memory::zeroed(pages * self.page_bytes, !background::is_throttled()));
        }
        self.high += 1;
        node
    }

    pub fn give_back(&mut self, node: u32) {
        debug_assert!(!self.free.contains(&node), "page {node} is given back twice");
        self.free.push(node);
    }

    /// Returns the chunk that holds page `node`, and its place there.
    #[inline]
    fn place(&self, node: u32) -> (usize, Range<usize>) {
        let node = node as usize;
        let (chunk, index) = match node.checked_sub(FIRST_PAGES) {
            None => (0, node),
            Some(later) => (1 + (later >> self.chunk_shift), later & ((1 << self.chunk_shift) - 1)),
        };
        let start = index * self.page_bytes;
        (chunk, start..start + self.page_bytes)
    }

    #[inline]
    pub fn bytes_mut(&mut self, node: u32) -> &mut [u8] {
        let (chunk, range) = self.place(node);
        &mut self.chunks[chunk][range]
    }

    #[inline]
    pub fn page(&self, node: u32) -> Page<'_> {
        let (chunk, range) = self.place(node);
        Page::trusted(&self.chunks[chunk][range])
    }

    #[inline]
    pub fn page_mut(&mut self, node: u32) -> PageMut<'_> {
        PageMut::edit(self.bytes_mut(node))
    }

    /// Returns the bytes of two different pages.
    pub fn pair(&mut self, a: u32, b: u32) -> (&mut [u8], &mut [u8]) {
        let ((a_chunk, a), (b_chunk, b)) = (self.place(a), self.place(b));
        if a_chunk == b_chunk {
            let [a, b] = self.chunks[a_chunk].get_disjoint_mut([a, b]).expect("two different pages");
            return (a, b);
        }
        let [a_chunk, b_chunk] = self.chunks.get_disjoint_mut([a_chunk, b_chunk]).expect("two chunks");
        (&mut a_chunk[a], &mut b_chunk[b])
    }
}

// Only Linux reports the advice for each mapping.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;
    use std::rc::Rc;

    /// Returns whether the memory at `address` is to have huge pages.
    fn is_huge(address: usize) -> bool {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_here = false;
        for line in maps.lines() {
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
                return flags.split_whitespace().any(|flag| flag == "hg");
            }
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            if let Some((start, end)) = range.and_then(|(start, end)| number(start).zip(number(end))) {
                is_here = (start..end).contains(&address);
            }
        }
        panic!("nothing is mapped there");
    }

    #[test]
    fn a_throttled_thread_takes_small_pages() {
        let second_chunk = || {
            let mut arena = Arena::new(16 << 10, 1 << 20);
            let nodes: Vec<u32> = (0..=FIRST_PAGES).map(|_| arena.take()).collect();
            is_huge(arena.bytes_mut(nodes[FIRST_PAGES]).as_ptr().addr())
        };
        // A kernel may not have huge pages.
        assert_eq!(second_chunk(), fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap());
        assert!(!background::throttled(Rc::new(|| ()), second_chunk));
    }
}
