//! Looking up one key: a descent that copies child pointers.
//!
//! A page is released before its child is read, because a miss leaves the epoch to wait for the disk. So no page on the
//! path stays borrowed, and nothing is allocated or counted.

use crate::descriptor::{Run, expect_leaf, expect_level};
use base::slots::EpochGuard;
use base::{PagePtr, Result};
use page::Value;
use pool::{Hint, PageRef, Pin, Pool};

/// A record that [`Run::get`] found. It is in the pool for as long as the epoch lasts.
pub struct Leaf<'g> {
    page: PageRef<'g>,
    index: usize,
}

impl Leaf<'_> {
    /// Returns the record's value.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        self.page.page().value(self.index)
    }

    /// Returns a pin, which keeps the record beyond the epoch.
    #[inline]
    pub fn pin(&self) -> PinnedRecord {
        PinnedRecord { index: self.index, pin: self.page.pin() }
    }
}

/// A record whose page stays in memory until this is dropped.
pub struct PinnedRecord {
    pin: Pin,
    index: usize,
}

impl PinnedRecord {
    /// Returns the record's key without its first `skip` bytes, or `None` if these end within what all keys of the page
    /// begin with: then no part of the page has the rest in one piece.
    pub fn key_after(&self, skip: usize) -> Option<&[u8]> {
        let page = self.pin.page();
        page.suffix(self.index).get(skip.checked_sub(page.prefix().len())?..)
    }

    /// Returns the record's value.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        self.pin.page().value(self.index)
    }
}

/// What a leaf shows of the records whose keys begin with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstWithPrefix {
    /// There are none.
    None,
    /// The place of the first one, which may be a delete.
    At(RecordPosition),
    /// None in this leaf, but the next one was not looked at.
    Beyond,
}

/// The place of a record, valid as long as its run's pages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    leaf: PagePtr,
    index: u32,
}

impl RecordPosition {
    /// Reads the record. It is on one page, which is most likely in the pool, because it was just read.
    ///
    /// Errors: those of reading the page.
    #[inline]
    pub fn leaf<'g>(self, pool: &'g Pool, guard: &'g mut EpochGuard<'_>) -> Result<Leaf<'g>> {
        Ok(Leaf { page: pool.read(guard, self.leaf)?, index: self.index as usize })
    }
}

impl Run {
    /// Returns the place of the record under `key`. Unlike [`Run::get`] it borrows nothing, so that runs can be asked
    /// in turn.
    #[inline]
    pub fn position(
        &self,
        pool: &Pool,
        guard: &mut EpochGuard<'_>,
        key: &[u8],
    ) -> Result<Option<RecordPosition>> {
        let Some((root, level)) = self.top() else { return Ok(None) };
        let (ptr, hint) = descend(pool, guard, root, level, key)?;
        let leaf = pool.read_hinted(guard, ptr, hint)?;
        expect_leaf(leaf.page(), ptr, self.deletes)?;
        let index = leaf.page().search(key).ok();
        Ok(index.map(|index| RecordPosition { leaf: ptr, index: index as u32 }))
    }

    /// Returns the place of the first record whose key begins with `prefix`, as far as the leaf shows it to which the
    /// prefix leads. Reads one page per level.
    ///
    /// Errors: as [`Run::get`].
    pub fn first_with_prefix(
        &self,
        pool: &Pool,
        guard: &mut EpochGuard<'_>,
        prefix: &[u8],
    ) -> Result<FirstWithPrefix> {
        let Some((mut ptr, level)) = self.top() else { return Ok(FirstWithPrefix::None) };
        let (mut hint, mut is_last) = (Hint::default(), true);
        for level in (1..=level).rev() {
            let inner = pool.read_hinted(guard, ptr, hint)?;
            expect_level(inner.page(), ptr, level)?;
            let at;
            (at, ptr, hint) = child_of(pool, &inner, prefix);
            is_last &= at + 1 == inner.page().count();
        }
        let leaf = pool.read_hinted(guard, ptr, hint)?;
        let page = leaf.page();
        expect_leaf(page, ptr, self.deletes)?;
        let (Ok(index) | Err(index)) = page.search(prefix);
        Ok(if index >= page.count() {
            if is_last { FirstWithPrefix::None } else { FirstWithPrefix::Beyond }
        } else if page.key_begins_with(index, prefix) {
            FirstWithPrefix::At(RecordPosition { leaf: ptr, index: index as u32 })
        } else {
            FirstWithPrefix::None
        })
    }

    /// Returns the record under `key`. Reads one page per level: at most [`Run::height`](Run) of them.
    ///
    /// Errors: those of reading a page, and [`ErrorKind::Corruption`](base::ErrorKind::Corruption) if a page does not
    /// have the level that its parent says.
    #[inline]
    pub fn get<'g>(
        &self,
        pool: &'g Pool,
        guard: &'g mut EpochGuard<'_>,
        key: &[u8],
    ) -> Result<Option<Leaf<'g>>> {
        match self.top() {
            Some((root, level)) => find(pool, guard, root, level, self.deletes, key),
            None => Ok(None),
        }
    }
}

/// Returns the record under `key` in the subtree at `root`, whose root has `level`. `deletes`: it may be a delete.
#[inline]
pub(crate) fn find<'g>(
    pool: &'g Pool,
    guard: &'g mut EpochGuard<'_>,
    root: PagePtr,
    level: u8,
    deletes: bool,
    key: &[u8],
) -> Result<Option<Leaf<'g>>> {
    let (ptr, hint) = descend(pool, guard, root, level, key)?;
    let leaf = pool.read_hinted(guard, ptr, hint)?;
    expect_leaf(leaf.page(), ptr, deletes)?;
    Ok(leaf.page().search(key).ok().map(|index| Leaf { page: leaf, index }))
}

/// Returns the only leaf that can have `key`, below the page of `level` at `ptr`, and the pool's hint for it.
#[inline]
pub(crate) fn descend<'p>(
    pool: &'p Pool,
    guard: &mut EpochGuard<'_>,
    mut ptr: PagePtr,
    level: u8,
    key: &[u8],
) -> Result<(PagePtr, Hint<'p>)> {
    let mut hint = Hint::default();
    for level in (1..=level).rev() {
        let inner = pool.read_hinted(guard, ptr, hint)?;
        expect_level(inner.page(), ptr, level)?;
        (_, ptr, hint) = child_of(pool, &inner, key);
    }
    Ok((ptr, hint))
}

/// Returns the only leaf that can have `key`, below the page of a level at a pointer, and the pool's hint for it;
/// `None` if a page on the path is not in memory, or is not valid.
#[inline]
pub(crate) fn foresee<'p>(
    pool: &'p Pool,
    guard: &mut EpochGuard<'_>,
    (mut ptr, level): (PagePtr, u8),
    key: &[u8],
) -> Option<(PagePtr, Hint<'p>)> {
    let mut hint = Hint::default();
    for level in (1..=level).rev() {
        let inner = pool.resident(guard, ptr, hint)?;
        expect_level(inner.page(), ptr, level).ok()?;
        (_, ptr, hint) = child_of(pool, &inner, key);
    }
    Some((ptr, hint))
}

/// Returns the only child of `inner` that can have `key`: its number, its place, and the pool's hint for it. Prefetches
/// the child.
#[inline]
pub(crate) fn child_of<'p>(pool: &'p Pool, inner: &PageRef<'_>, key: &[u8]) -> (usize, PagePtr, Hint<'p>) {
    let (page, hints) = (inner.page(), pool.hints(inner));
    let at = page.child_near(key, |guess| hints.near(guess));
    let hint = hints.of_child(at);
    (at, page.child(at), hint)
}
