//! Removing a range of keys: whole subtrees by their pointers, the two edges record by record.
//!
//! 1. Below an inner page, the children that the range covers completely are dropped. A clean one without large values
//!    costs only its address: leaves are never read, because the page above names them.
//! 2. The children that the range covers partly, at most two, are shadowed and trimmed the same way, down to the
//!    leaves. Pages that become empty are removed from their parents on the way back.
//! 3. Both edges are repaired as after any other removal.
//!
//! Cost: the height, the two edges, and the inner pages that are dropped.

use super::Editor;
use super::arena::node_of;
use crate::drop::retire_subtree;
use base::{CheckpointNo, PagePtr, Result};

impl Editor<'_> {
    /// Removes all records with `start <= key`, and `key < end` if there is an end. If leaves are dropped without being
    /// read, [`Run::records`](crate::Run) and `bytes` become estimates. Errors as [`Editor::put`].
    pub fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        if end.is_some_and(|end| end <= start) {
            return Ok(());
        }
        self.write_back_beyond_limit()?;
        let Some((root, level)) = self.top() else { return Ok(()) };
        self.path.invalidate();
        let start = Some(start).filter(|start| !start.is_empty());
        if start.is_none() && end.is_none() {
            self.drop_subtree(root, level)?;
            self.root = None;
            (self.height, self.records, self.bytes, self.leaves) = (0, 0, 0, 0);
            self.saved_units = 0;
            return Ok(());
        }
        let node = self.own_root(root, level)?;
        self.trim(node, level, start, end)?;
        self.shrink();
        self.mend(start.unwrap_or_default())?;
        if let Some(end) = end {
            self.mend(end)?;
        }
        Ok(())
    }

    /// Descends to `key` and repairs the path, repeatedly while that removes pages from the tree.
    fn mend(&mut self, key: &[u8]) -> Result<()> {
        while self.root.is_some() {
            self.descend(key, None)?;
            if !self.repair_path()? {
                break;
            }
        }
        Ok(())
    }

    /// Removes the records in the range from dirty page `node`. An absent bound lies outside the page.
    fn trim(&mut self, node: u32, level: u8, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        if level == 0 {
            return self.trim_leaf(node, start, end);
        }
        let page = self.arena.page(node);
        let first = start.map_or(0, |start| page.child_for(start));
        let last = end.map_or(page.count() - 1, |end| page.child_for(end));
        for slot in (first..=last).rev() {
            let start = start.filter(|start| slot == first && !self.is_entry(node, slot, start));
            let end = end.filter(|_| slot == last);
            if end.is_some_and(|end| self.is_entry(node, slot, end)) {
                continue;
            }
            if self.trim_child(node, slot, level - 1, start, end)? {
                self.arena.page_mut(node).remove(slot, &mut self.counters);
            }
        }
        Ok(())
    }

    /// Removes the range from child `slot` of `parent`. Returns true if nothing is left of the child.
    fn trim_child(
        &mut self,
        parent: u32,
        slot: usize,
        level: u8,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<bool> {
        if start.is_none() && end.is_none() {
            let child = self.arena.page(parent).child(slot);
            self.drop_subtree(child, level)?;
            return Ok(true);
        }
        let child = self.own_child(parent, slot, level)?;
        self.trim(child, level, start, end)?;
        let empty = self.arena.page(child).count() == 0;
        if empty {
            self.give_up(child);
        }
        Ok(empty)
    }

    /// Returns whether entry `slot` of inner page `node` begins at exactly `key`.
    fn is_entry(&self, node: u32, slot: usize, key: &[u8]) -> bool {
        let page = self.arena.page(node);
        slot > 0 && key.strip_prefix(page.prefix()) == Some(page.suffix(slot))
    }

    fn trim_leaf(&mut self, leaf: u32, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let page = self.arena.page(leaf);
        let place = |key: &[u8]| page.search(key).unwrap_or_else(|at| at);
        let first = start.map_or(0, place);
        let last = end.map_or(page.count(), place);
        let mut key = std::mem::take(&mut self.scratch);
        for at in (first..last).rev() {
            self.arena.page(leaf).copy_key(at, &mut key);
            self.forget_record(leaf, at, &key)?;
            self.arena.page_mut(leaf).remove(at, &mut self.counters);
        }
        self.scratch = key;
        Ok(())
    }

    /// Retires the subtree at `ptr`, dirty or not, whose root has `level`.
    fn drop_subtree(&mut self, ptr: PagePtr, level: u8) -> Result<()> {
        let Some(node) = node_of(ptr) else { return self.drop_clean(ptr, level) };
        if level == 0 {
            self.trim_leaf(node, None, None)?;
        } else {
            for slot in 0..self.arena.page(node).count() {
                let child = self.arena.page(node).child(slot);
                self.drop_subtree(child, level - 1)?;
            }
        }
        self.give_up(node);
        Ok(())
    }

    /// Retires a subtree that is completely on disk. Its leaves are assumed to have held as many records as the other
    /// leaves do on average.
    fn drop_clean(&mut self, ptr: PagePtr, level: u8) -> Result<()> {
        // A page that is not read does not say when it was born.
        let lived = CheckpointNo(0)..self.birth;
        let dropped = retire_subtree(self.pool, self.reader, self.space, &lived, ptr, level, true)?;
        let share =
            |of: u64| (u128::from(of) * u128::from(dropped.leaves) / u128::from(self.leaves.max(1))) as u64;
        let (records, bytes) = (share(self.records), share(self.bytes));
        self.records = self.records.saturating_sub(records);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.leaves = self.leaves.saturating_sub(dropped.leaves);
        self.saved_units = self.saved_units.saturating_sub(dropped.saved_units);
        Ok(())
    }
}
