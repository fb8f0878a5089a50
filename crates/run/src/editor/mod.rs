//! The one writer of a run.
//!
//! An editor turns one run into the next. It changes no page that the old run reaches:
//!
//! 1. *Shadow.* On the way down to a key, a page that is not yet the editor's own is copied from the pool into the
//!    `arena`, and its old address is retired. The parent's pointer then has [`PagePtr::IN_MEMORY`] and the page's
//!    arena index instead of a unit: the next descent follows it without a look-up.
//! 2. *Edit in place.* Insert, replace, remove, split, merge and borrow work on the arena's bytes through the page's
//!    own allocator. `split` makes room from the leaf upwards and then starts the descent again; `rebalance` repairs
//!    pages below a quarter full; `range` removes whole subtrees, without reading them where possible; `relocate`
//!    shadows pages that lie high in the file, only to have them written lower.
//! 3. *Write back* (`write_back`), when dirty pages exceed their limit and at the end: neighbours that are half empty
//!    are packed together (`pack`), then leaves are written in key order, then the levels above, in extents of many
//!    pages. Parents then point to the disk again. A page that is written and then edited again is shadowed again, and
//!    its first address is free at once, because no checkpoint ever named it.
//!
//! # Invariants
//! * Every ancestor of a dirty page is dirty.
//! * `self.path`, while valid, names dirty pages from the root to a leaf.
//! * `self.dirty_sum` is the wrapping sum of the hashes of the records in dirty leaves: those that were shadowed, plus
//!   those that edits added, less those that edits removed or that were written out. It is 0 once no page is dirty; any
//!   other value means that a page operation lost or invented a record, and the run is not returned.
//!
//! After any error the editor and what it wrote must be discarded (drop it, then [`space::Space::revert`]).

mod arena;
mod path;
mod descend;
mod pack;
mod range;
mod rebalance;
mod relocate;
mod split;
mod write_back;

use crate::descriptor::{MAX_CONTENT, Run};
use crate::get::find;
use crate::large::{adopt_large, read_large, record_hash, retire_large, value_bytes, write_large};
use arena::Arena;
use base::limits::{MAX_LOGGED_VALUE_BYTES, max_inline_bytes, max_key_bytes};
use base::slots::Reader;
use base::sync::Mutex;
use base::{CheckpointNo, Error, PagePtr, Result, TableId};
use page::{Compressor, EditCounters, LargeRef, NoRoom, Value};
use path::Path;
use pool::Pool;
pub use relocate::Relocation;
use space::Space;
use std::collections::HashSet;

/// The number of pages below which the dirty limit has no effect: a path and the siblings that a repair touches fit.
const MIN_DIRTY_PAGES: usize = 16;
/// The number of pages that one edit may make dirty beyond the limit: a path, the pages of splits, and a sibling a
/// level.
const EDIT_PAGES: usize = 12;
/// The number of pages that are written at once with the least memory.
const LEAST_EXTENT_PAGES: usize = 4;

/// Turns a run into the next one. The [module](self) describes how.
///
/// ```
/// use base::{CheckpointNo, DatabaseId, budget::Account, slots::{Reader, Slots}};
/// use io::{Dir, MemDir};
/// use pando_run::{Cursor, Editor, Run};
/// use std::sync::{Arc, Mutex};
///
/// let (file, database, slots) = (MemDir::new().create("data")?, DatabaseId(7), Arc::new(Slots::new()));
/// let budget = Account::alone(1 << 24);
/// let pool = pool::Pool::new(file.clone(), database, 4096, budget, 1 << 24, slots.clone());
/// let space = Mutex::new(space::Space::create(file, database, 2));
/// let reader = slots.claim().unwrap();
///
/// let mut editor = Editor::open(Run::EMPTY, &pool, &reader, &space, CheckpointNo(1), 1 << 20);
/// editor.put(b"ash", b"grey")?;
/// editor.put(b"aspen", b"white")?;
/// let (run, _) = editor.finish()?;
///
/// let mut cursor = Cursor::new(run);
/// assert!(cursor.seek(&pool, &reader, b"asp")?);
/// assert_eq!(cursor.entry().unwrap().0, b"aspen");
/// # Ok::<(), base::Error>(())
/// ```
pub struct Editor<'a> {
    pool: &'a Pool,
    reader: &'a Reader,
    /// The space map. It is locked for each allocation and each retired address, never across them, so that others can
    /// allocate meanwhile.
    space: &'a Mutex<Space>,
    birth: CheckpointNo,
    table: Option<TableId>,
    dirty_limit_pages: usize,
    root: Option<PagePtr>,
    height: u8,
    records: u64,
    bytes: u64,
    leaves: u64,
    /// The [`Run::saved_units`] of the leaves that are not dirty.
    saved_units: u64,
    deletes: bool,
    packs: bool,
    /// Compresses leaves when they are written, if they are to be compressed.
    compressor: Option<Box<Compressor>>,
    arena: Arena,
    path: Path,
    dirty_sum: u64,
    /// The units of the pages that this editor wrote and has not shadowed since. Only the editor knows these addresses.
    written: HashSet<u64>,
    counters: EditCounters,
    /// A buffer for separators and whole keys; empty between calls, kept for its capacity.
    scratch: Vec<u8>,
}

/// A value to be stored.
#[derive(Clone, Copy)]
enum New<'v> {
    Bytes(&'v [u8]),
    /// The value already lies in the data file.
    Placed(Value<'v>),
}

/// What [`Editor::write`] does with an existing record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Replace,
    Keep,
}

impl<'a> Editor<'a> {
    /// Creates an editor that starts from `run` and writes pages born at checkpoint `birth`, which must be later than
    /// every published checkpoint. Dirty pages and the buffer from which they are written take `memory_bytes` at most,
    /// or [`Editor::least_bytes`] if that is more. Costs nothing until the first edit.
    pub fn open(
        run: Run,
        pool: &'a Pool,
        reader: &'a Reader,
        space: &'a Mutex<Space>,
        birth: CheckpointNo,
        memory_bytes: usize,
    ) -> Editor<'a> {
        let page_bytes = pool.page_bytes();
        let pages = (memory_bytes / page_bytes).saturating_sub(EDIT_PAGES);
        let dirty_limit_pages = (pages / 5 * 4).max(MIN_DIRTY_PAGES);
        Editor {
            pool,
            reader,
            space,
            birth,
            table: None,
            dirty_limit_pages,
            root: run.root,
            height: run.height,
            records: run.records,
            bytes: run.bytes,
            leaves: run.leaves,
            saved_units: run.saved_units,
            deletes: run.deletes,
            packs: true,
            compressor: None,
            arena: Arena::new(page_bytes, dirty_limit_pages),
            path: Path::default(),
            dirty_sum: 0,
            written: HashSet::new(),
            counters: EditCounters::default(),
            scratch: Vec::new(),
        }
    }

    /// Marks the pages as `table`'s, for salvage, which may find them without their parents. Call it only if the
    /// records are committed.
    #[must_use]
    pub fn of_table(mut self, table: TableId) -> Self {
        self.table = Some(table);
        self
    }

    /// Keeps the records of each page together, for a run that is only moved: a filter, whose separators have more
    /// information than an editor's would (see [`filter`](crate::filter)).
    #[must_use]
    pub fn moving_only(mut self) -> Self {
        self.packs = false;
        self
    }

    /// Writes leaves in their compressed form ([`page::compressed`]) where that is shorter. Rows of leaves are then not
    /// joined, because half a leaf takes half the units.
    #[must_use]
    pub fn compressing_leaves(mut self) -> Self {
        self.packs = false;
        self.compressor = Some(Box::default());
        self
    }

    /// Returns the memory in bytes that an editor takes whatever its limit: dirty pages, and the buffer from which they
    /// are written.
    pub fn least_bytes(page_bytes: usize) -> usize {
        (MIN_DIRTY_PAGES + EDIT_PAGES + LEAST_EXTENT_PAGES) * page_bytes
    }

    /// Stores `value` under `key`. Returns true if it replaced a record.
    ///
    /// Errors: [`ErrorKind::Invalid`](base::ErrorKind::Invalid) for a key or value beyond the limits (nothing
    /// changes); those of reading pages, of allocating space and of writing.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_value(value)?;
        self.write(key, New::Bytes(value), Existing::Replace)
    }

    /// Stores a value that was already written to the data file for the log. Returns true if it replaced a record. The
    /// extents belong to the checkpoint from now on; of the value only its first piece is read, for its beginning.
    ///
    /// Errors: as [`Editor::put`], and those of [`Pieces::open`](crate::Pieces::open).
    pub fn put_large(&mut self, key: &[u8], large: LargeRef) -> Result<bool> {
        let mut buffer = Vec::new();
        let placed = adopt_large(self.pool, self.space, large, &mut buffer)?;
        self.write(key, New::Placed(placed), Existing::Replace)
    }

    /// Retires a value that was written to the data file for the log, and that no record holds.
    pub fn retire_large(&mut self, large: LargeRef) -> Result<()> {
        retire_large(self.pool, self.space, large, self.birth)
    }

    /// Stores `value` under `key` unless there is a record. Returns false if there is one. Errors as [`Editor::put`].
    #[inline]
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_value(value)?;
        Ok(!self.write(key, New::Bytes(value), Existing::Keep)?)
    }

    /// Applies what a run of newer records says about `key`: its value (a large one by reference, which this run then
    /// owns), or a delete. Errors as [`Editor::put`].
    pub fn take(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        match value {
            Value::Inline(value) => self.put(key, value).map(drop),
            Value::Deleted => self.remove(key).map(drop),
            Value::Large(..) => {
                self.check_key(key)?;
                self.write_back_beyond_limit()?;
                let leaf = self.descend(key, None)?.expect("without a probe every descent ends in a leaf");
                match self.arena.page(leaf).search_counted(key, &mut self.counters) {
                    Ok(at) => self.overwrite(leaf, at, key, value),
                    Err(at) => self.add(leaf, at, key, value),
                }
            }
        }
    }

    /// Returns a copy of the value under `key`.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some((mut ptr, mut level)) = self.top() else { return Ok(None) };
        while let Some(node) = arena::node_of(ptr) {
            let page = self.arena.page(node);
            if level == 0 {
                return page.search(key).map_or(Ok(None), |at| self.copy_value(page.value(at)));
            }
            ptr = page.child(page.child_for(key));
            level -= 1;
        }
        let mut guard = self.reader.enter();
        let large = match find(self.pool, &mut guard, ptr, level, self.deletes, key)? {
            None => return Ok(None),
            Some(leaf) => match leaf.value() {
                Value::Inline(bytes) => return Ok(Some(bytes.to_vec())),
                Value::Large(large) => large.reference(),
                Value::Deleted => return Ok(None),
            },
        };
        drop(guard);
        read_large(self.pool, large).map(Some)
    }

    /// Removes the record under `key`. Returns false if there was none. Errors as [`Editor::put`].
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.write_back_beyond_limit()?;
        if self.root.is_none() {
            return Ok(false);
        }
        let Some(leaf) = self.descend(key, Some(true))? else { return Ok(false) };
        let Ok(at) = self.arena.page(leaf).search_counted(key, &mut self.counters) else { return Ok(false) };
        self.forget_record(leaf, at, key)?;
        self.arena.page_mut(leaf).remove(at, &mut self.counters);
        if self.is_underfull(leaf) {
            self.repair_path()?;
        }
        Ok(true)
    }

    /// Writes back all dirty pages, in key order, and returns the new run. Nothing is synced.
    ///
    /// Errors: those of allocating and writing; [`ErrorKind::Corruption`](base::ErrorKind::Corruption) "merge lost or
    /// invented records" if the records written are not those that were read, added and removed.
    pub fn finish(mut self) -> Result<(Run, EditCounters)> {
        self.write_back(None)?;
        if self.dirty_sum != 0 {
            return Err(Error::corruption(format!(
                "a merge lost or invented records (their hashes differ by {:016x}); its result was discarded",
                self.dirty_sum
            )));
        }
        let Editor { root, height, records, bytes, leaves, saved_units, deletes, .. } = self;
        let deletes = deletes && root.is_some();
        // Only counts that were forged before reach the limit.
        let (records, bytes) = (records.min(MAX_CONTENT), bytes.min(MAX_CONTENT));
        let run = Run { root, height, records, bytes, leaves, saved_units, deletes };
        Ok((run, self.counters))
    }

    /// Returns the costs of the edits so far.
    pub fn counters(&self) -> EditCounters {
        self.counters
    }

    /// Returns the memory that dirty pages take.
    pub fn dirty_bytes(&self) -> usize {
        self.arena.live() * self.pool.page_bytes()
    }

    fn top(&self) -> Option<(PagePtr, u8)> {
        Run { root: self.root, height: self.height, ..Run::EMPTY }.top()
    }

    fn copy_value(&self, value: Value<'_>) -> Result<Option<Vec<u8>>> {
        match value {
            Value::Inline(bytes) => Ok(Some(bytes.to_vec())),
            Value::Large(large) => read_large(self.pool, large.reference()).map(Some),
            Value::Deleted => Ok(None),
        }
    }

    /// Returns whether there was a record under `key`.
    #[inline]
    fn write(&mut self, key: &[u8], value: New<'_>, existing: Existing) -> Result<bool> {
        self.check_key(key)?;
        self.write_back_beyond_limit()?;
        let (leaf, place) = match self.finger(key) {
            Some((leaf, end)) => (leaf, Err(end)),
            None => {
                let absent = (existing == Existing::Keep).then_some(false);
                let Some(leaf) = self.descend(key, absent)? else { return Ok(true) };
                (leaf, self.arena.page(leaf).search_counted(key, &mut self.counters))
            }
        };
        let mut buffer = Vec::new();
        match place {
            Ok(_) if existing == Existing::Keep => Ok(true),
            Ok(at) => {
                let value = self.place_value(value, &mut buffer)?;
                self.overwrite(leaf, at, key, value)?;
                Ok(true)
            }
            Err(at) => {
                let value = self.place_value(value, &mut buffer)?;
                self.add(leaf, at, key, value)?;
                Ok(false)
            }
        }
    }

    #[inline]
    fn check_key(&self, key: &[u8]) -> Result<()> {
        let longest = max_key_bytes(self.pool.page_bytes());
        if key.len() <= longest {
            return Ok(());
        }
        Err(Error::invalid(format!("a key of {} bytes is too long: the limit is {longest} bytes", key.len())))
    }

    #[inline]
    fn check_value(&self, value: &[u8]) -> Result<()> {
        if value.len() <= MAX_LOGGED_VALUE_BYTES {
            return Ok(());
        }
        let length = value.len();
        Err(Error::invalid(format!(
            "a value of {length} bytes is too long: the limit here is {MAX_LOGGED_VALUE_BYTES} bytes"
        )))
    }

    /// Returns the value in the form of a leaf: the value itself, or in `buffer` a reference to the extent to which it
    /// was just written.
    #[inline]
    fn place_value<'v>(&self, value: New<'v>, buffer: &'v mut Vec<u8>) -> Result<Value<'v>> {
        match value {
            New::Bytes(value) if value.len() <= max_inline_bytes(self.pool.page_bytes()) => {
                Ok(Value::Inline(value))
            }
            New::Bytes(value) => write_large(self.pool, &mut { self.space }, value, buffer),
            New::Placed(value) => Ok(value),
        }
    }

    /// Inserts a new record: at `at` of `leaf` if it fits, else after splitting.
    #[inline]
    fn add(&mut self, mut leaf: u32, mut at: usize, key: &[u8], value: Value<'_>) -> Result<()> {
        while let Err(NoRoom) = self.arena.page_mut(leaf).insert(at, key, value, &mut self.counters) {
            self.split_leaf(at, key)?;
            leaf = self.descend(key, None)?.expect("without a probe every descent ends in a leaf");
            at = self.arena.page(leaf).search(key).expect_err("the key is being added");
        }
        self.path.inserted_at(at);
        self.dirty_sum = self.dirty_sum.wrapping_add(record_hash(key, value));
        self.records += 1;
        self.bytes += key.len() as u64 + value_bytes(value);
        Ok(())
    }

    fn overwrite(&mut self, leaf: u32, at: usize, key: &[u8], value: Value<'_>) -> Result<()> {
        self.forget_record(leaf, at, key)?;
        if self.arena.page_mut(leaf).replace(at, value, &mut self.counters).is_ok() {
            self.dirty_sum = self.dirty_sum.wrapping_add(record_hash(key, value));
            self.records += 1;
            self.bytes += key.len() as u64 + value_bytes(value);
            return Ok(());
        }
        self.arena.page_mut(leaf).remove(at, &mut self.counters);
        self.add(leaf, at, key, value)
    }

    /// Subtracts record `at` of `leaf` from the totals: it is about to be removed or replaced.
    fn forget_record(&mut self, leaf: u32, at: usize, key: &[u8]) -> Result<()> {
        let value = self.arena.page(leaf).value(at);
        self.dirty_sum = self.dirty_sum.wrapping_sub(record_hash(key, value));
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(key.len() as u64 + value_bytes(value));
        match value {
            Value::Inline(_) | Value::Deleted => Ok(()),
            Value::Large(large) => retire_large(self.pool, self.space, large.reference(), self.birth),
        }
    }

    #[inline]
    fn write_back_beyond_limit(&mut self) -> Result<()> {
        if self.arena.live() <= self.dirty_limit_pages {
            return Ok(());
        }
        let current = self.path.leaf(self.height);
        self.write_back(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::budget::Account;
    use base::slots::Slots;
    use base::{DatabaseId, ErrorKind};
    use io::{Dir, MemDir};
    use std::sync::Arc;

    /// Edits a run, lets `tamper` change a leaf without the editor's knowledge, and returns how the session ended.
    fn finish_after(tamper: impl FnOnce(&mut Editor<'_>, u32)) -> Result<Run> {
        let file = MemDir::new().create("data").unwrap();
        let slots = Arc::new(Slots::new());
        let reader = slots.claim().unwrap();
        let budget = Account::alone(1 << 24);
        let pool = Pool::new(file.clone(), DatabaseId(1), 4096, budget, 1 << 24, slots.clone());
        let space = Mutex::new(Space::create(file, DatabaseId(1), 2));
        let mut first = Editor::open(Run::EMPTY, &pool, &reader, &space, CheckpointNo(1), 0);
        for n in 0..5_000u32 {
            first.put(&n.to_be_bytes(), &[1; 20])?;
        }
        let (run, _) = first.finish()?;
        let mut editor = Editor::open(run, &pool, &reader, &space, CheckpointNo(2), 0);
        for n in (0..5_000u32).step_by(3) {
            editor.put(&n.to_be_bytes(), &[2; 30])?;
            editor.remove(&(n + 1).to_be_bytes())?;
        }
        let leaf = editor.descend(&7u32.to_be_bytes(), None)?.expect("a leaf");
        tamper(&mut editor, leaf);
        editor.finish().map(|(run, _)| run)
    }

    #[test]
    fn a_lost_an_invented_and_a_changed_record_stop_the_merge() {
        assert_eq!(finish_after(|_, _| {}).unwrap().records, 5_000 - 1_667);
        let counters = &mut EditCounters::default();
        let mut failures = vec![
            finish_after(|editor, leaf| editor.arena.page_mut(leaf).remove(1, counters)),
            finish_after(|editor, leaf| {
                let key = 1u32.to_be_bytes();
                editor
                    .arena
                    .page_mut(leaf)
                    .insert(1, &key, Value::Inline(b""), &mut EditCounters::default())
                    .unwrap();
            }),
        ];
        failures.push(finish_after(|editor, leaf| {
            let value = Value::Inline(&[3; 30]);
            editor.arena.page_mut(leaf).replace(0, value, &mut EditCounters::default()).unwrap();
        }));
        for failure in failures {
            let error = failure.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.message().contains("lost or invented records"), "{error}");
        }
    }
}
