//! Records in order: a cursor over a span of keys.

use crate::read::handle::{Admitted, Table};
use crate::read::kept_span::Kept;
use crate::read::located::Located;
use crate::read::merge::layers::MemtableLayer;
use crate::read::merge::{DeltaLayer, Merged, RunLayer, Upper};
use crate::read::recorder::ReadRecorder;
use crate::read::resolve::{Source, sources};
use crate::read::shortcut::{Shortcut, Written};
use crate::read::snapshot::Snapshot;
use crate::read::value_reader::ValueReader;
use crate::state::catalog::TableRow;
use crate::state::paid_reads::PaidReads;
use crate::state::stretches;
use crate::state::ttl::Reading;
use crate::uncommitted::spill::Spills;
use crate::uncommitted::write_set::WriteSet;
use base::slots::{Reader, Suspended};
use base::{CommitTs, Error, PagePtr, Result, Span, TableId, Value};
use memtable::Memtable;
use std::fmt;
use std::ops::Bound;

mod bounds;
mod lent_run;
mod unread;

pub use lent_run::LentRun;

/// The place of a cursor in its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The cursor has not moved yet: `next` goes to the first record, `prev` to the last.
    Fresh,
    On,
    BeforeFirst,
    AfterLast,
}

/// The number of moves of a cursor, counted when it is closed.
struct Steps<'a> {
    reader: &'a Reader,
    table: TableId,
    taken: u64,
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        self.reader.count_scan(self.table, self.taken);
    }
}

/// A cursor over the records of a [`Span`], in either direction. It lends records without copies, until it moves.
///
/// A cursor can also stand before the first record and after the last one. A step past an end returns `None`, and a
/// step back returns the record at that end again.
///
/// While a cursor is open, what its snapshot sees is not freed. If the snapshot expires, the cursor cannot move any
/// more.
#[must_use = "a cursor reads records only as it moves"]
pub struct Cursor<'a> {
    merged: Merged<Upper<'a>, RunLayer<'a>, Shortcut<'a>>,
    snapshot: &'a Snapshot,
    /// How values are read. `merged` skips expired ones.
    reading: Reading,
    /// The transaction's own writes, and their table.
    own: Option<(&'a WriteSet, TableId)>,
    span: Kept,
    place: Place,
    recorder: Option<ReadRecorder<'a>>,
    /// Whether the cursor is neither tracked nor dated, so that a certain step needs nothing else.
    can_step_in_leaf: bool,
    /// The current value, if it is outside the pages and was read.
    large: Option<Vec<u8>>,
    steps: Steps<'a>,
    /// The call that keeps the view that `merged` reads. It is the last field, so that it is dropped after all others.
    _call: Suspended<'a>,
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("span", &*self.span)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// Returns the first key of a span, unless the span begins with the table.
fn start_of(span: &Span) -> Option<&[u8]> {
    Some(span.start()).filter(|start| !start.is_empty())
}

/// A borrowed record.
type Lent<'c> = Option<(&'c [u8], &'c [u8])>;

impl Snapshot {
    /// Returns a cursor over the keys in `span`.
    pub fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        let reading = table.check(self)?;
        Cursor::over_snapshot(self, table.id(), reading, span)
    }

    /// Returns all tables, ordered by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        let mut tables = Vec::new();
        let mut cursor = Cursor::over_snapshot(self, TableId::CATALOG, Reading::Plain, Span::all())?;
        while let Some((name, row)) = cursor.next()? {
            let row = TableRow::decode(name, row)?;
            let name =
                std::str::from_utf8(name).map_err(|_| Error::corruption("a table's name is not UTF-8"))?;
            tables.push(Table::committed(self, name, row));
        }
        Ok(tables)
    }
}

impl<'a> Cursor<'a> {
    pub(crate) fn over_snapshot(
        snapshot: &'a Snapshot,
        table: TableId,
        reading: Reading,
        span: Span,
    ) -> Result<Self> {
        let none = (Vec::new(), Written::Nothing);
        Self::new(snapshot, snapshot.ts(), none, (None, snapshot.known()), table, reading, span)
    }

    pub(crate) fn over_transaction(
        snapshot: &'a Snapshot,
        writes: &'a WriteSet,
        spills: Option<&Spills>,
        reads: Option<&'a PaidReads>,
        Admitted { id: table, reading, .. }: Admitted,
        span: Span,
    ) -> Result<Self> {
        writes.sort(table);
        let store = snapshot.store();
        let recorder = reads.map(|reads| ReadRecorder::new(reads, store, table));
        let mut own: Vec<Upper<'a>> = writes.cursor(table).map(Upper::from).into_iter().collect();
        let (pool, reader) = (&snapshot.store().pool, snapshot.reader());
        let spilled = spills.into_iter().flat_map(|spills| spills.deltas_from(table, span.start()));
        let written = if own.is_empty() { Written::Nothing } else { Written::InMemory(writes) };
        let in_memory = own.len();
        own.extend(spilled.map(|spilled| DeltaLayer::new(&spilled.delta, pool, reader).into()));
        let written = if own.len() > in_memory { Written::Spilled } else { written };
        let known = (recorder, writes.known());
        let mut cursor = Self::new(snapshot, snapshot.ts(), (own, written), known, table, reading, span)?;
        cursor.own = Some((writes, table));
        Ok(cursor)
    }

    /// Creates a cursor. Layers that have nothing of the table are left out: a table that is only in its run costs what
    /// the run costs. Of memtables it sees what was committed until `at`, the snapshot's time or later.
    fn new(
        snapshot: &'a Snapshot,
        at: CommitTs,
        (mut uppers, written): (Vec<Upper<'a>>, Written<'a>),
        (recorder, known): (Option<ReadRecorder<'a>>, &'a stretches::Own),
        table: TableId,
        reading: Reading,
        span: Span,
    ) -> Result<Self> {
        // SAFETY: the view is lent to `merged` alone, whose records are lent for the length of a borrow of this
        // cursor, and the cursor keeps the call longer than anything else.
        let (view, call) = unsafe { snapshot.keep_view()? };
        let (pool, reader) = (&snapshot.store().pool, snapshot.reader());
        let has_table = |memtable: &&Memtable| memtable.newest(table).0 > 0;
        let in_memory = view.memtables().filter(has_table).count();
        let span = Kept::new(span, in_memory > 0);
        let own = uppers.len();
        let (above, lowest) = view.tables.layers(table);
        uppers.reserve_exact(in_memory + above.len());
        for Source { memtable, attached } in sources(&view.open, &view.sealed, table, snapshot.ts()) {
            if has_table(&memtable) {
                uppers.push(MemtableLayer::new(memtable, table, at, span.shared()).into());
            }
            uppers.extend(attached.iter().map(|delta| Upper::from(DeltaLayer::new(delta, pool, reader))));
        }
        uppers.extend(above.iter().map(|entry| Upper::from(DeltaLayer::new(&entry.delta, pool, reader))));
        let lower = RunLayer::new(lowest, pool, reader);
        let shortcut = Shortcut::new(snapshot, view, (table, reading), known, written);
        let merged = Merged::new(uppers, own, lower, shortcut);
        let can_step_in_leaf = recorder.is_none() && !reading.is_dated();
        Ok(Cursor {
            merged,
            snapshot,
            reading,
            own: None,
            span,
            place: Place::Fresh,
            recorder,
            can_step_in_leaf,
            large: None,
            steps: Steps { reader, table, taken: 0 },
            _call: call,
        })
    }

    /// Returns the span for which the cursor was opened.
    pub fn span(&self) -> &Span {
        &self.span
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        if self.place == Place::On { self.merged.entry() } else { None }
    }

    /// Returns the current record, or `None` before the first move, before the first record and after the last. It also
    /// returns `None` if [`Cursor::advance`] or [`Cursor::retreat`] moved to a value outside the pages, until
    /// [`Cursor::value`] has read the value.
    pub fn current(&self) -> Lent<'_> {
        let (key, item) = self.entry()?;
        match item {
            Value::Inline(stored) => Some((key, self.reading.value(stored).ok()??)),
            Value::Large(..) | Value::Deleted => Some((key, self.large.as_deref()?)),
        }
    }

    /// Returns the key of the current record, or `None` if the cursor is on no record.
    pub fn key(&self) -> Option<&[u8]> {
        self.entry().map(|(key, _)| key)
    }

    /// Returns the length of the current value in bytes without reading it.
    pub fn value_len(&self) -> Option<u64> {
        match self.entry()?.1 {
            Value::Inline(stored) => {
                Some((stored.len() - self.reading.front_bytes().min(stored.len())) as u64)
            }
            Value::Large(large) => {
                Some(large.reference().len_bytes.saturating_sub(self.reading.front_bytes() as u64))
            }
            Value::Deleted => None,
        }
    }

    /// Returns the current value. If the value is outside the pages and was not read yet, the call reads all of it.
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        if let (None, Some((_, Value::Large(large)))) = (&self.large, self.entry()) {
            self.snapshot.check_held()?;
            self.large = Some(self.reading.whole(self.snapshot.store().read_large(large.reference())?));
        }
        Ok(self.current().map(|(_, value)| value))
    }

    /// Returns a reader of the current value, for values that should not be in memory completely.
    pub fn value_reader(&self) -> Result<Option<ValueReader>> {
        let Some((key, item)) = self.entry() else { return Ok(None) };
        let (located, own) = match item {
            Value::Inline(stored) => match self.reading.value(stored)? {
                Some(value) => (Located::Bytes(value.to_vec()), None),
                None => return Ok(None),
            },
            Value::Large(large) => {
                let large = large.reference();
                match self.own.map(|(writes, table)| writes.large(table, key)) {
                    // It may be in a run of the transaction's own, which is freed with it; then it is not long.
                    Some(None) if large.ptr.flags() & PagePtr::IN_PIECES == 0 => {
                        (Located::Bytes(self.reading.whole(self.snapshot.store().read_large(large)?)), None)
                    }
                    guard => (Located::Large(large, self.reading.front_bytes()), guard.flatten().cloned()),
                }
            }
            Value::Deleted => return Ok(None),
        };
        ValueReader::new(located, self.snapshot, own).map(Some)
    }

    /// Moves to the next record without reading its value. Returns whether there is such a record.
    pub fn advance(&mut self) -> Result<bool> {
        self.snapshot.check_held()?;
        if !self.step_in_leaf::<true>() {
            self.forward()?;
        }
        Ok(self.place == Place::On)
    }

    /// Moves to the previous record without reading its value. Returns whether there is such a record.
    pub fn retreat(&mut self) -> Result<bool> {
        self.snapshot.check_held()?;
        if !self.step_in_leaf::<false>() {
            self.backward()?;
        }
        Ok(self.place == Place::On)
    }

    /// Takes a step that is certain to end on a record in the same leaf, within the span: most steps of a long scan.
    #[inline]
    fn step_in_leaf<const FORWARD: bool>(&mut self) -> bool {
        // If a large value could not be read, `merged` stands on it although the cursor has not moved.
        if !self.can_step_in_leaf || self.place != Place::On {
            return false;
        }
        let stepped = self.merged.step_in_leaf::<FORWARD>();
        if stepped {
            self.steps.taken += 1;
            self.large = None;
        }
        stepped
    }

    /// Moves to the next record and returns it.
    #[inline]
    #[allow(clippy::should_implement_trait)] // It lends, which `Iterator` cannot.
    pub fn next(&mut self) -> Result<Lent<'_>> {
        self.snapshot.check_held()?;
        if self.step_in_leaf::<true>() {
            return Ok(self.merged.stepped());
        }
        self.forward()?;
        self.lend()
    }

    #[inline]
    fn forward(&mut self) -> Result<()> {
        let fresh = self.place != Place::On;
        let on = match self.place {
            Place::On => self.merged.next(self.span.end()),
            Place::Fresh | Place::BeforeFirst => self.merged.seek(self.span.start(), self.span.end()),
            Place::AfterLast => return Ok(()),
        };
        self.arrive_forward(on, fresh)
    }

    /// Calls `each` on the records after the current one that are in memory: at most `most` records, and no more bytes
    /// than the largest page has. The arguments are the beginning of the key, the rest of it, and the value. The cursor
    /// moves to the last of these records. Returns their number. The number is often 0; then call [`Cursor::next`]. In
    /// a page or a node of a memtable that no other layer overlaps, such a record costs a fraction of a step.
    ///
    /// # Errors
    /// `SnapshotTooOld`; `each` was not called then.
    #[inline]
    pub fn run_on(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
        self.run::<true>(most, each)
    }

    /// Calls `each` as [`Cursor::run_on`] does, on the records before the current one, in descending order.
    ///
    /// # Errors
    /// As for [`Cursor::run_on`].
    #[inline]
    pub fn run_back(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
        self.run::<false>(most, each)
    }

    #[inline]
    fn run<const FORWARD: bool>(
        &mut self,
        most: usize,
        each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> Result<usize> {
        if self.place != Place::On || self.reading.is_dated() {
            return Ok(0);
        }
        self.snapshot.check_held()?;
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let stop = if FORWARD { self.span.end() } else { start_of(&self.span) };
        let shown = self.merged.run::<FORWARD>(most, stop, each);
        if shown > 0 {
            self.steps.taken += u64::from(shown);
            self.large = None;
            if FORWARD { self.track_forward(false) } else { self.track_backward(false) }
        }
        Ok(shown as usize)
    }

    /// Moves to the previous record and returns it.
    #[inline]
    pub fn prev(&mut self) -> Result<Lent<'_>> {
        self.snapshot.check_held()?;
        if self.step_in_leaf::<false>() {
            return Ok(self.merged.stepped());
        }
        self.backward()?;
        self.lend()
    }

    #[inline]
    fn backward(&mut self) -> Result<()> {
        let fresh = self.place != Place::On;
        let on = match (self.place, self.span.end()) {
            (Place::On, _) => self.merged.prev(start_of(&self.span)),
            (Place::Fresh | Place::AfterLast, Some(end)) => {
                self.merged.seek_before(end, start_of(&self.span))
            }
            (Place::Fresh | Place::AfterLast, None) => self.merged.seek_last(start_of(&self.span)),
            (Place::BeforeFirst, _) => return Ok(()),
        };
        self.arrive_backward(on, fresh)
    }

    /// Moves to the first record at or after `key` within the span, and returns it.
    pub fn seek(&mut self, key: &[u8]) -> Result<Lent<'_>> {
        self.move_to(key)?;
        self.lend()
    }

    #[inline]
    fn arrive_forward(&mut self, moved: Result<bool>, fresh: bool) -> Result<()> {
        let is_on = self.settle(moved)? && self.is_before_end();
        self.place = if is_on { Place::On } else { Place::AfterLast };
        if self.recorder.is_some() {
            self.track_forward(fresh);
        }
        Ok(())
    }

    #[inline]
    fn arrive_backward(&mut self, moved: Result<bool>, fresh: bool) -> Result<()> {
        let is_on = self.settle(moved)? && self.is_behind_start();
        self.place = if is_on { Place::On } else { Place::BeforeFirst };
        if self.recorder.is_some() {
            self.track_backward(fresh);
        }
        Ok(())
    }

    /// Returns whether the current key is before the end. An open end needs no look at the key.
    #[inline]
    fn is_before_end(&self) -> bool {
        let before = |end| self.merged.entry().is_some_and(|(key, _)| key < end);
        self.span.end().is_none_or(before)
    }

    #[inline]
    fn is_behind_start(&self) -> bool {
        let behind = |start| self.merged.entry().is_some_and(|(key, _)| key >= start);
        start_of(&self.span).is_none_or(behind)
    }

    /// Handles a failed move, which leaves the cursor as if it had not moved.
    #[inline]
    fn settle(&mut self, moved: Result<bool>) -> Result<bool> {
        self.steps.taken += 1;
        self.large = None;
        if moved.is_err() {
            self.place = Place::Fresh;
        }
        moved
    }

    /// Returns the current record, and reads its value if it is elsewhere. The entry is looked at once: this is most of
    /// a step.
    #[inline]
    fn lend(&mut self) -> Result<Lent<'_>> {
        if self.place != Place::On {
            return Ok(None);
        }
        if self.can_step_in_leaf && self.merged.has_stepped() {
            return Ok(self.merged.stepped());
        }
        let Cursor { merged, snapshot, reading, place, large, .. } = self;
        let Some((key, item)) = merged.entry() else { return Ok(None) };
        let value = match item {
            Value::Inline(stored) => match reading.value(stored)? {
                Some(value) => value,
                None => return Ok(None),
            },
            Value::Large(reference) => {
                let read = snapshot.store().read_large(reference.reference());
                if read.is_err() {
                    *place = Place::Fresh;
                }
                large.insert(reading.whole(read?))
            }
            Value::Deleted => return Ok(None),
        };
        Ok(Some((key, value)))
    }

    /// Records what was read: from where the cursor began through the record that it reached, or to the end of the
    /// span.
    fn track_forward(&mut self, fresh: bool) {
        let Some(recorder) = &mut self.recorder else { return };
        let high = match self.merged.entry() {
            Some((key, _)) if self.place == Place::On => Bound::Included(key),
            _ => self.span.end().map_or(Bound::Unbounded, Bound::Excluded),
        };
        recorder.passed_forward(&self.span, high, fresh);
    }

    fn track_backward(&mut self, fresh: bool) {
        let Some(recorder) = &mut self.recorder else { return };
        let low = match self.merged.entry() {
            Some((key, _)) if self.place == Place::On => key,
            _ => self.span.start(),
        };
        recorder.passed_backward(&self.span, low, fresh);
    }
}
