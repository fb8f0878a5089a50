//! Records of one leaf, in place, for a reader of many records that would otherwise copy each.

use crate::Cursor;
use page::InlineRecord;
use pool::Pin;

/// Some records of a leaf, which stay where they are for as long as this lives, whatever happens to the cursor that
/// lent them. It pins the leaf: a pool whose frames are all pinned can read nothing, so limit how many there are.
#[derive(Debug)]
pub struct LeafRun {
    leaf: Pin,
    /// The first record that is certain, which may have been shown: the one that the cursor was on, or the leaf's.
    first: usize,
    /// The records that were not shown yet, and the end of those that are certain to follow.
    next: usize,
    end: usize,
    certain: usize,
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

    /// Adds the records that are certain to follow. Returns how many were not shown yet.
    #[inline]
    pub fn extend(&mut self) -> usize {
        self.end = self.certain;
        self.left()
    }

    /// Makes [`LeafRun::seek`] find the records before those that are lent, too.
    #[inline]
    #[must_use]
    pub fn with_all_before(self) -> LeafRun {
        LeafRun { first: 0, ..self }
    }

    /// Goes to the first record whose key is `key` or greater, and adds those that are certain to follow. Returns
    /// whether that is certain to be one of these, or the one before them, which the cursor was on; if not, it stays.
    /// O(log records).
    pub fn seek(&mut self, key: &[u8]) -> bool {
        let (found, is_known) = match self.leaf.page().search(key) {
            Ok(at) => (at, at >= self.first),
            Err(at) => (at, at > self.first),
        };
        let is_known = is_known && found < self.certain;
        if is_known {
            (self.next, self.end) = (found, self.certain);
        }
        is_known
    }

    /// Returns the length of the longest key among the next records, `most` at most.
    pub fn longest_key(&self, most: usize) -> usize {
        self.leaf.page().longest_key(self.next..self.end.min(self.next.saturating_add(most)))
    }
}

impl Cursor {
    /// Moves over the records after the current one that are in the same leaf, `most` at most, and lends them. Up to
    /// `certain` records of the leaf, `most` or more, are certain to follow the current one where the caller reads.
    /// Returns `None`, and does not move, if there are none, if the value of a record of the leaf lies elsewhere, or if
    /// the leaf is in one of the few frames that a pool without memory has left.
    #[inline]
    pub fn lend_run(&mut self, most: usize, certain: usize) -> Option<LeafRun> {
        let leaf = self.leaf.as_ref()?;
        let next = self.index + 1;
        let end = |records| self.count.min(next.saturating_add(records));
        let (end, certain) = (end(most), end(certain));
        if next >= end || leaf.is_overdrawn() || !leaf.page().is_all_inline() {
            return None;
        }
        let run = LeafRun { leaf: leaf.clone(), first: self.index, next, end, certain };
        self.settle(end - 1);
        Some(run)
    }
}
