//! A walk over a tree from its root that skips damaged parts.

use super::report::Lost;
use super::start::Start;
use base::{CheckpointNo, DatabaseId, Error, LargeRef, PagePtr, Result, TableId, checksum};
use io::File;
use page::{Kind, Page, Value};
use pool::stored::{check_length, read_page};
use run::{Pieces, Run};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A walk over one table's tree.
pub struct Walk<'a> {
    data: Option<&'a dyn File>,
    start: &'a Start,
    table: TableId,
    /// The places of the pages that were read: a page with two parents is read once.
    seen: BTreeSet<u64>,
    /// The keys that could not be read, in order.
    pub lost: Vec<Lost>,
}

/// A function that takes a leaf's record.
pub type Visit<'v> = dyn FnMut(&[u8], Value<'_>) -> Result<()> + 'v;

/// The keys and the age that a page must have.
#[derive(Clone, Copy)]
struct Place<'k> {
    level: u8,
    low: &'k [u8],
    high: Option<&'k [u8]>,
    birth: CheckpointNo,
}

impl<'a> Walk<'a> {
    /// Creates a walk over the pages that should belong to `table`.
    pub fn new(data: Option<&'a dyn File>, start: &'a Start, table: TableId) -> Self {
        Walk { data, start, table, seen: BTreeSet::new(), lost: Vec::new() }
    }

    /// Passes on every record below the root of `run` that can be read, in key order.
    ///
    /// # Errors
    /// Those of `visit`. Damage goes to [`Walk::lost`].
    pub fn run(&mut self, run: &Run, visit: &mut Visit<'_>) -> Result<()> {
        let (Some(root), Some(superblock)) = (run.root, &self.start.superblock) else { return Ok(()) };
        let place =
            Place { level: run.height.saturating_sub(1), low: &[], high: None, birth: superblock.checkpoint };
        self.subtree(root, place, visit)
    }

    fn subtree(&mut self, ptr: PagePtr, place: Place<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        let page = match self.page(ptr, place, &mut bytes) {
            Ok(page) => page,
            Err(error) => {
                let (low, high) = (place.low.to_vec(), place.high.map(<[u8]>::to_vec));
                self.lost.push(Lost { low, high, why: error.to_string() });
                return Ok(());
            }
        };
        let mut key = Vec::new();
        if place.level == 0 {
            return (0..page.count()).try_for_each(|i| {
                page.copy_key(i, &mut key);
                visit(&key, page.value(i))
            });
        }
        let (mut low, mut high) = (place.low.to_vec(), Vec::new());
        for i in 0..page.count() {
            let is_last = i + 1 == page.count();
            if !is_last {
                page.copy_key(i + 1, &mut high);
            }
            let high_key = if is_last { place.high } else { Some(&high[..]) };
            let below = Place { level: place.level - 1, low: &low, high: high_key, birth: page.birth() };
            self.subtree(page.child(i), below, visit)?;
            std::mem::swap(&mut low, &mut high);
        }
        Ok(())
    }

    /// Reads the page at `ptr`, and checks it against everything that is known of it.
    fn page<'b>(&mut self, ptr: PagePtr, place: Place<'_>, bytes: &'b mut Vec<u8>) -> Result<Page<'b>> {
        let wrong = |what: &str| Error::corruption(format!("page at {ptr:?}: {what}"));
        let page_bytes = self.start.superblock.as_ref().map_or(0, |superblock| superblock.page_bytes);
        check_length(ptr, page_bytes)?;
        if !self.seen.insert(ptr.unit()) {
            return Err(wrong("two parents point to it"));
        }
        let data = self.data.ok_or_else(|| wrong("there is no data file"))?;
        bytes.resize(page_bytes, 0);
        let page = read_page(data, self.start.database, ptr, bytes)?;
        let kind = if place.level == 0 { Kind::Leaf } else { Kind::Inner };
        if page.level() != place.level || page.kind() != kind || page.count() == 0 {
            return Err(wrong("its level differs from what its parent states"));
        }
        if page.birth() > place.birth {
            return Err(wrong("it is newer than its parent"));
        }
        if page.table().is_some_and(|table| table != self.table) {
            return Err(wrong("it belongs to another table"));
        }
        let mut key = Vec::new();
        for i in [usize::from(kind == Kind::Inner), page.count() - 1] {
            if i < page.count() {
                page.copy_key(i, &mut key);
                let is_first_child = kind == Kind::Inner && i == 0;
                let fits = *place.low <= key[..] && place.high.is_none_or(|high| key[..] < *high);
                if !is_first_child && !fits {
                    return Err(wrong("its keys are outside the range that its parent states"));
                }
            }
        }
        Ok(page)
    }
}

/// A walk that returns one record after the other.
pub struct Steps<'a> {
    walk: Walk<'a>,
    way: Vec<Level>,
    key: Vec<u8>,
}

/// A page on the path, and what its parent states about it.
struct Level {
    bytes: Vec<u8>,
    next: usize,
    level: u8,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

impl<'a> Steps<'a> {
    /// Creates steps through `run`, before the first record.
    pub fn new(data: Option<&'a dyn File>, start: &'a Start, table: TableId, run: &Run) -> Self {
        let mut steps = Steps { walk: Walk::new(data, start, table), way: Vec::new(), key: Vec::new() };
        if let (Some(root), Some(superblock)) = (run.root, &start.superblock) {
            steps.enter(root, run.height.saturating_sub(1), Vec::new(), None, superblock.checkpoint);
        }
        steps
    }

    /// Moves to the next record that can be read. Returns false after the last.
    pub fn advance(&mut self) -> bool {
        while let Some(top) = self.way.last_mut() {
            let page = Page::trusted(&top.bytes);
            if top.next == page.count() {
                self.way.pop();
                continue;
            }
            let at = top.next;
            top.next += 1;
            if top.level == 0 {
                page.copy_key(at, &mut self.key);
                return true;
            }
            let key = |at: usize| {
                let mut key = Vec::new();
                page.copy_key(at, &mut key);
                key
            };
            let low = if at == 0 { top.low.clone() } else { key(at) };
            let high = if at + 1 < page.count() { Some(key(at + 1)) } else { top.high.clone() };
            let (child, level, birth) = (page.child(at), top.level - 1, page.birth());
            self.enter(child, level, low, high, birth);
        }
        false
    }

    /// Returns the current record.
    pub fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        let top = self.way.last()?;
        Some((&self.key, Page::trusted(&top.bytes).value(top.next.checked_sub(1)?)))
    }

    /// Returns what could not be read so far.
    pub fn lost(&self) -> &[Lost] {
        &self.walk.lost
    }

    /// Returns the ranges of keys that are lost.
    pub fn into_lost(self) -> Vec<Lost> {
        self.walk.lost
    }

    fn enter(&mut self, ptr: PagePtr, level: u8, low: Vec<u8>, high: Option<Vec<u8>>, birth: CheckpointNo) {
        let mut bytes = Vec::new();
        let place = Place { level, low: &low, high: high.as_deref(), birth };
        match self.walk.page(ptr, place, &mut bytes) {
            Ok(_) => self.way.push(Level { bytes, next: 0, level, low, high }),
            Err(error) => self.walk.lost.push(Lost { low, high, why: error.to_string() }),
        }
    }
}

/// A reader of values.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    /// The data file, if there is one.
    pub data: Option<&'a dyn File>,
    /// The database that the file belongs to.
    pub database: DatabaseId,
}

impl Values<'_> {
    /// Returns the value itself, wherever it is stored, verified to the last byte and completely in memory.
    pub fn read<'v>(&self, value: Value<'v>) -> Result<Cow<'v, [u8]>> {
        match value {
            Value::Inline(value) => Ok(Cow::Borrowed(value)),
            Value::Large(large) => self.read_large(large.reference()).map(Cow::Owned),
            Value::Deleted => Err(Error::corruption("a B+tree contains a delete")),
        }
    }

    fn read_large(&self, large: LargeRef) -> Result<Vec<u8>> {
        let data = self.data.ok_or_else(|| Error::corruption("there is no data file"))?;
        let pieces = Pieces::find(data, self.database, large)?;
        let mut bytes = Vec::new();
        let indexes = pieces.extents().count() - pieces.count();
        for (ptr, len) in pieces.parts().skip(indexes) {
            let at = bytes.len();
            run::add_piece(&mut bytes, len as usize, large.len_bytes)?;
            data.read_exact_at(&mut bytes[at..], ptr.offset_bytes())?;
            let found = checksum::extent(self.database, ptr.unit(), &bytes[at..]);
            if found != ptr.checksum() {
                let message = format!("large value at {ptr:?}: its checksum is {found:016x}");
                return Err(Error::corruption(message));
            }
        }
        Ok(bytes)
    }
}
