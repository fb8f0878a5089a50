//! A cursor over the records in key order, in both directions.
//!
//! A cursor pins its leaf and the inner pages above it. So it needs no epoch, and may rest for as long as its owner
//! likes. A step inside a leaf touches that leaf alone; a step off its end goes up the pinned path to the next child
//! and down again.
//!
//! State: either *on a record* (`leaf` is some, `index < count`, `key` holds the record's key, `parts` are its own) or
//! *off* (`leaf` is none). It is off before the first move, after a move off either end, and after a failed move; seek
//! to get on a record again.

use crate::descriptor::{Run, expect_leaf, expect_level};
use crate::get::child_of;
use base::slots::Reader;
use base::{PagePtr, Result};
use page::{LeafKey, Parts, Value};
use pool::{Hint, PageRef, Pin, Pool};

/// The number of records ahead whose cells are prefetched.
const FETCH_AHEAD: usize = 4;

/// A position in a [`Run`].
pub struct Cursor {
    run: Run,
    /// The inner pages from the root down to level 1, each with the child that was taken.
    path: Vec<Step>,
    pub(crate) leaf: Option<Pin>,
    pub(crate) index: usize,
    pub(crate) count: usize,
    /// The key of the current record.
    key: LeafKey,
    /// The place of the current record in the leaf, found once for key and value.
    parts: Parts,
}

struct Step {
    pin: Pin,
    index: usize,
}

/// The child that a descent takes.
#[derive(Clone, Copy)]
enum Toward<'k> {
    First,
    Last,
    Key(&'k [u8]),
}

impl Cursor {
    /// Creates a cursor over `run`, off every record. The methods that move it need the pool that holds the run's
    /// pages, and a reader whose view keeps them from being freed.
    pub fn new(run: Run) -> Cursor {
        let (path, key, parts) = (Vec::new(), LeafKey::default(), Parts::default());
        Cursor { run, path, leaf: None, index: 0, count: 0, key, parts }
    }

    /// Returns the current record, or `None` if the cursor is off. The slices live until the cursor moves.
    #[inline]
    pub fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        let leaf = self.leaf.as_ref()?;
        Some((self.key.get(), leaf.page().value_at(self.parts)))
    }

    /// Returns the current record's key without reading the record.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.leaf.as_ref().map(|_| self.key.get())
    }

    /// Moves to the first record. Every move returns whether it ended on a record.
    pub fn seek_first(&mut self, pool: &Pool, reader: &Reader) -> Result<bool> {
        self.descend(pool, reader, Toward::First)?;
        Ok(self.enter(0, true))
    }

    /// Moves to the last record.
    pub fn seek_last(&mut self, pool: &Pool, reader: &Reader) -> Result<bool> {
        self.descend(pool, reader, Toward::Last)?;
        Ok(self.enter(self.count.wrapping_sub(1), false))
    }

    /// Moves to the first record whose key is `key` or greater.
    pub fn seek(&mut self, pool: &Pool, reader: &Reader, key: &[u8]) -> Result<bool> {
        self.descend(pool, reader, Toward::Key(key))?;
        match self.search(key) {
            Some(Ok(index) | Err(index)) if index < self.count => Ok(self.enter(index, true)),
            Some(_) => self.next_leaf(pool, reader),
            None => Ok(false),
        }
    }

    /// Moves to the last record whose key is less than `key`.
    pub fn seek_before(&mut self, pool: &Pool, reader: &Reader, key: &[u8]) -> Result<bool> {
        self.descend(pool, reader, Toward::Key(key))?;
        match self.search(key) {
            Some(Ok(0) | Err(0)) => self.previous_leaf(pool, reader),
            Some(Ok(index) | Err(index)) => Ok(self.enter(index - 1, false)),
            None => Ok(false),
        }
    }

    /// Moves to the next record, or off if there is none.
    #[inline]
    pub fn next(&mut self, pool: &Pool, reader: &Reader) -> Result<bool> {
        if self.index + 1 < self.count {
            self.fetch_ahead(self.index + 1, true);
            return Ok(self.settle(self.index + 1));
        }
        self.next_leaf(pool, reader)
    }

    /// Moves to the previous record, or off if there is none.
    #[inline]
    pub fn prev(&mut self, pool: &Pool, reader: &Reader) -> Result<bool> {
        if self.index > 0 {
            self.fetch_ahead(self.index - 1, false);
            return Ok(self.settle(self.index - 1));
        }
        self.previous_leaf(pool, reader)
    }

    /// Moves one record within the leaf, forward or back, if there is one whose value lies in the leaf. Otherwise it
    /// stays. Returns whether it moved.
    #[inline]
    pub fn step_in_leaf(&mut self, forward: bool) -> bool {
        let Some(leaf) = &self.leaf else { return false };
        let index = if forward { self.index + 1 } else { self.index.wrapping_sub(1) };
        if index >= self.count {
            return false;
        }
        let page = leaf.page();
        page.fetch_cell(ahead(index, FETCH_AHEAD, forward));
        let parts = page.parts(index);
        if parts.is_inline() {
            (self.index, self.parts) = (index, parts);
            self.key.set(page, parts);
        }
        parts.is_inline()
    }

    /// Returns key and value of the record that [`Cursor::step_in_leaf`] led to, in a third of the instructions of
    /// [`Cursor::entry`].
    #[inline]
    pub fn stepped(&self) -> Option<(&[u8], &[u8])> {
        let leaf = self.leaf.as_ref()?;
        self.parts.is_inline().then(|| (self.key.get(), leaf.page().payload_at(self.parts)))
    }

    /// Returns how many steps the cursor can take, `most` or fewer, that stay in the current leaf and end before `key`
    /// in their direction. A merge takes these without comparing keys. O(log of the result).
    #[inline]
    pub fn steps_before(&self, key: &[u8], forward: bool, most: u32) -> u32 {
        let Some(leaf) = &self.leaf else { return 0 };
        leaf.page().run_before(self.index, key, forward, most as usize) as u32
    }

    /// Moves over the records after the current one, or before it, and calls `each` with each: the beginning of the
    /// key, its rest, the value. Ends on the last record shown, after `most` at most, before one that is deleted or
    /// whose value lies elsewhere, or at the end of the leaf. Returns how many were shown.
    #[inline]
    pub fn run<const FORWARD: bool>(
        &mut self,
        most: usize,
        mut each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> usize {
        let Some(leaf) = &self.leaf else { return 0 };
        let (page, here) = (leaf.page(), self.index);
        let most = most.min(if FORWARD { self.count - 1 - here } else { here });
        let at = |steps| if FORWARD { here + steps } else { here - steps };
        let (prefix, mut shown) = (page.prefix(), 0);
        while shown < most {
            let (suffix, Value::Inline(value)) = page.record(at(shown + 1)) else { break };
            each(prefix, suffix, value);
            shown += 1;
        }
        if shown > 0 {
            self.settle(at(shown));
        }
        shown
    }

    fn search(&self, key: &[u8]) -> Option<std::result::Result<usize, usize>> {
        self.leaf.as_ref().map(|leaf| leaf.page().search(key))
    }

    /// Moves to record `index` of the current leaf. Returns false if there is no leaf.
    #[inline]
    pub(crate) fn settle(&mut self, index: usize) -> bool {
        let Some(leaf) = &self.leaf else { return false };
        let page = leaf.page();
        self.index = index;
        self.parts = page.parts(index);
        self.key.set(page, self.parts);
        true
    }

    /// Moves to record `index` of a leaf that was just entered, and prefetches the records to which the first moves
    /// will lead: those move only what follows closer.
    #[inline]
    fn enter(&mut self, index: usize, forward: bool) -> bool {
        if let Some(leaf) = &self.leaf {
            let page = leaf.page();
            for steps in 1..FETCH_AHEAD {
                page.fetch_cell(ahead(index, steps, forward));
            }
        }
        self.settle(index)
    }

    /// Prefetches the record to which [`FETCH_AHEAD`] moves from `index` lead.
    #[inline]
    fn fetch_ahead(&self, index: usize, forward: bool) {
        if let Some(leaf) = &self.leaf {
            leaf.page().fetch_cell(ahead(index, FETCH_AHEAD, forward));
        }
    }

    fn leave(&mut self) {
        self.path.clear();
        self.leaf = None;
        (self.index, self.count) = (0, 0);
    }

    fn descend(&mut self, pool: &Pool, reader: &Reader, toward: Toward<'_>) -> Result<()> {
        self.leave();
        match self.run.top() {
            Some((root, level)) => self.descend_from(pool, reader, (root, Hint::default()), level, toward),
            None => Ok(()),
        }
    }

    /// Pins the path from a page of `level`, given with the pool's hint for it, down to a leaf. After an error the
    /// cursor is off.
    fn descend_from(
        &mut self,
        pool: &Pool,
        reader: &Reader,
        page: (PagePtr, Hint<'_>),
        level: u8,
        toward: Toward<'_>,
    ) -> Result<()> {
        let result = self.try_descend_from(pool, reader, page, level, toward);
        if result.is_err() {
            self.leave();
        }
        result
    }

    fn try_descend_from(
        &mut self,
        pool: &Pool,
        reader: &Reader,
        (mut ptr, mut hint): (PagePtr, Hint<'_>),
        level: u8,
        toward: Toward<'_>,
    ) -> Result<()> {
        // One epoch for all pages: those on the path are pinned, so a miss may leave it to wait for the disk.
        let mut guard = reader.enter();
        for level in (1..=level).rev() {
            let inner = pool.read_hinted(&mut guard, ptr, hint)?;
            expect_level(inner.page(), ptr, level)?;
            let index;
            (index, ptr, hint) = toward.child_of(pool, &inner);
            self.path.push(Step { pin: inner.pin(), index });
        }
        let leaf = pool.read_hinted(&mut guard, ptr, hint)?;
        let page = leaf.page();
        expect_leaf(page, ptr, self.run.deletes)?;
        self.count = page.count();
        self.key.enter(page);
        self.leaf = Some(leaf.pin());
        Ok(())
    }

    #[cold]
    fn next_leaf(&mut self, pool: &Pool, reader: &Reader) -> Result<bool> {
        while let Some(step) = self.path.last_mut() {
            let page = step.pin.page();
            if step.index + 1 < page.count() {
                step.index += 1;
                let (child, level) = (step.child(pool, true), page.level() - 1);
                self.descend_from(pool, reader, child, level, Toward::First)?;
                return Ok(self.enter(0, true));
            }
            self.path.pop();
        }
        self.leave();
        Ok(false)
    }

    #[cold]
    fn previous_leaf(&mut self, pool: &Pool, reader: &Reader) -> Result<bool> {
        while let Some(step) = self.path.last_mut() {
            if step.index > 0 {
                step.index -= 1;
                let (child, level) = (step.child(pool, false), step.pin.page().level() - 1);
                self.descend_from(pool, reader, child, level, Toward::Last)?;
                return Ok(self.enter(self.count - 1, false));
            }
            self.path.pop();
        }
        self.leave();
        Ok(false)
    }
}

/// Returns the number of the record to which `steps` moves from `index` lead. It may be none of the leaf's.
#[inline]
fn ahead(index: usize, steps: usize, forward: bool) -> usize {
    if forward { index + steps } else { index.wrapping_sub(steps) }
}

impl Step {
    /// Returns the child that was taken, with the pool's hint for it. Prefetches it and the one after it, or before it:
    /// a walk comes to that one next.
    fn child<'p>(&self, pool: &'p Pool, forward: bool) -> (PagePtr, Hint<'p>) {
        let hints = pool.hints_of(&self.pin);
        let hint = hints.of_child(self.index);
        hints.of_child(ahead(self.index, 1, forward));
        (self.pin.page().child(self.index), hint)
    }
}

impl Toward<'_> {
    /// Returns the child of `inner` that the descent takes: its number, its place, and the pool's hint for it.
    #[inline]
    fn child_of<'p>(self, pool: &'p Pool, inner: &PageRef<'_>) -> (usize, PagePtr, Hint<'p>) {
        let at = match self {
            Toward::Key(key) => return child_of(pool, inner, key),
            Toward::First => 0,
            Toward::Last => inner.page().count() - 1,
        };
        (at, inner.page().child(at), pool.hints(inner).of_child(at))
    }
}
