//! Repairing pages that removals left below a quarter full.
//!
//! Such a page is merged with a sibling if both fit one page with an eighth to spare. Otherwise it borrows half of the
//! difference from the sibling. Between a quarter and seven eighths there is room for many edits, so no page is merged
//! and split again and again.

use super::Editor;
use super::arena::node_of;
use super::path::Step;
use base::Result;
use page::header::{HEADER_BYTES, SLOT_BYTES};
use page::{EditCounters, Kind, NoRoom, PageMut};

/// The bytes of an entry of an inner page in addition to its key: slot, pointer and rounding.
const INNER_ENTRY_BYTES: usize = SLOT_BYTES + base::PagePtr::BYTES + 4;

impl Editor<'_> {
    #[inline]
    pub(super) fn is_underfull(&self, node: u32) -> bool {
        self.arena.page(node).used_bytes() < self.pool.page_bytes() / 4
    }

    /// Repairs empty and underfull pages along the path, from the leaf up, and then the root. Returns whether the tree
    /// has fewer pages now.
    #[cold]
    pub(super) fn repair_path(&mut self) -> Result<bool> {
        let mut fewer = false;
        for depth in (1..=self.leaf_depth()).rev() {
            let node = self.path.step(depth).node;
            if self.arena.page(node).count() == 0 {
                let Step { node: parent, slot } = self.path.step(depth - 1);
                self.arena.page_mut(parent).remove(slot as usize, &mut self.counters);
                self.give_up(node);
                fewer = true;
            } else if self.is_underfull(node) {
                fewer |= self.merge_or_borrow(depth)?;
            }
        }
        self.shrink();
        Ok(fewer)
    }

    /// Frees dirty page `node`, which is no longer part of the tree.
    pub(super) fn give_up(&mut self, node: u32) {
        let is_leaf = self.arena.page(node).kind() == Kind::Leaf;
        self.leaves = self.leaves.saturating_sub(u64::from(is_leaf));
        self.arena.give_back(node);
    }

    /// Removes roots with a single child, and an empty root.
    pub(super) fn shrink(&mut self) {
        self.path.invalidate();
        while let Some(node) = self.root.and_then(node_of) {
            let page = self.arena.page(node);
            match (page.count(), page.kind()) {
                (0, _) => {
                    self.root = None;
                    (self.height, self.records, self.bytes, self.leaves) = (0, 0, 0, 0);
                    self.saved_units = 0;
                }
                (1, Kind::Inner) => {
                    self.root = Some(page.child(0));
                    self.height -= 1;
                }
                _ => return,
            }
            self.arena.give_back(node);
        }
    }

    /// Merges the underfull page at `depth` with its right sibling (the last child: with its left one) and returns
    /// true, or moves entries between the two.
    fn merge_or_borrow(&mut self, depth: usize) -> Result<bool> {
        let Step { node: parent, slot } = self.path.step(depth - 1);
        let children = self.arena.page(parent).count();
        if children < 2 {
            return Ok(false);
        }
        let at = (slot as usize + 1).min(children - 1);
        let level = (self.leaf_depth() - depth) as u8;
        let left = self.own_child(parent, at - 1, level)?;
        let right = self.own_child(parent, at, level)?;
        let mut separator = std::mem::take(&mut self.scratch);
        self.arena.page(parent).copy_key(at, &mut separator);
        let merged = self.merge(left, right, &separator);
        if merged {
            self.arena.page_mut(parent).remove(at, &mut self.counters);
            self.give_up(right);
        } else {
            self.borrow(parent, at, left, right, &separator);
        }
        self.scratch = separator;
        Ok(merged)
    }

    /// Moves all of `right` to `left` if they fit with an eighth of a page to spare.
    pub(super) fn merge(&mut self, left: u32, right: u32, separator: &[u8]) -> bool {
        let page_bytes = self.pool.page_bytes();
        let used = self.arena.page(left).used_bytes() + self.arena.page(right).used_bytes() - HEADER_BYTES;
        if used > page_bytes - page_bytes / 8 {
            return false;
        }
        let (left, right) = self.arena.pair(left, right);
        let right = PageMut::edit(right);
        PageMut::edit(left).merge(right.as_page(), separator, &mut self.counters).is_ok()
    }

    /// Evens out two siblings, if the parent, whose entry `at` points to `right`, certainly has room for the new
    /// separator. Doing nothing is allowed: an underfull page is a waste, not an error.
    fn borrow(&mut self, parent: u32, at: usize, left: u32, right: u32, separator: &[u8]) {
        let (left_page, right_page) = (self.arena.page(left), self.arena.page(right));
        let from_right = right_page.used_bytes() > left_page.used_bytes();
        let (giver, taker) = if from_right { (right_page, left_page) } else { (left_page, right_page) };
        let entry_bytes = (giver.used_bytes() / giver.count()).max(1);
        let n = (giver.used_bytes() - taker.used_bytes()) / 2 / entry_bytes;
        let n = n.min(giver.count() - 1);
        if n == 0 {
            return;
        }
        let mut moved = Vec::new();
        giver.separator(if from_right { n } else { giver.count() - n }, &mut moved);
        self.move_entries(parent, at, (left, right), &moved, |left, right, counters| match from_right {
            true => left.borrow_from_right(right, n, separator, counters),
            false => right.borrow_from_left(left, n, separator, counters),
        });
    }

    /// Lets `borrow` move entries between two siblings so that the right one begins at `separator`, and stores that in
    /// the parent, whose entry `at` points to the right one. Nothing happens if the parent may have no room for it, or
    /// the receiving page has no room for the entries.
    pub(super) fn move_entries(
        &mut self,
        parent: u32,
        at: usize,
        (left, right): (u32, u32),
        separator: &[u8],
        borrow: impl FnOnce(
            &mut PageMut<'_>,
            &mut PageMut<'_>,
            &mut EditCounters,
        ) -> std::result::Result<(), NoRoom>,
    ) {
        if !self.has_room_for_key(parent, separator) {
            return;
        }
        let (left_bytes, right_bytes) = self.arena.pair(left, right);
        let (mut left_page, mut right_page) = (PageMut::edit(left_bytes), PageMut::edit(right_bytes));
        if borrow(&mut left_page, &mut right_page, &mut self.counters).is_err() {
            return;
        }
        let mut page = self.arena.page_mut(parent);
        page.remove(at, &mut self.counters);
        page.insert_child(at, separator, super::arena::link_to(right), &mut self.counters)
            .expect("room for the separator was checked");
    }

    /// Returns whether inner page `node` can take `key`, even if that removes its prefix.
    fn has_room_for_key(&self, node: u32, key: &[u8]) -> bool {
        let page = self.arena.page(node);
        let unshared = page.prefix().iter().zip(key).take_while(|(a, b)| a == b).count();
        let regrown = (page.prefix().len() - unshared + 3) * page.count();
        let regrown = if key.starts_with(page.prefix()) { 0 } else { regrown + page.prefix().len() };
        page.free_bytes() >= INNER_ENTRY_BYTES + key.len() + regrown
    }
}
