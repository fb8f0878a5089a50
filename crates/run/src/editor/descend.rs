//! Descending to the leaf that is to be edited, and shadowing the pages on the path.

use super::Editor;
use super::arena::{link_to, node_of};
use crate::descriptor::{expect_leaf, expect_level};
use crate::drop::saved_units;
use crate::get::find;
use base::sync::lock;
use base::{PagePtr, Result};
use page::{Kind, PageMut};

impl Editor<'_> {
    pub(super) fn leaf_depth(&self) -> usize {
        usize::from(self.height) - 1
    }

    /// Returns the leaf of the last descent and its end, if `key` is greater than all keys in the run: ascending
    /// inserts need no descent.
    #[inline]
    pub(super) fn finger(&self, key: &[u8]) -> Option<(u32, usize)> {
        if !self.path.rightmost {
            return None;
        }
        let leaf = self.path.leaf(self.height)?;
        let page = self.arena.page(leaf);
        let last = page.count().checked_sub(1)?;
        let suffix = page.suffix_of(key)?;
        (suffix > page.suffix(last)).then_some((leaf, last + 1))
    }

    /// Shadows the path down to the leaf for `key`, stores it in `self.path` and returns the leaf.
    ///
    /// `probe`: the edit makes sense only if there is (true) or is no (false) record under `key`. If that depends on
    /// clean pages, the key is looked up before any of them is shadowed. Returns `None` if the edit makes no sense.
    #[inline]
    pub(super) fn descend(&mut self, key: &[u8], mut probe: Option<bool>) -> Result<Option<u32>> {
        self.path.invalidate();
        let Some((root, mut level)) = self.top() else { return self.plant().map(Some) };
        let mut node = match node_of(root) {
            Some(node) => node,
            None if !self.is_sensible(probe.take(), root, level, key)? => return Ok(None),
            None => self.own_root(root, level)?,
        };
        let mut rightmost = true;
        for depth in 0..usize::from(level) {
            let page = self.arena.page(node);
            let slot = page.child_for(key);
            rightmost &= slot + 1 == page.count();
            self.path.take(depth, node, slot);
            level -= 1;
            let child = page.child(slot);
            node = match node_of(child) {
                Some(node) => node,
                None if !self.is_sensible(probe.take(), child, level, key)? => return Ok(None),
                None => self.own_child(node, slot, level)?,
            };
        }
        self.end_path(node, rightmost);
        Ok(Some(node))
    }

    #[inline]
    fn end_path(&mut self, leaf: u32, rightmost: bool) {
        let depth = self.leaf_depth();
        self.path.end(depth, leaf, rightmost);
    }

    /// Makes the first leaf of an empty run.
    fn plant(&mut self) -> Result<u32> {
        let leaf = self.arena.take();
        PageMut::init(self.arena.bytes_mut(leaf), Kind::Leaf, 0, self.birth);
        (self.root, self.height) = (Some(link_to(leaf)), 1);
        self.leaves = 1;
        self.end_path(leaf, true);
        Ok(leaf)
    }

    /// Returns whether the clean subtree at `ptr` holds `key`, or does not, as the probe requires.
    fn is_sensible(&self, probe: Option<bool>, ptr: PagePtr, level: u8, key: &[u8]) -> Result<bool> {
        let Some(wanted) = probe else { return Ok(true) };
        let mut guard = self.reader.enter();
        Ok(find(self.pool, &mut guard, ptr, level, false, key)?.is_some() == wanted)
    }

    /// Returns the root, at `ptr`, as a dirty page.
    pub(super) fn own_root(&mut self, ptr: PagePtr, level: u8) -> Result<u32> {
        let node = match node_of(ptr) {
            Some(node) => node,
            None => self.shadow(ptr, level)?,
        };
        self.root = Some(link_to(node));
        Ok(node)
    }

    /// Returns child `slot` of dirty page `parent`, as a dirty page of `level`. Shadows it if it was clean.
    pub(super) fn own_child(&mut self, parent: u32, slot: usize, level: u8) -> Result<u32> {
        let child = self.arena.page(parent).child(slot);
        if let Some(node) = node_of(child) {
            return Ok(node);
        }
        let node = self.shadow(child, level)?;
        self.arena.page_mut(parent).set_child(slot, link_to(node));
        Ok(node)
    }

    /// Copies the page at `ptr` into the arena and retires its address: at once if this editor wrote it, else when no
    /// reader of an older checkpoint needs it.
    fn shadow(&mut self, ptr: PagePtr, level: u8) -> Result<u32> {
        let node = self.arena.take();
        if let Err(error) = self.copy_page(ptr, level, node) {
            self.arena.give_back(node);
            return Err(error);
        }
        if self.written.remove(&ptr.unit()) {
            lock(self.space).free_unused(ptr.unit(), ptr.units());
            self.pool.forget(ptr.unit());
        } else {
            let born = self.arena.page(node).birth();
            lock(self.space).retire_born(ptr, born, self.birth)?;
        }
        self.arena.page_mut(node).set_birth(self.birth);
        if level == 0 {
            let saved_units = saved_units(ptr, self.pool.page_bytes());
            self.saved_units = self.saved_units.saturating_sub(saved_units);
            let sum = self.arena.page(node).record_sum(&mut self.scratch);
            self.dirty_sum = self.dirty_sum.wrapping_add(sum);
        }
        Ok(node)
    }

    fn copy_page(&mut self, ptr: PagePtr, level: u8, node: u32) -> Result<()> {
        let mut guard = self.reader.enter();
        let page = self.pool.read(&mut guard, ptr)?;
        match level {
            0 => expect_leaf(page.page(), ptr, self.deletes)?,
            _ => expect_level(page.page(), ptr, level)?,
        }
        self.arena.bytes_mut(node).copy_from_slice(page.page().bytes());
        Ok(())
    }
}
