//! Writing dirty pages back, in key order.
//!
//! 1. Collect the dirty pages, level by level, each level in key order, with the parent's slot that points to each.
//! 2. From the leaves up, write every page that has no dirty child: [`EXTENT_BYTES`] of neighbours at a time are
//!    written to contiguous units with one write. Each is sealed for its unit, and the parent's pointer then names
//!    unit, checksum and whether a large value lies below. Leaves that are to be compressed have different lengths, and
//!    each is written to the lowest free place.
//! 3. Written pages are offered to the pool, and their memory is reused.
//!
//! The leaf that is being edited may stay dirty, together with its ancestors: sorted edits then write each leaf once.

use super::arena::node_of;
use super::{Editor, LEAST_EXTENT_PAGES};
use crate::drop::saved_units;
use base::limits::UNIT_BYTES;
use base::sync::lock;
use base::{PagePtr, Result, background};
use page::{Compressed, Compressor, Kind, PageMut, compressed};

/// The bytes that are allocated and written at once: enough to make a disk's latency insignificant.
const EXTENT_BYTES: usize = 1 << 20;

/// A dirty page and the parent's slot that points to it.
#[derive(Clone, Copy)]
pub(super) struct Dirty {
    pub node: u32,
    /// The parent's node and slot; `None` for the root.
    parent: Option<(u32, u32)>,
}

impl Editor<'_> {
    /// Writes back all dirty pages except leaf `keep` and its ancestors.
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
            if self.is_of_leaves(&level) && (self.compressor.is_some() || self.is_small_table(&level)) {
                let asked = self.compressor.is_some();
                let mut compressor = self.compressor.take().unwrap_or_default();
                self.write_compressed(&level, &mut compressor, &mut buffer)?;
                self.compressor = asked.then_some(compressor);
                continue;
            }
            while !rest.is_empty() {
                let written = self.write_extent(rest, &mut buffer)?;
                rest = &rest[written..];
            }
        }
        Ok(())
    }

    /// Returns how many pages are written at once: the buffer is a fifth of the memory.
    fn extent_pages(&self) -> usize {
        let most = EXTENT_BYTES / self.pool.page_bytes();
        (self.dirty_limit_pages / 4).clamp(LEAST_EXTENT_PAGES, most.max(LEAST_EXTENT_PAGES))
    }

    /// Returns the dirty pages of each level in key order, the root's level first.
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

    /// Returns the dirty children of dirty page `node`, as slots and nodes.
    fn dirty_children(&self, node: u32) -> impl Iterator<Item = (u32, u32)> {
        let page = self.arena.page(node);
        let children = if page.kind() == Kind::Inner { page.count() } else { 0 };
        (0..children).filter_map(move |slot| Some((slot as u32, node_of(page.child(slot))?)))
    }

    fn has_dirty_child(&self, node: u32) -> bool {
        self.dirty_children(node).next().is_some()
    }

    /// Writes as many of `pages` as one extent holds. Returns how many.
    fn write_extent(&mut self, pages: &[Dirty], buffer: &mut Vec<u8>) -> Result<usize> {
        let (database, page_bytes) = (self.pool.database(), self.pool.page_bytes());
        let page_units = (page_bytes / UNIT_BYTES) as u64;
        let most = pages.len().min(self.extent_pages()) as u64;
        let extent = lock(self.space).allocate_pages(page_units, most)?;
        let (first_unit, count) = (extent.unit, (extent.units / page_units) as usize);
        let pages = &pages[..count];
        buffer.clear();
        let mut unit = first_unit;
        for dirty in pages {
            let checksum = self.prepared(*dirty).seal(database, unit);
            self.link(*dirty, PagePtr::new(unit, page_units, checksum));
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
            // The pool may need memory for frames that the kernel has to find first.
            background::pause();
        }
        Ok(count)
    }

    /// Returns whether dirty pages, all of one level, are leaves.
    fn is_of_leaves(&self, pages: &[Dirty]) -> bool {
        pages.first().is_some_and(|dirty| self.arena.page(dirty.node).kind() == Kind::Leaf)
    }

    /// Returns whether the dirty leaves are the only leaf of a table, and at least half of it is free. Such a leaf is
    /// written compressed, whatever the table's options are: a table of a few records takes a unit instead of a page.
    fn is_small_table(&self, leaves: &[Dirty]) -> bool {
        let page_bytes = self.pool.page_bytes();
        matches!(leaves, [Dirty { node, parent: None }]
            if page_bytes > UNIT_BYTES && self.arena.page(*node).free_bytes() >= page_bytes / 2)
    }

    /// Writes leaves compressed. Neighbours that were placed side by side are written at once.
    fn write_compressed(
        &mut self,
        leaves: &[Dirty],
        compressor: &mut Compressor,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let (database, page_bytes) = (self.pool.database(), self.pool.page_bytes());
        // The compressor takes about two pages, and the leaf that is one too many takes another.
        let most_bytes = self.extent_pages().saturating_sub(3).max(1) * page_bytes;
        let (mut first_unit, mut from) = (0, 0);
        buffer.clear();
        for (at, dirty) in leaves.iter().enumerate() {
            let begins_at = buffer.len();
            let Compressed { units, .. } = compressor.compress(&mut self.prepared(*dirty), buffer);
            let unit = lock(self.space).allocate(units)?;
            let goes_on = first_unit + (begins_at / UNIT_BYTES) as u64 == unit;
            if begins_at > 0 && (!goes_on || buffer.len() > most_bytes) {
                let stored = buffer.split_off(begins_at);
                self.flush_compressed(&leaves[from..at], first_unit, buffer)?;
                *buffer = stored;
                from = at;
            }
            if from == at {
                first_unit = unit;
            }
            let stored_bytes = units as usize * UNIT_BYTES;
            let stored_at = buffer.len() - stored_bytes;
            let checksum = compressed::seal(&mut buffer[stored_at..], database, unit);
            self.arena.page_mut(dirty.node).set_checksum(checksum);
            self.link(*dirty, PagePtr::new(unit, units, checksum));
        }
        self.flush_compressed(&leaves[from..], first_unit, buffer)
    }

    fn flush_compressed(&mut self, leaves: &[Dirty], first_unit: u64, buffer: &[u8]) -> Result<()> {
        self.pool
            .file()
            .write_at(buffer, first_unit * UNIT_BYTES as u64)
            .map_err(|error| error.within("writing back edited pages"))?;
        for dirty in leaves {
            self.pool.admit(self.pointer_from(dirty.parent), self.arena.page(dirty.node).bytes());
            self.arena.give_back(dirty.node);
        }
        Ok(())
    }

    /// Returns a dirty page as it is to be written, without its checksum.
    fn prepared(&mut self, dirty: Dirty) -> PageMut<'_> {
        let table = self.table;
        let mut page = self.arena.page_mut(dirty.node);
        if let Some(table) = table {
            page.set_table(table);
        }
        page
    }

    /// Points the parent of a dirty page to the page's new place.
    fn link(&mut self, dirty: Dirty, ptr: PagePtr) {
        let page = self.arena.page(dirty.node);
        let ptr = ptr.with_flags(if page.has_large() { PagePtr::HAS_LARGE } else { 0 });
        if page.kind() == Kind::Leaf {
            self.dirty_sum = self.dirty_sum.wrapping_sub(page.record_sum(&mut self.scratch));
            self.saved_units += saved_units(ptr, self.pool.page_bytes());
        }
        self.written.insert(ptr.unit());
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
