//! Records of one leaf, in place, for a reader of many records that would otherwise copy each.

use crate::Cursor;
use page::InlineRecord;
use pool::Pin;

/// Some records of a leaf, which stay where they are for as long as this lives, whatever happens to the cursor that
/// lent them. It pins the leaf: a pool whose frames are all pinned can read nothing, so limit how many there are.
#[derive(Debug)]
pub struct LeafRun {
    leaf: Pin,
    next: usize,
    end: usize,
}

impl LeafRun {
    /// Returns the bytes that the records lie in.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.leaf.page().bytes()
    }

    /// Returns how many records were not shown yet.
    #[inline]
    pub fn left(&self) -> usize {
        self.end - self.next
    }

    /// Returns the beginning of all keys, and the next records, `most` at most: the rest of each key, the value, and
    /// how many bytes of [`LeafRun::bytes`] come after the value.
    #[inline]
    pub fn show(&mut self, most: usize) -> (&[u8], impl Iterator<Item = InlineRecord<'_>>) {
        let first = self.next;
        self.next = self.end.min(first.saturating_add(most));
        let page = self.leaf.page();
        (page.prefix(), page.inline_records(first..self.next))
    }
}

impl Cursor {
    /// Moves over the records after the current one that are in the same leaf, `most` at most, and lends them. Returns
    /// `None`, and does not move, if there are none, if the value of a record of the leaf lies elsewhere, or if the
    /// leaf is in one of the few frames that a pool without memory has left.
    #[inline]
    pub fn lend_run(&mut self, most: usize) -> Option<LeafRun> {
        let leaf = self.leaf.as_ref()?;
        let next = self.index + 1;
        let end = self.count.min(next.saturating_add(most));
        if next >= end || leaf.is_overdrawn() || !leaf.page().is_all_inline() {
            return None;
        }
        let run = LeafRun { leaf: leaf.clone(), next, end };
        self.settle(end - 1);
        Some(run)
    }
}
