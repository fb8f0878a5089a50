//! Building a run from records in ascending order, in one pass: pages are filled from left to right and then never
//! changed.
//!
//! 1. Every level has one page that is being filled, its *tail*, and a buffer of full ones. A record goes to the end of
//!    the leaves' tail; one that does not fit closes the tail, and begins the next.
//! 2. A full buffer is written: one extent, one write, in key order. Only now do its pages have a place and therefore a
//!    checksum. A pointer to each page, after its lowest key, is added to the tail one level up.
//! 3. A run can be continued: the tails are then its last pages.
//! 4. At the end the levels are closed from the leaves up, until one has a single page: the root.
//!
//! Leaves may be compressed ([`page::compressed`]) when they are closed, and are closed where that saves most: see
//! `compressing`.
//!
//! Separators are as short as possible, but whole keys in a filter's run. Every page but the last of each level is
//! full. Memory: the buffers, which take the requested size and an eighth of it for each level above the leaves. Large
//! values pass through, or are kept by reference.
//!
//! The builder compares the hashes of the records added with those of the records in the written leaves, as the editor
//! does: a difference is corruption, and the run is not returned.

use crate::allocate::Allocate;
use crate::compressing::Compressing;
use crate::descriptor::{MAX_HEIGHT, Run, expect_leaf, expect_level};
use crate::drop::saved_units;
use crate::large::{record_hash, value_bytes, write_large};
use crate::write_context::WriteContext;
use base::limits::{MAX_LOGGED_VALUE_BYTES, UNIT_BYTES, max_inline_bytes, max_key_bytes};
use base::sync::{Mutex, lock};
use base::{CheckpointNo, Error, ErrorKind, PagePtr, Result, TableId, background};
use page::{EditCounters, Kind, Page, PageMut, Value, compressed};
use pool::Pool;
use space::Space;

/// The most that is allocated and written at once: enough to make a disk's latency insignificant.
const MAX_BUFFER_BYTES: usize = 1 << 20;

/// Builds a [`Run`]. The [module](self) describes how.
///
/// ```
/// use base::{CheckpointNo, DatabaseId, budget::Account, slots::Slots};
/// use io::{Dir, MemDir};
/// use page::Value;
/// use pando_run::Builder;
/// use std::sync::{Arc, Mutex};
///
/// let (file, database, slots) = (MemDir::new().create("data")?, DatabaseId(7), Arc::new(Slots::new()));
/// let budget = Account::alone(1 << 24);
/// let pool = pool::Pool::new(file.clone(), database, 4096, budget, 1 << 24, slots.clone());
/// let space = Mutex::new(space::Space::create(file, database, 2));
/// let mut builder = Builder::new(&pool, &space, CheckpointNo(1), 1 << 20);
/// for n in 0..10_000u32 {
///     builder.add(&n.to_be_bytes(), Value::Inline(b"value"))?;
/// }
/// let run = builder.finish()?;
/// assert_eq!((run.records, run.height), (10_000, 2));
/// # Ok::<(), base::Error>(())
/// ```
pub struct Builder<'a, A> {
    pub(crate) pool: &'a Pool,
    space: A,
    birth: CheckpointNo,
    table: Option<TableId>,
    is_filter: bool,
    buffer_pages: usize,
    /// Compresses leaves, and decides where to close them. `None`: leaves are filled, and written uncompressed.
    compressing: Option<Box<Compressing>>,
    pub(crate) levels: Vec<Level>,
    /// The key of the first record; `None` if there is none yet, and if this continues a run.
    first: Option<Vec<u8>>,
    /// The key of the last record.
    last: Vec<u8>,
    pub(crate) run: Run,
    /// The hashes of the records added, less those of the leaves written.
    sum: u64,
    counters: EditCounters,
    scratch: Vec<u8>,
}

/// One level: its tail, and the full pages that wait to be written, each with the key that leads to it.
pub(crate) struct Level {
    tail: Vec<u8>,
    tail_low: Vec<u8>,
    full: Vec<u8>,
    lows: Vec<Vec<u8>>,
}

impl<'a> Builder<'a, &'a Mutex<Space>> {
    /// Creates a builder that continues `run`, with the last page of each level, whose old places are retired. New
    /// records must be after all records of the run, and are written as if they had been added before.
    ///
    /// Errors: those of reading pages.
    pub fn resume(run: Run, context: WriteContext<'a>, buffer_bytes: usize) -> Result<Self> {
        let mut builder = Builder::new(context.pool, context.space, context.birth, buffer_bytes);
        let Some((mut ptr, top)) = run.top() else { return Ok(builder) };
        let mut low = Vec::new();
        for level in (0..=top).rev() {
            let pin = context.pool.pin(context.reader, ptr)?;
            let page = pin.page();
            let mut tail = page.bytes().to_vec();
            let tail_low = std::mem::take(&mut low);
            lock(context.space).retire(ptr, context.birth)?;
            let last = page.count().saturating_sub(1);
            if level > 0 {
                expect_level(page, ptr, level)?;
                page.copy_key(last, &mut low);
                ptr = page.child(last);
                PageMut::edit(&mut tail).remove(last, &mut builder.counters);
            } else {
                expect_leaf(page, ptr, run.deletes)?;
                page.copy_key(last, &mut builder.last);
                builder.sum = page.record_sum(&mut builder.scratch);
            }
            PageMut::edit(&mut tail).set_birth(context.birth);
            builder.levels.insert(0, Level { tail, tail_low, full: Vec::new(), lows: Vec::new() });
        }
        let leaves = run.leaves.saturating_sub(1);
        let saved_units = run.saved_units.saturating_sub(saved_units(ptr, context.pool.page_bytes()));
        builder.run = Run { root: None, height: 0, leaves, saved_units, ..run };
        Ok(builder)
    }
}

impl<'a, A: Allocate> Builder<'a, A> {
    /// Creates a builder of pages born at `birth`. It writes at least `buffer_bytes` at a time if there are as many,
    /// and at most 1 MiB.
    pub fn new(pool: &'a Pool, space: A, birth: CheckpointNo, buffer_bytes: usize) -> Self {
        let buffer_pages = (buffer_bytes.min(MAX_BUFFER_BYTES) / pool.page_bytes()).max(1);
        Builder {
            pool,
            space,
            birth,
            table: None,
            is_filter: false,
            buffer_pages,
            compressing: None,
            levels: Vec::new(),
            first: None,
            last: Vec::new(),
            run: Run::EMPTY,
            sum: 0,
            counters: EditCounters::default(),
            scratch: Vec::new(),
        }
    }

    /// Marks the pages as `table`'s, like [`Editor::of_table`](crate::Editor::of_table).
    #[must_use]
    pub fn of_table(mut self, table: TableId) -> Self {
        self.table = Some(table);
        self
    }

    /// Makes separators whole keys: in a filter's run, keys between two records are looked up. Also keeps the leaves in
    /// memory if possible, because each get reads them.
    #[must_use]
    pub(crate) fn of_filter(mut self) -> Self {
        self.is_filter = true;
        self
    }

    /// Compresses leaves where that makes them shorter, and fills them only as far as it does. The buffer then holds
    /// half as many, because each is kept in both forms.
    #[must_use]
    pub fn compressing_leaves(mut self) -> Self {
        self.compressing = Some(Box::new(Compressing::new(self.pool.page_bytes())));
        self.buffer_pages = (self.buffer_pages / 2).max(1);
        self
    }

    /// Adds a record after all others. A large value stays in its place, and belongs to this run from now on. With the
    /// first [`Value::Deleted`] the run becomes one that [holds deletes](Run::deletes).
    ///
    /// Errors: [`ErrorKind::Invalid`] for a key that is not greater than the last one, or a key or value beyond the
    /// limits (nothing changes); those of allocating and of writing.
    pub fn add(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        self.check_key(key)?;
        if let Value::Inline(bytes) = value
            && bytes.len() > max_inline_bytes(self.pool.page_bytes())
        {
            return self.add_large(key, bytes);
        }
        self.append(key, value)
    }

    /// Returns how many records were added.
    pub fn records(&self) -> u64 {
        self.run.records
    }

    /// Returns the key of the first record; `None` if there is none yet, and if this continues a run.
    pub fn first_key(&self) -> Option<&[u8]> {
        self.first.as_deref()
    }

    /// Returns the key of the record added last.
    pub fn last_key(&self) -> Option<&[u8]> {
        (self.run.records > 0).then_some(&self.last)
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        let longest = max_key_bytes(self.pool.page_bytes());
        if key.len() > longest {
            let length = key.len();
            return Err(Error::invalid(format!(
                "a key of {length} bytes is too long: the limit is {longest} bytes"
            )));
        }
        if self.run.records > 0 && key <= &self.last[..] {
            let (key, last) = (key.escape_ascii(), self.last.escape_ascii());
            return Err(Error::invalid(format!(
                "keys are out of order: \"{key}\" does not come after \"{last}\""
            )));
        }
        Ok(())
    }

    #[cold]
    fn add_large(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if value.len() > MAX_LOGGED_VALUE_BYTES {
            let length = value.len();
            return Err(Error::invalid(format!(
                "a value of {length} bytes is too long: the limit here is {MAX_LOGGED_VALUE_BYTES} bytes"
            )));
        }
        let mut buffer = Vec::new();
        let large = write_large(self.pool, &mut self.space, value, &mut buffer)?;
        self.append(key, large)
    }

    fn append(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        if self.levels.is_empty() {
            self.push_level(Kind::Leaf);
            self.first = Some(key.to_vec());
        }
        if self.is_filled(key, value) || !self.append_to_tail(key, value) {
            self.begin_leaf(key, value)?;
        }
        self.sum = self.sum.wrapping_add(record_hash(key, value));
        self.run.records += 1;
        self.run.bytes += key.len() as u64 + value_bytes(value);
        self.run.deletes |= value == Value::Deleted;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Closes the leaf, and begins the next one with a record.
    fn begin_leaf(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        let mut separator = std::mem::take(&mut self.scratch);
        separator.clear();
        let common = self.last.iter().zip(key).take_while(|(a, b)| a == b).count();
        separator.extend_from_slice(if self.is_filter { key } else { &key[..=common] });
        let shared_len = Page::trusted(&self.levels[0].tail).shared_len();
        let begun = self.begin_page(0, &separator);
        self.scratch = separator;
        begun?;
        // The next keys mostly share as much as the last ones.
        let mut tail = PageMut::edit(&mut self.levels[0].tail);
        let put = tail.insert_first(key, value, shared_len, &mut self.counters);
        assert!(put.is_ok(), "an empty leaf has room for a record");
        Ok(())
    }

    /// Returns whether the leaf must be closed before this record although there may be room.
    #[inline]
    fn is_filled(&mut self, key: &[u8], value: Value<'_>) -> bool {
        let Some(compressing) = &self.compressing else { return false };
        let tail = PageMut::edit(&mut self.levels[0].tail);
        let tail = tail.as_page();
        let value_bytes = match value {
            Value::Inline(value) => value.len(),
            Value::Large(large) => large.bytes().len(),
            Value::Deleted => 0,
        };
        tail.count() > 0 && !compressing.has_room(tail.used_bytes() + key.len() + value_bytes)
    }

    #[inline]
    fn append_to_tail(&mut self, key: &[u8], value: Value<'_>) -> bool {
        let mut tail = PageMut::edit(&mut self.levels[0].tail);
        let at = tail.as_page().count();
        tail.insert(at, key, value, &mut self.counters).is_ok()
    }

    pub(crate) fn push_level(&mut self, kind: Kind) {
        let mut tail = vec![0; self.pool.page_bytes()];
        PageMut::init(&mut tail, kind, self.levels.len() as u8, self.birth);
        self.levels.push(Level { tail, tail_low: Vec::new(), full: Vec::new(), lows: Vec::new() });
    }

    /// Closes the tail of `level` and begins the next page, to which `low` leads.
    fn begin_page(&mut self, level: usize, low: &[u8]) -> Result<()> {
        self.close_tail(level, low);
        let buffered = if level == 0 { self.buffer_pages } else { (self.buffer_pages / 8).max(1) };
        if self.levels[level].lows.len() >= buffered { self.write_full(level) } else { Ok(()) }
    }

    /// Moves the tail to the full pages. The next tail is empty, and `low` leads to it.
    fn close_tail(&mut self, level: usize, low: &[u8]) {
        let birth = self.birth;
        let Level { tail, tail_low, full, lows } = &mut self.levels[level];
        let mut page = PageMut::edit(tail);
        if let Some(table) = self.table {
            page.set_table(table);
        }
        if let Some(compressing) = self.compressing.as_mut().filter(|_| level == 0) {
            compressing.close(&mut page);
        }
        full.extend_from_slice(tail);
        lows.push(std::mem::replace(tail_low, low.to_vec()));
        let kind = if level == 0 { Kind::Leaf } else { Kind::Inner };
        PageMut::init(tail, kind, level as u8, birth);
    }

    /// Writes the full pages of `level`, and adds pointers to them one level up.
    fn write_full(&mut self, level: usize) -> Result<()> {
        let lows = std::mem::take(&mut self.levels[level].lows);
        let mut written = 0;
        while written < lows.len() {
            let pointers = self.write_extent(level, written, lows.len() - written)?;
            for (low, ptr) in lows[written..].iter().zip(&pointers) {
                self.enter(level + 1, low, *ptr)?;
            }
            written += pointers.len();
        }
        self.levels[level].full.clear();
        if let Some(compressing) = self.compressing.as_mut().filter(|_| level == 0) {
            compressing.clear();
        }
        Ok(())
    }

    /// Writes as many of the `count` full pages of `level` from page `from` on as one extent holds. Returns their
    /// pointers.
    fn write_extent(&mut self, level: usize, from: usize, count: usize) -> Result<Vec<PagePtr>> {
        let page_bytes = self.pool.page_bytes();
        let page_units = (page_bytes / UNIT_BYTES) as u64;
        let units = match self.compressing.as_ref().filter(|_| level == 0) {
            Some(compressing) => (from..from + count).map(|at| compressing.units(at)).collect(),
            None => vec![page_units; count],
        };
        let (first_unit, count) = self.allocate_pages(&units)?;
        let mut full = std::mem::take(&mut self.levels[level].full);
        let pages = &mut full[from * page_bytes..][..count * page_bytes];
        let pointers = self.seal(level, from, pages, first_unit, &units);
        let bytes = match self.compressing.as_ref().filter(|_| level == 0) {
            Some(compressing) => compressing.stored_of(from, count),
            None => &*pages,
        };
        self.pool
            .file()
            .write_at(bytes, first_unit * UNIT_BYTES as u64)
            .map_err(|error| error.within("writing a run"))?;
        for (ptr, bytes) in pointers.iter().zip(pages.chunks_exact(page_bytes)) {
            if level > 0 || self.is_filter {
                self.pool.admit(*ptr, bytes);
            } else {
                self.pool.offer(*ptr, bytes);
            }
            if level == 0 {
                self.sum = self.sum.wrapping_sub(Page::trusted(bytes).record_sum(&mut self.scratch));
                self.run.leaves += 1;
                self.run.saved_units += saved_units(*ptr, page_bytes);
            }
            // The pool may need memory for frames that the kernel has to find first.
            background::pause();
        }
        self.levels[level].full = full;
        Ok(pointers)
    }

    /// Seals `pages`, the full ones of `level` from page `from` on, in the form in which they are written from
    /// `first_unit` on. Returns their pointers.
    fn seal(
        &mut self,
        level: usize,
        from: usize,
        pages: &mut [u8],
        first_unit: u64,
        units: &[u64],
    ) -> Vec<PagePtr> {
        let database = self.pool.database();
        let mut compressing = self.compressing.as_mut().filter(|_| level == 0);
        let mut unit = first_unit;
        let pages = pages.chunks_exact_mut(self.pool.page_bytes()).enumerate();
        let pointers = pages.zip(units).map(|((at, bytes), &units)| {
            let mut page = PageMut::edit(bytes);
            let checksum = match &mut compressing {
                None => page.seal(database, unit),
                Some(compressing) => {
                    let checksum = compressed::seal(compressing.stored_mut(from + at), database, unit);
                    page.set_checksum(checksum);
                    checksum
                }
            };
            let flags = if page.as_page().has_large() { PagePtr::HAS_LARGE } else { 0 };
            let ptr = PagePtr::new(unit, units, checksum).with_flags(flags);
            unit += units;
            ptr
        });
        pointers.collect()
    }

    /// Allocates contiguous space for pages that take these numbers of units, or for half as many pages, and so on, if
    /// space is short or scattered. Returns the first unit, and for how many pages there is space.
    fn allocate_pages(&mut self, units: &[u64]) -> Result<(u64, usize)> {
        let mut count = units.len();
        loop {
            match self.space.for_pages(units[..count].iter().sum()) {
                Ok(unit) => return Ok((unit, count)),
                Err(error) if error.kind() == ErrorKind::Full && count > 1 => count /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds a pointer at the end of `level`, which begins with it if the level is new.
    pub(crate) fn enter(&mut self, level: usize, low: &[u8], ptr: PagePtr) -> Result<()> {
        if level == MAX_HEIGHT {
            return Err(Error::new(
                ErrorKind::Full,
                format!("the table is full: its tree would need more than {MAX_HEIGHT} levels"),
            ));
        }
        if level == self.levels.len() {
            self.push_level(Kind::Inner);
        }
        if !self.enter_in_tail(level, low, ptr) {
            self.begin_page(level, low)?;
            assert!(self.enter_in_tail(level, low, ptr), "an empty inner page has room for a child");
        }
        Ok(())
    }

    fn enter_in_tail(&mut self, level: usize, low: &[u8], ptr: PagePtr) -> bool {
        let mut tail = PageMut::edit(&mut self.levels[level].tail);
        let at = tail.as_page().count();
        let key = if at == 0 { &[][..] } else { low };
        tail.insert_child(at, key, ptr, &mut self.counters).is_ok()
    }

    /// Writes the remaining pages, and returns the run. Nothing is synced.
    ///
    /// Errors: those of allocating and writing; [`ErrorKind::Corruption`] if the records written are not those that
    /// were added.
    pub fn finish(mut self) -> Result<Run> {
        let mut level = 0;
        while level < self.levels.len() {
            if PageMut::edit(&mut self.levels[level].tail).as_page().count() > 0 {
                self.close_tail(level, &[]);
            }
            if level + 1 == self.levels.len() && self.levels[level].lows.len() == 1 {
                self.run.root = self.write_extent(level, 0, 1)?.pop();
                self.run.height = level as u8 + 1;
                break;
            }
            self.write_full(level)?;
            level += 1;
        }
        if self.sum != 0 {
            return Err(Error::corruption(format!(
                "a run lost or invented records (their hashes differ by {:016x}); it was discarded",
                self.sum
            )));
        }
        Ok(self.run)
    }
}
