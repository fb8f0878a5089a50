//! Packing neighbouring leaves before they are written.
//!
//! Splits leave leaves half full, and removals repair a leaf only when it is below a quarter. A checkpoint that touches
//! most of a table would write all that free space. So dirty leaves are packed before they are written back: a row of
//! dirty leaves under one parent is packed if it would fit into an eighth fewer leaves, each filled to [`FILL_EIGHTHS`]
//! eighths. A packed row stays packed until inserts have split many of its leaves again, so that a leaf is not packed
//! at every checkpoint. Rows that ascending inserts left full are never touched.
//!
//! Entries move between siblings, from the right to the left, by `merge` and `borrow`, as in `rebalance`.

use super::Editor;
use super::arena::node_of;
use page::header::HEADER_BYTES;
use std::ops::Range;

/// The fill of packed leaves, in eighths: a merge of two siblings leaves as much room.
const FILL_EIGHTHS: usize = 7;

impl Editor<'_> {
    /// Packs the dirty leaves except `keep` where that is worth it. The path is no longer valid if it did.
    pub(super) fn pack(&mut self, keep: Option<u32>) {
        let mut levels = self.collect_dirty();
        // There is nothing below the leaves' level; above it are their parents.
        if levels.len() < usize::from(self.height) || levels.pop().is_none() {
            return;
        }
        for parent in levels.pop().unwrap_or_default() {
            self.pack_children(parent.node, keep);
        }
        self.shrink_if_thin();
    }

    /// Packs each row of dirty leaves under `parent`, the last one first, so that slots before it stay valid.
    fn pack_children(&mut self, parent: u32, keep: Option<u32>) {
        let page = self.arena.page(parent);
        let is_packable = |slot| node_of(page.child(slot)).is_some_and(|node| Some(node) != keep);
        let mut rows: Vec<Range<usize>> = Vec::new();
        for slot in (0..page.count()).filter(|&slot| is_packable(slot)) {
            match rows.last_mut() {
                Some(row) if row.end == slot => row.end += 1,
                _ => rows.push(slot..slot + 1),
            }
        }
        for row in rows.into_iter().rev() {
            let used = row.clone().map(|slot| self.arena.page(self.dirty_child(parent, slot)).used_bytes());
            if self.is_worth_packing(used) {
                self.path.invalidate();
                self.pack_row(parent, row);
            }
        }
    }

    /// Returns whether leaves with these used bytes would fit into an eighth fewer leaves.
    pub(super) fn is_worth_packing(&self, used_bytes: impl Iterator<Item = usize>) -> bool {
        let (count, used) =
            used_bytes.fold((0, 0), |(count, total), used| (count + 1, total + used - HEADER_BYTES));
        let packed = used.div_ceil(self.fill_bytes() - HEADER_BYTES).max(1);
        packed < count && packed <= count - count / 8
    }

    fn fill_bytes(&self) -> usize {
        self.pool.page_bytes() / 8 * FILL_EIGHTHS
    }

    /// Fills each leaf of the row from the next one, and removes those that become empty.
    fn pack_row(&mut self, parent: u32, row: Range<usize>) {
        let (mut at, mut end) = (row.start + 1, row.end);
        let mut separator = Vec::new();
        while at < end {
            let (left, right) = (self.dirty_child(parent, at - 1), self.dirty_child(parent, at));
            separator.clear();
            self.arena.page(parent).copy_key(at, &mut separator);
            let (left_bytes, right_bytes) =
                (self.arena.page(left).used_bytes(), self.arena.page(right).used_bytes());
            if left_bytes + right_bytes - HEADER_BYTES <= self.fill_bytes()
                && self.merge(left, right, &separator)
            {
                self.arena.page_mut(parent).remove(at, &mut self.counters);
                self.give_up(right);
                end -= 1;
                continue;
            }
            let count = self.arena.page(right).count();
            let entry_bytes = (right_bytes / count).max(1);
            let room = self.fill_bytes().saturating_sub(left_bytes) / entry_bytes;
            self.shift(parent, at, left, right, &separator, room.min(count - 1));
            at += 1;
        }
    }

    fn dirty_child(&self, parent: u32, slot: usize) -> u32 {
        node_of(self.arena.page(parent).child(slot)).expect("a row is of dirty leaves")
    }

    /// Moves the first `n` entries of `right`, to which entry `at` of `parent` points, to the end of `left`, if the
    /// parent certainly has room for the new separator.
    fn shift(&mut self, parent: u32, at: usize, left: u32, right: u32, separator: &[u8], n: usize) {
        if n == 0 {
            return;
        }
        let mut moved = Vec::new();
        self.arena.page(right).separator(n, &mut moved);
        self.move_entries(parent, at, (left, right), &moved, |left, right, counters| {
            left.borrow_from_right(right, n, separator, counters)
        });
    }

    /// Removes a root with a single child, which packing may leave.
    fn shrink_if_thin(&mut self) {
        let thin = self.root.and_then(node_of).is_some_and(|root| self.arena.page(root).count() == 1);
        if thin && self.height > 1 {
            self.shrink();
        }
    }
}
