//! Moving pages from the end of the file to lower places, so that the end can be cut off, and packing leaves on the
//! way.
//!
//! From a key on, the editor visits one parent of leaves after the other:
//! 1. Look for the parent from the root down, shadowing nothing, and at its children's pointers. Leaves are read only
//!    if their pointer says that they have large values, or if they may be packed.
//! 2. If a page on the path lies at or after the border, or leaves do, shadow the path and those leaves: they are
//!    written back to the lowest free places. Large values after the border are copied, if there is a lower place.
//! 3. Continue at the key where the parent's range ends, until the allowed work is done.
//!
//! Only places change, and packing moves records between neighbours: both are edits like any other, conserved and
//! published with the checkpoint.

use super::Editor;
use super::arena::node_of;
use crate::descriptor::expect_level;
use crate::large::{move_large, record_hash};
use base::limits::UNIT_BYTES;
use base::sync::lock;
use base::{LargeRef, PagePtr, Result, background};
use page::{Page, Value};

/// The pages to move, and the work that this may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The unit from which on pages are moved.
    pub border_unit: u64,
    /// Whether rows of leaves are packed where that saves an eighth of them, for which every leaf is read.
    pub packs: bool,
    /// The number of units that are still to be moved. It may be exceeded slightly.
    pub units: u64,
    /// The number of parents of leaves that are still to be visited.
    pub parents: u64,
}

/// A parent of leaves (or the root, if that is a leaf) on the way of a relocation.
struct Stop {
    /// Whether a page above it lies after the border.
    is_way_high: bool,
    /// The slots of leaves to shadow.
    slots: Vec<usize>,
    /// The end of its range of keys; `None` at the end of the run.
    next: Option<Vec<u8>>,
}

impl Editor<'_> {
    /// Moves pages that lie high, from key `from` on. Returns the key to continue from, or `None` when the end was
    /// reached. Errors as [`Editor::put`].
    pub fn relocate(&mut self, from: &[u8], work: &mut Relocation) -> Result<Option<Vec<u8>>> {
        let mut at = from.to_vec();
        while self.root.is_some() {
            if work.units == 0 || work.parents == 0 {
                return Ok(Some(at));
            }
            self.write_back_beyond_limit()?;
            work.parents -= 1;
            let stop = self.look(&at, work)?;
            if stop.is_way_high || !stop.slots.is_empty() {
                // There can be more to move here than was allowed: the next call begins there.
                if let Some(left) = self.move_stop(&at, &stop, work)? {
                    return Ok(Some(left));
                }
            }
            match stop.next {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// Looks for the parent of leaves at `key`, and for what is to be moved there (step 1).
    fn look(&self, key: &[u8], work: &Relocation) -> Result<Stop> {
        let mut stop = Stop { is_way_high: false, slots: Vec::new(), next: None };
        let Some((mut ptr, mut level)) = self.top() else { return Ok(stop) };
        loop {
            stop.is_way_high |= self.is_high(ptr, work);
            if level == 0 {
                // The root is a leaf.
                stop.is_way_high |= self.has_high_values(ptr, work)?;
                return Ok(stop);
            }
            let child = self.with_page(ptr, level, |page| {
                let slot = page.child_for(key);
                if level > 1 && slot + 1 < page.count() {
                    page.copy_key(slot + 1, stop.next.insert(Vec::new()));
                }
                page.child(slot)
            })?;
            if level == 1 {
                // What comes before the key was visited by an earlier call, and is not looked at again: packing may not
                // have made it any shorter.
                let (first, children) = self.with_page(ptr, level, |page| {
                    let first = page.child_for(key);
                    (first, (first..page.count()).map(|slot| page.child(slot)).collect::<Vec<_>>())
                })?;
                // All of this parent was visited: its range ends where its own parent says.
                stop.slots = self.leaves_to_move(&children, work)?;
                stop.slots.iter_mut().for_each(|slot| *slot += first);
                return Ok(stop);
            }
            (ptr, level) = (child, level - 1);
        }
    }

    fn leaves_to_move(&self, children: &[PagePtr], work: &Relocation) -> Result<Vec<usize>> {
        let clean = children.iter().enumerate().filter(|(_, ptr)| node_of(**ptr).is_none());
        if work.packs {
            let mut used = Vec::with_capacity(children.len());
            for ptr in children {
                used.push(self.with_page(*ptr, 0, |page| page.used_bytes())?);
            }
            if self.is_worth_packing(used.into_iter()) {
                return Ok(clean.map(|(slot, _)| slot).collect());
            }
        }
        let mut slots = Vec::new();
        for (slot, &ptr) in clean {
            if self.is_high(ptr, work) || self.has_high_values(ptr, work)? {
                slots.push(slot);
            }
        }
        Ok(slots)
    }

    /// Returns whether the clean page at `ptr` is to be moved. Pages that this editor wrote already lie as low as
    /// possible.
    fn is_high(&self, ptr: PagePtr, work: &Relocation) -> bool {
        node_of(ptr).is_none() && ptr.unit() >= work.border_unit && !self.written.contains(&ptr.unit())
    }

    fn has_high_values(&self, ptr: PagePtr, work: &Relocation) -> Result<bool> {
        if ptr.flags() & PagePtr::HAS_LARGE == 0 || self.written.contains(&ptr.unit()) {
            return Ok(false);
        }
        self.with_page(ptr, 0, |page| high_values(page, work).next().is_some())
    }

    /// Runs `with` on a page of this tree, dirty or clean.
    fn with_page<T>(&self, ptr: PagePtr, level: u8, with: impl FnOnce(Page<'_>) -> T) -> Result<T> {
        if let Some(node) = node_of(ptr) {
            return Ok(with(self.arena.page(node)));
        }
        let pin = self.pool.pin(self.reader, ptr)?;
        expect_level(pin.page(), ptr, level)?;
        Ok(with(pin.page()))
    }

    /// Shadows the leaves of `stop` and the path to them (step 2). Returns the key from which on there are leaves left,
    /// if the allowed work ended before.
    fn move_stop(&mut self, key: &[u8], stop: &Stop, work: &mut Relocation) -> Result<Option<Vec<u8>>> {
        self.path.invalidate();
        let Some((root, mut level)) = self.top() else { return Ok(None) };
        let page_units = (self.pool.page_bytes() / UNIT_BYTES) as u64;
        let mut node = self.own_root(root, level)?;
        while level > 1 {
            let slot = self.arena.page(node).child_for(key);
            level -= 1;
            node = self.own_child(node, slot, level)?;
        }
        if level == 0 {
            work.units = work.units.saturating_sub(page_units);
            return self.move_values(node, work).map(|()| None);
        }
        for &slot in &stop.slots {
            if work.units == 0 {
                let mut left = key.to_vec();
                if slot > 0 {
                    self.arena.page(node).copy_key(slot, &mut left);
                }
                return Ok(Some(left));
            }
            let leaf = self.own_child(node, slot, 0)?;
            work.units = work.units.saturating_sub(page_units);
            self.move_values(leaf, work)?;
            background::pause();
        }
        Ok(None)
    }

    /// Copies the large values of a dirty leaf that lie after the border to lower places.
    fn move_values(&mut self, leaf: u32, work: &mut Relocation) -> Result<()> {
        let high: Vec<(usize, LargeRef, Vec<u8>)> = high_values(self.arena.page(leaf), work).collect();
        for (at, old, beginning) in high {
            let Some(new) = move_large(self.pool, self.space, old)? else { continue };
            let mut key = std::mem::take(&mut self.scratch);
            self.arena.page(leaf).copy_key(at, &mut key);
            let (mut of_old, mut of_new) = (Vec::new(), Vec::new());
            let old_value = Value::Large(old.encode_with(&beginning, &mut of_old));
            let new_value = Value::Large(new.encode_with(&beginning, &mut of_new));
            let (was, is) = (record_hash(&key, old_value), record_hash(&key, new_value));
            self.scratch = key;
            self.dirty_sum = self.dirty_sum.wrapping_sub(was).wrapping_add(is);
            let replaced = self.arena.page_mut(leaf).replace(at, new_value, &mut self.counters);
            replaced.expect("one reference is as long as another");
            lock(self.space).retire(old.ptr, self.birth)?;
            work.units = work.units.saturating_sub(old.ptr.units());
        }
        Ok(())
    }
}

/// Returns whether the value is in pieces. Such values stay where they are: each piece would need a place of its own,
/// and the index would have to be written again.
fn in_pieces(large: LargeRef) -> bool {
    large.ptr.flags() & PagePtr::IN_PIECES != 0
}

/// Returns the large values of a leaf, each in one extent, that lie after the border, with their beginnings.
fn high_values<'p>(
    page: Page<'p>,
    work: &Relocation,
) -> impl Iterator<Item = (usize, LargeRef, Vec<u8>)> + use<'p> {
    let border = work.border_unit;
    (0..page.count()).filter_map(move |at| match page.value(at) {
        Value::Large(large) => {
            let reference = large.reference();
            let is_high = reference.ptr.unit() >= border && !in_pieces(reference);
            is_high.then(|| (at, reference, large.beginning().to_vec()))
        }
        _ => None,
    })
}
