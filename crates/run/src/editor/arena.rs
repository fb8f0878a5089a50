//! The editor's own pages, by index.
//!
//! A pointer to one carries [`PagePtr::IN_MEMORY`], and the index as its unit. Pages that were written back are
//! used again without being cleared: whoever takes one fills or initialises it.

use base::PagePtr;
use page::{Page, PageMut};

pub(super) struct Arena {
    pages: Vec<Box<[u8]>>,
    free: Vec<u32>,
    page_bytes: usize,
}

/// The arena index that `ptr` names, if it names a dirty page.
#[inline]
pub(super) fn node_of(ptr: PagePtr) -> Option<u32> {
    (ptr.flags() & PagePtr::IN_MEMORY != 0).then_some(ptr.unit() as u32)
}

/// The pointer to dirty page `node`.
#[inline]
pub(super) fn link_to(node: u32) -> PagePtr {
    PagePtr::new(u64::from(node), 0, 0).with_flags(PagePtr::IN_MEMORY)
}

impl Arena {
    pub fn new(page_bytes: usize) -> Arena {
        Arena { pages: Vec::new(), free: Vec::new(), page_bytes }
    }

    /// How many pages are in use.
    #[inline]
    pub fn live(&self) -> usize {
        self.pages.len() - self.free.len()
    }

    /// A page with arbitrary content.
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.pages.push(vec![0; self.page_bytes].into_boxed_slice());
            (self.pages.len() - 1) as u32
        })
    }

    pub fn give_back(&mut self, node: u32) {
        debug_assert!(!self.free.contains(&node), "page {node} is given back twice");
        self.free.push(node);
    }

    #[inline]
    pub fn bytes_mut(&mut self, node: u32) -> &mut [u8] {
        &mut self.pages[node as usize]
    }

    #[inline]
    pub fn page(&self, node: u32) -> Page<'_> {
        Page::trusted(&self.pages[node as usize])
    }

    #[inline]
    pub fn page_mut(&mut self, node: u32) -> PageMut<'_> {
        PageMut::edit(&mut self.pages[node as usize])
    }

    /// The bytes of two different pages.
    pub fn pair(&mut self, a: u32, b: u32) -> (&mut [u8], &mut [u8]) {
        let [a, b] = self.pages.get_disjoint_mut([a as usize, b as usize]).expect("two different pages");
        (a, b)
    }
}
