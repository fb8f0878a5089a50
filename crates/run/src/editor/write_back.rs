//! Writing dirty pages back, in key order.
//!
//! 1. Collect the dirty pages, level by level, each level in key order, with the parent's slot that points to each.
//! 2. From the leaves up, write every page that has no dirty child: [`EXTENT_BYTES`] of neighbours at a time go to
//!    contiguous units with one write. Each is sealed for its unit, and the parent's pointer then names unit,
//!    checksum and whether a large value lies below.
//! 3. What was written is offered to the pool, and its memory is used again.
//!
//! The leaf that is being edited may stay dirty, and its ancestors with it: sorted edits then write each leaf once.

use super::Editor;
use super::arena::node_of;
use base::limits::UNIT_BYTES;
use base::sync::lock;
use base::{PagePtr, Result};
use page::{Kind, PageMut};

/// How much is allocated and written at once: enough that a disk's latency does not matter.
const EXTENT_BYTES: usize = 1 << 20;
/// What is written at once with the least memory.
pub(super) const LEAST_EXTENT_PAGES: usize = 4;

/// A dirty page and who points to it.
#[derive(Clone, Copy)]
pub(super) struct Dirty {
    pub node: u32,
    /// The parent's node and slot; `None` for the root.
    parent: Option<(u32, u32)>,
}

impl Editor<'_> {
    /// Writes back all dirty pages but leaf `keep` and its ancestors.
    #[cold]
    pub(super) fn write_back(&mut self, keep: Option<u32>) -> Result<()> {
        if keep.is_none() {
            self.path.invalidate();
        }
        if self.packs {
            self.pack(keep);
        }
        let mut buffer = Vec::new();
        for mut level in self.collect_dirty().into_iter().rev() {
            level.retain(|dirty| Some(dirty.node) != keep && !self.has_dirty_child(dirty.node));
            let mut rest = &level[..];
            while !rest.is_empty() {
                let written = self.write_extent(rest, &mut buffer)?;
                rest = &rest[written..];
            }
        }
        Ok(())
    }

    /// How many pages are written at once: the buffer is a fifth of the memory.
    fn extent_pages(&self) -> usize {
        let most = EXTENT_BYTES / self.pool.page_bytes();
        (self.dirty_limit_pages / 4).clamp(LEAST_EXTENT_PAGES, most.max(LEAST_EXTENT_PAGES))
    }

    /// The dirty pages of each level in key order, the root's level first.
    pub(super) fn collect_dirty(&self) -> Vec<Vec<Dirty>> {
        let mut levels = Vec::new();
        let mut level: Vec<Dirty> =
            self.root.and_then(node_of).map(|node| Dirty { node, parent: None }).into_iter().collect();
        while !level.is_empty() {
            let below = level.iter().flat_map(|dirty| {
                let parent = dirty.node;
                self.dirty_children(parent)
                    .map(move |(slot, node)| Dirty { node, parent: Some((parent, slot)) })
            });
            let below = below.collect();
            levels.push(std::mem::replace(&mut level, below));
        }
        levels
    }

    /// The dirty children of dirty page `node`, as slots and nodes.
    fn dirty_children(&self, node: u32) -> impl Iterator<Item = (u32, u32)> {
        let page = self.arena.page(node);
        let children = if page.kind() == Kind::Inner { page.count() } else { 0 };
        (0..children).filter_map(move |slot| Some((slot as u32, node_of(page.child(slot))?)))
    }

    fn has_dirty_child(&self, node: u32) -> bool {
        self.dirty_children(node).next().is_some()
    }

    /// Writes as many of `pages` as one extent holds; answers how many.
    fn write_extent(&mut self, pages: &[Dirty], buffer: &mut Vec<u8>) -> Result<usize> {
        let page_bytes = self.pool.page_bytes();
        let page_units = (page_bytes / UNIT_BYTES) as u64;
        let most = pages.len().min(self.extent_pages()) as u64;
        let extent = lock(self.space).allocate_pages(page_units, most)?;
        let (first_unit, count) = (extent.unit, (extent.units / page_units) as usize);
        let pages = &pages[..count];
        buffer.clear();
        let mut unit = first_unit;
        for dirty in pages {
            self.seal_and_link(*dirty, unit);
            buffer.extend_from_slice(self.arena.page(dirty.node).bytes());
            self.arena.give_back(dirty.node);
            unit += page_units;
        }
        self.pool
            .file()
            .write_at(buffer, first_unit * UNIT_BYTES as u64)
            .map_err(|error| error.within("writing back edited pages"))?;
        for (dirty, bytes) in pages.iter().zip(buffer.chunks_exact(page_bytes)) {
            self.pool.admit(self.pointer_from(dirty.parent), bytes);
        }
        Ok(count)
    }

    /// Makes a dirty page final, for the unit it will lie at, and points its parent there.
    fn seal_and_link(&mut self, dirty: Dirty, unit: u64) {
        let (database, page_bytes) = (self.pool.database(), self.pool.page_bytes());
        let mut page: PageMut<'_> = self.arena.page_mut(dirty.node);
        if let Some(table) = self.table {
            page.set_table(table);
        }
        let checksum = page.seal(database, unit);
        let page = page.as_page();
        let flags = if page.has_large() { PagePtr::HAS_LARGE } else { 0 };
        let ptr = PagePtr::new(unit, (page_bytes / UNIT_BYTES) as u64, checksum).with_flags(flags);
        if page.kind() == Kind::Leaf {
            self.dirty_sum = self.dirty_sum.wrapping_sub(page.record_sum(&mut self.scratch));
        }
        self.written.insert(unit);
        match dirty.parent {
            Some((parent, slot)) => self.arena.page_mut(parent).set_child(slot as usize, ptr),
            None => self.root = Some(ptr),
        }
    }

    fn pointer_from(&self, parent: Option<(u32, u32)>) -> PagePtr {
        match parent {
            Some((parent, slot)) => self.arena.page(parent).child(slot as usize),
            None => self.root.expect("the root was just written"),
        }
    }
}
