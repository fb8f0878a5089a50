//! The in-page allocator, which insert, replace, remove, split, merge and borrow share.
//!
//! Free bytes are in two places: the *gap* between slots and cells, and the *free list*, a chain through freed cells.
//! Cells begin and end at multiples of the granule, which is exactly the size of a list node. So the rest of a cell
//! that is cut can always be listed, and no free bytes are lost.
//!
//! 1. An allocation looks at the first few freed cells (first fit), then at the gap. Freed cells come first because
//!    slots can grow into the gap only. A cell cut in two keeps its front in the list, so that the chain need not be
//!    rewritten.
//! 2. A release joins the gap if the cell borders on it. Freed cells that then border on the gap join it, too, as long
//!    as they are at the front of the list. Otherwise the cell becomes the front of the list.
//! 3. If both fail although there are enough free bytes, the [front gap](crate::slots) joins the gap. If that is not
//!    enough, the cells are moved together (`compact`) and the free bytes become one gap. This is an allocator failure
//!    and is counted as such. It needs removals or growing values: inserts alone free nothing.

use crate::header::{SLOT_BYTES, field};
use crate::{EditCounters, NoRoom, Page, PageMut};

/// How many freed cells an allocation looks at, so that its cost is bounded.
const MAX_PROBES: usize = 8;

/// The first four bytes of a freed cell.
#[derive(Clone, Copy)]
pub(crate) struct FreeCell {
    /// The offset of the next freed cell; 0 if there is none.
    pub next: usize,
    /// The length of the cell in bytes.
    pub len: usize,
}

impl FreeCell {
    #[inline]
    pub fn read(bytes: &[u8], offset: usize) -> FreeCell {
        let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        FreeCell { next: half(offset), len: half(offset + 2) }
    }

    #[inline]
    fn write(self, bytes: &mut [u8], offset: usize) {
        bytes[offset..offset + 2].copy_from_slice(&(self.next as u16).to_le_bytes());
        bytes[offset + 2..offset + 4].copy_from_slice(&(self.len as u16).to_le_bytes());
    }
}

impl PageMut<'_> {
    /// Returns the offset of `len` bytes (a multiple of the granule, not 0) such that the gap still has `reserve`
    /// bytes.
    #[inline]
    pub(crate) fn allocate(&mut self, len: usize, reserve: usize) -> Option<usize> {
        let gap = self.as_page().gap_bytes();
        if gap < reserve {
            return None;
        }
        if field::free_bytes(self.bytes) as usize >= len
            && let Some(offset) = self.allocate_freed(len)
        {
            return Some(offset);
        }
        if gap - reserve < len {
            return None;
        }
        let start = field::cells_start(self.bytes) as usize - len;
        field::set_cells_start(self.bytes, start as u32);
        Some(start)
    }

    fn allocate_freed(&mut self, len: usize) -> Option<usize> {
        let mut before = 0;
        let mut offset = usize::from(field::free_head(self.bytes));
        for _ in 0..MAX_PROBES {
            if offset == 0 {
                return None;
            }
            let freed = FreeCell::read(self.bytes, offset);
            if freed.len >= len {
                let free_bytes = field::free_bytes(self.bytes) - len as u32;
                field::set_free_bytes(self.bytes, free_bytes);
                let rest = freed.len - len;
                if rest > 0 {
                    FreeCell { len: rest, ..freed }.write(self.bytes, offset);
                } else {
                    self.unlink(before, freed.next);
                }
                return Some(offset + rest);
            }
            before = offset;
            offset = freed.next;
        }
        None
    }

    /// Makes `next` the successor of the freed cell at `before`, or the front if `before` is 0.
    fn unlink(&mut self, before: usize, next: usize) {
        if before == 0 {
            field::set_free_head(self.bytes, next as u16);
        } else {
            FreeCell { next, ..FreeCell::read(self.bytes, before) }.write(self.bytes, before);
        }
    }

    /// Frees `len` bytes at `offset`; does nothing if `len` is 0.
    #[inline]
    pub(crate) fn release(&mut self, offset: usize, len: usize) {
        if len == 0 {
            return;
        }
        if offset == field::cells_start(self.bytes) as usize {
            field::set_cells_start(self.bytes, (offset + len) as u32);
            self.join_gap();
            return;
        }
        let next = usize::from(field::free_head(self.bytes));
        FreeCell { next, len }.write(self.bytes, offset);
        field::set_free_head(self.bytes, offset as u16);
        let free_bytes = field::free_bytes(self.bytes) + len as u32;
        field::set_free_bytes(self.bytes, free_bytes);
    }

    /// Joins freed cells to the gap while the front of the free list borders on it.
    fn join_gap(&mut self) {
        loop {
            let start = field::cells_start(self.bytes) as usize;
            let front = usize::from(field::free_head(self.bytes));
            if front == 0 || front != start {
                return;
            }
            let freed = FreeCell::read(self.bytes, front);
            field::set_free_head(self.bytes, freed.next as u16);
            field::set_cells_start(self.bytes, (start + freed.len) as u32);
            let free_bytes = field::free_bytes(self.bytes) - freed.len as u32;
            field::set_free_bytes(self.bytes, free_bytes);
        }
    }

    /// Allocates a new entry's cell of `len` bytes and its slot, by compaction if necessary.
    #[inline]
    pub(crate) fn allocate_entry(
        &mut self,
        len: usize,
        counters: &mut EditCounters,
    ) -> Result<usize, NoRoom> {
        match self.allocate(len, SLOT_BYTES) {
            Some(offset) => Ok(offset),
            None => self.allocate_compacting(len, counters),
        }
    }

    #[cold]
    fn allocate_compacting(&mut self, len: usize, counters: &mut EditCounters) -> Result<usize, NoRoom> {
        if self.as_page().free_bytes() < len + SLOT_BYTES {
            return Err(NoRoom);
        }
        if field::front_gap(self.bytes) > 0 {
            counters.bytes_moved += self.close_front_gap();
            if let Some(offset) = self.allocate(len, SLOT_BYTES) {
                return Ok(offset);
            }
        }
        counters.allocator_failures += 1;
        self.compact(counters);
        Ok(self.allocate(len, SLOT_BYTES).expect("after a compaction all free bytes are in the gap"))
    }

    /// Moves all cells together, in key order, so that all free bytes are in the gap.
    fn compact(&mut self, counters: &mut EditCounters) {
        counters.compactions += 1;
        let image = self.bytes.to_vec();
        let image = Page::trusted(&image);
        self.lay_out(image.prefix(), &[image.into()], counters);
    }

    /// Removes all entries and the prefix: all bytes after the header become the gap.
    pub(crate) fn reset(&mut self) {
        let end = self.bytes.len() as u32;
        self.bytes[field::PREFIX..].fill(0);
        field::set_count(self.bytes, 0);
        field::set_front_gap(self.bytes, 0);
        field::set_cells_start(self.bytes, end);
        field::set_prefix_offset(self.bytes, field::PREFIX as u32);
        field::set_prefix_len(self.bytes, 0);
        field::set_free_head(self.bytes, 0);
        field::set_large_count(self.bytes, 0);
        field::set_deletes(self.bytes, 0);
        field::set_free_bytes(self.bytes, 0);
    }
}
