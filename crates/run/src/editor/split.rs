//! Making room: split a page in two, from the leaf upwards.
//!
//! 1. Choose where to cut and the separator: the shortest key above all keys on the left and not above any on the
//!    right.
//! 2. Insert the separator into the parent. If the parent has no room, split the parent instead and stop.
//! 3. Move the entries after the cut to a new page.
//!
//! Each call makes at most one such step at the lowest level that has room; the caller descends again and retries until
//! its record fits. A split page has fewer entries each time, so this ends: two records, and three children, of the
//! longest keys fit a page.

use super::Editor;
use super::arena::link_to;
use super::path::Step;
use crate::descriptor::MAX_HEIGHT;
use base::{Error, ErrorKind, Result};
use page::{Kind, PageMut};

impl Editor<'_> {
    /// Splits the leaf at the path's end, which has no room for `key` at `at`, or a page above it.
    #[cold]
    pub(super) fn split_leaf(&mut self, at: usize, key: &[u8]) -> Result<()> {
        let depth = self.leaf_depth();
        let mut separator = std::mem::take(&mut self.scratch);
        let cut = self.choose_leaf_cut(at, key, &mut separator);
        let result = match cut {
            Some(cut) => self.split_page(depth, cut, &separator),
            None => Err(too_long(depth)),
        };
        self.scratch = separator;
        result
    }

    /// Returns where to cut the leaf, and the separator. Ascending inserts leave all earlier records on the left, so
    /// that the left page is full; descending ones leave all later records on the right.
    fn choose_leaf_cut(&self, at: usize, key: &[u8], separator: &mut Vec<u8>) -> Option<usize> {
        let leaf = self.path.step(self.leaf_depth()).node;
        let page = self.arena.page(leaf);
        let count = page.count();
        let sequential = self.path.is_sequential(leaf, at);
        if at == count && (sequential || self.path.rightmost) {
            page.copy_key(count - 1, separator);
            shorten(separator, key);
            return Some(count);
        }
        let cut = match at {
            _ if count < 2 => return None,
            0 if sequential => 1,
            _ if sequential && at < count => at,
            _ => page.split_position(at.min(count - 1)),
        };
        if cut == at && at >= count / 2 {
            page.copy_key(cut - 1, separator);
            shorten(separator, key);
        } else {
            page.separator(cut, separator);
        }
        Some(cut)
    }

    /// Splits the inner page at `depth`, which has no room for another child at `at`, or a page above it.
    fn split_inner(&mut self, depth: usize, at: usize) -> Result<()> {
        let page = self.arena.page(self.path.step(depth).node);
        let count = page.count();
        if count < 2 {
            return Err(too_long(depth));
        }
        let cut = if at == count && self.path.rightmost {
            count - 1
        } else {
            page.split_position(at.min(count - 1))
        };
        let mut separator = Vec::new();
        page.separator(cut, &mut separator);
        self.split_page(depth, cut, &separator)
    }

    fn split_page(&mut self, depth: usize, cut: usize, separator: &[u8]) -> Result<()> {
        let Some(above) = depth.checked_sub(1) else {
            self.path.invalidate();
            return self.grow();
        };
        let Step { node: parent, slot } = self.path.step(above);
        let at = slot as usize + 1;
        let right = self.arena.take();
        let entered =
            self.arena.page_mut(parent).insert_child(at, separator, link_to(right), &mut self.counters);
        if entered.is_err() {
            self.arena.give_back(right);
            return self.split_inner(above, at);
        }
        let (left, right) = self.arena.pair(self.path.step(depth).node, right);
        let mut left = PageMut::edit(left);
        let (kind, level) = (left.as_page().kind(), left.as_page().level());
        left.split(&mut PageMut::init(right, kind, level, self.birth), cut, &mut self.counters);
        self.leaves += u64::from(level == 0);
        self.path.invalidate();
        Ok(())
    }

    /// Adds a new root, with the old one as its only child.
    fn grow(&mut self) -> Result<()> {
        let old = self.root.expect("a page is being split");
        if usize::from(self.height) == MAX_HEIGHT {
            return Err(Error::new(
                ErrorKind::Full,
                format!("the table is full: its tree would need more than {MAX_HEIGHT} levels"),
            ));
        }
        let node = self.arena.take();
        let mut page = PageMut::init(self.arena.bytes_mut(node), Kind::Inner, self.height, self.birth);
        page.insert_child(0, &[], old, &mut self.counters).expect("an empty page has room for one child");
        self.root = Some(link_to(node));
        self.height += 1;
        Ok(())
    }
}

/// Replaces `separator`, which holds a key less than `key`, by the shortest prefix of `key` that is greater.
fn shorten(separator: &mut Vec<u8>, key: &[u8]) {
    let common = separator.iter().zip(key).take_while(|(a, b)| a == b).count();
    separator.clear();
    separator.extend_from_slice(&key[..=common]);
}

#[cold]
fn too_long(depth: usize) -> Error {
    Error::corruption(format!(
        "a page at depth {depth} is full with a single key: longer than any key may be"
    ))
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn a_separator_is_the_shortest_that_separates() {
        for (low, key, expected) in
            [("abc", "abd", "abd"), ("abc", "b", "b"), ("ab", "abcd", "abc"), ("", "xyz", "x")]
        {
            let mut separator = low.as_bytes().to_vec();
            shorten(&mut separator, key.as_bytes());
            assert_eq!(separator, expected.as_bytes());
        }
    }
}
