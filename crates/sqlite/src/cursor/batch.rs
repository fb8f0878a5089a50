//! Reading a batch of rows.
//!
//! Long keys of an index are stored cut (see `key`), and those that begin in the same way are a group without an order:
//!
//! 1. A batch that ends within a group is extended to the group's end. If that would be long, the batch ends before the
//!    group, and the next one has a part of it: see `group`.
//! 2. A batch that begins at a long key begins with the group of that key. What comes before the key is dropped.
//! 3. A batch with cut keys is sorted by the whole keys, which its records say.
//!
//! Of long records of rows, a batch has the beginning: see `partial`.

use super::partial::{LEAST_BYTES, own_row};
use super::{Cursor, From, MOST_BYTES, MOST_ROWS, MOST_RUNS, Own, SEEK_ROWS, length};
use crate::failure::{CORRUPT, Failure, Outcome};
use crate::memory::Memory;
use crate::state::{Work, read};
use crate::sys::{Row, counter, place};
use pando::any::{AnyCursor, AnyDatabase, AnySnapshot};
use pando::{Beginning, LentRun, ReadTables, RecordCursor, Span, keys};
use sqlite_format::key;
use std::ops::Bound;

/// How many times as many rows a long batch of a remote store has, and how many bytes: a request to one takes as long
/// as reading hundreds of rows. A short batch has only what is wanted, because the store counts all of it as read.
const REMOTE_FACTOR: usize = 16;
const MOST_REMOTE_ROWS: usize = MOST_ROWS * 8;

/// The bytes up to which a batch is extended to the end of a group.
const MOST_EXTENDED_BYTES: usize = 2 * MOST_BYTES;

/// The size at which a batch ends.
#[derive(Clone, Copy, Debug)]
struct Most {
    rows: usize,
    bytes: usize,
}

impl Most {
    fn of(db: &AnyDatabase, wanted: usize) -> Most {
        match db {
            AnyDatabase::Remote(_) if wanted > SEEK_ROWS => Most {
                rows: (wanted * REMOTE_FACTOR).min(MOST_REMOTE_ROWS),
                bytes: MOST_BYTES * REMOTE_FACTOR,
            },
            AnyDatabase::Native(_) | AnyDatabase::Remote(_) => Most { rows: wanted, bytes: MOST_BYTES },
        }
    }
}

/// Where in its span a batch begins: at the first key, at the last one, from which it goes back, or at a key.
#[derive(Clone, Copy, Debug)]
enum Start<'k> {
    First,
    Last,
    Key(&'k [u8]),
}

impl Start<'_> {
    fn end(is_backward: bool) -> Self {
        if is_backward { Start::Last } else { Start::First }
    }
}

/// What reading a batch found, beside its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filled {
    /// There are no more rows in this direction.
    is_at_end: bool,
    has_cut_keys: bool,
    /// The place in the batch where a group begins that is too long to be read to its end.
    long_group: Option<usize>,
}

impl Cursor<'_> {
    /// Reads a batch and moves to its first row, or to nowhere if there is none.
    pub(super) fn load(&mut self, from: From<'_>, is_backward: bool) -> Outcome<()> {
        self.tail.place = place::EOF;
        let (From::Key(key) | From::After(key)) = from else {
            let filled = self.fill(self.own.all(), Start::end(is_backward))?;
            return self.arrange(filled, is_backward);
        };
        if key::is_cut(key.len()) {
            return self.load_from_long_key(from, key, is_backward);
        }
        let filled = match (from, is_backward, &self.state.work) {
            // The whole table is read from, so that a page which is lent is lent as a whole.
            (From::Key(key), false, Work::Reading(AnySnapshot::Native(_))) => {
                self.fill(Span::all(), Start::Key(key))?
            }
            _ => self.fill(beyond(self.own.all(), from, key, is_backward), Start::end(is_backward))?,
        };
        self.arrange(filled, is_backward)
    }

    /// Reads the first entries that begin with a key, and moves to the first, or to nowhere. Nothing else is read, so
    /// that a value that is not there is no conflict with its neighbours.
    pub(super) fn load_prefix(&mut self, key: &[u8]) -> Outcome<()> {
        if key::is_cut(key.len()) {
            return self.load(From::Key(key), false);
        }
        self.tail.place = place::EOF;
        let filled = self.fill(Span::prefix(key), Start::First)?;
        // Others can come after them.
        self.arrange(Filled { is_at_end: false, ..filled }, false)
    }

    fn arrange(&mut self, filled: Filled, is_backward: bool) -> Outcome<()> {
        if filled.long_group == Some(0) {
            let group = std::mem::take(&mut self.own.memory.group);
            return self.load_group(&group, |_| true, is_backward);
        }
        self.own.memory.rows.truncate(filled.long_group.unwrap_or(usize::MAX));
        if filled.has_cut_keys {
            self.own.sort(is_backward, |_| true)?;
        }
        self.show(is_backward, filled.is_at_end);
        Ok(())
    }

    fn load_from_long_key(&mut self, from: From<'_>, key: &[u8], is_backward: bool) -> Outcome<()> {
        let group = &key[..key::CUT_BYTES];
        let end = keys::prefix_end(group);
        let span = match (is_backward, &end) {
            (false, _) => Span::from(group..),
            (true, Some(end)) => Span::from(..&end[..]),
            (true, None) => Span::all(),
        };
        let mut filled = self.fill(span, Start::end(is_backward))?;
        let is_wanted = |found: &[u8]| match (from, is_backward) {
            (From::After(_), _) => found > key,
            (_, false) => found >= key,
            (_, true) => found < key,
        };
        match filled.long_group {
            Some(_) if self.own.memory.group == group => self.load_group(group, is_wanted, is_backward)?,
            // No entry is in the key's group.
            Some(0) => return self.arrange(filled, is_backward),
            later => {
                self.own.memory.rows.truncate(later.unwrap_or(usize::MAX));
                self.own.sort(is_backward, is_wanted)?;
            }
        }
        if self.own.memory.rows.is_empty() && !filled.is_at_end {
            let after_group = match (is_backward, &end) {
                (true, _) => Span::from(..group),
                (false, Some(end)) => Span::from(&end[..]..),
                // No key comes after a group without an end.
                (false, None) => {
                    self.show(is_backward, true);
                    return Ok(());
                }
            };
            filled = self.fill(after_group, Start::end(is_backward))?;
            return self.arrange(filled, is_backward);
        }
        self.show(is_backward, filled.is_at_end);
        Ok(())
    }

    fn fill(&mut self, span: Span, start: Start<'_>) -> Outcome<Filled> {
        let (own, state) = (&mut *self.own, &*self.state);
        own.choose_whole();
        let most = Most::of(&state.db, own.wanted);
        own.forget_batch();
        own.memory.group.clear();
        own.memory.rows.reserve(most.rows);
        if let (counter::OWN, Work::Open(open)) = (self.tail.counter, &state.work) {
            let mut cursor = open.transaction.cursor_untracked(&own.tree.table, span)?;
            return fill_from(own, &mut cursor, most, start);
        }
        read!(state, reader => {
            let mut cursor = reader.cursor(&own.tree.table, span)?;
            fill_from(own, &mut cursor, most, start)
        })
    }

    /// Shows the next rows of the page in which the batch ended, if it has some. Returns whether it has.
    pub(super) fn show_rest(&mut self) -> Outcome<bool> {
        self.show_page(self.own.wanted, |page| page.extend() > 0)
    }

    /// Moves to the first entry from a key on, and shows `most`, if that is known to be in the page in which the batch
    /// ended. Returns whether it is.
    pub(super) fn seek_in_page(&mut self, key: &[u8], most: usize) -> Outcome<bool> {
        if self.tail.stamp != self.own.tree.version.get() || key::is_cut(key.len()) {
            return Ok(false);
        }
        self.show_page(most, |page| page.seek(key))
    }

    /// Shows rows of the page in which the batch ended, `most` at most, if `has` finds the first of them there. In a
    /// transaction it would have to note them as read.
    fn show_page(&mut self, most: usize, has: impl FnOnce(&mut LentRun) -> bool) -> Outcome<bool> {
        if !matches!(self.state.work, Work::Reading(_)) {
            return Ok(false);
        }
        let is_index = self.own.shape.is_some();
        // A group of long keys is read to its end.
        let has_no_group = |page: &LentRun| !is_index || !key::is_cut(page.longest_key(most));
        let page = self.own.memory.records.take_page(|page| has(page) && has_no_group(page));
        let Some(page) = page else { return Ok(false) };
        self.tail.place = place::EOF;
        self.own.forget_batch();
        let mut batch = Batch::of(self.own, false);
        batch.take(page, most);
        batch.check()?;
        self.show(false, false);
        Ok(true)
    }
}

/// Reads rows from a cursor of either kind, which is looked at once.
fn fill_from(own: &mut Own, cursor: &mut AnyCursor<'_>, most: Most, start: Start<'_>) -> Outcome<Filled> {
    match cursor {
        AnyCursor::Native(cursor) => {
            let may_cut = !own.reads_whole();
            fill(Batch::of(own, may_cut), cursor, most, start)
        }
        AnyCursor::Remote(cursor) => {
            cursor.expect(most.rows, most.bytes);
            // A record has been sent as a whole, and to look it up again would be another request.
            fill(Batch::of(own, false), cursor, most, start)
        }
    }
}

/// Returns the keys of a span that come after `from` in a direction. Its key is stored as it is.
fn beyond(span: Span, from: From<'_>, key: &[u8], is_backward: bool) -> Span {
    match (from, is_backward) {
        (From::After(_), _) => span.starting(Bound::Excluded(key)),
        (_, false) => span.starting(Bound::Included(key)),
        (_, true) => span.until(key),
    }
}

impl Own {
    /// Returns the keys that may be read.
    fn all(&self) -> Span {
        if self.is_within_prefix { Span::prefix(&self.memory.prefix) } else { Span::all() }
    }

    /// Sorts the rows by their whole keys, and keeps those that `keep` says.
    fn sort(&mut self, is_backward: bool, keep: impl Fn(&[u8]) -> bool) -> Outcome<()> {
        let Own { shape: Some(shape), memory, .. } = self else {
            return Err(Failure::new(CORRUPT, "the key of a row does not have 8 bytes"));
        };
        let Memory { rows, records, first_key, .. } = &mut **memory;
        let mut keyed = Vec::with_capacity(rows.len());
        for row in rows.drain(..) {
            let mut key = Vec::new();
            shape.key_of(records.get(&row), &mut key)?;
            if keep(&key) {
                keyed.push((key, row));
            }
        }
        keyed.sort_by(|(one, _), (two, _)| if is_backward { two.cmp(one) } else { one.cmp(two) });
        rows.extend(keyed.iter().map(|&(_, row)| row));
        if let Some((key, _)) = keyed.into_iter().next() {
            *first_key = key;
        }
        Ok(())
    }
}

/// Reads rows.
fn fill(
    mut batch: Batch<'_>,
    cursor: &mut impl RecordCursor,
    most: Most,
    mut start: Start<'_>,
) -> Outcome<Filled> {
    let is_backward = matches!(start, Start::Last);
    let mut is_at_end = false;
    loop {
        if !batch.step(cursor, start)? {
            is_at_end = true;
            break;
        }
        if let Start::Key(_) = start {
            start = Start::First;
        }
        if batch.has_room(most) {
            match is_backward {
                true => batch.run_back(cursor, most)?,
                false => batch.run_on(cursor, most)?,
            }
        }
        if !batch.has_room(most) {
            break;
        }
    }
    let mut long_group = None;
    if batch.has_cut_keys && !is_at_end && !batch.memory.group.is_empty() {
        let end = batch.end_group(cursor, is_backward)?;
        is_at_end = end == Some(true);
        long_group = end.is_none().then_some(batch.group_start);
    }
    batch.check()?;
    Ok(Filled { is_at_end, has_cut_keys: batch.has_cut_keys, long_group })
}

/// A batch that is read.
struct Batch<'m> {
    memory: &'m mut Memory,
    is_index: bool,
    /// Whether the beginning of a long record suffices.
    may_cut: bool,
    has_cut_keys: bool,
    /// The place of the first row of the group in `memory.group`.
    group_start: usize,
    is_malformed: bool,
}

impl Batch<'_> {
    fn of(own: &mut Own, may_cut: bool) -> Batch<'_> {
        let is_index = own.shape.is_some();
        let (has_cut_keys, group_start, is_malformed) = (false, 0, false);
        Batch { memory: &mut own.memory, is_index, may_cut, has_cut_keys, group_start, is_malformed }
    }

    /// Moves the cursor and appends the record that it comes to. Returns whether there is one.
    fn step(&mut self, cursor: &mut impl RecordCursor, start: Start<'_>) -> Outcome<bool> {
        let whole = |(key, value)| (key, Beginning::whole(value));
        let found = match (start, self.may_cut) {
            (Start::Key(key), true) => cursor.seek_beginning(key)?,
            (Start::Key(key), false) => cursor.seek(key)?.map(whole),
            (Start::First, true) => cursor.next_beginning()?,
            (Start::First, false) => cursor.next()?.map(whole),
            (Start::Last, true) => cursor.prev_beginning()?,
            (Start::Last, false) => cursor.prev()?.map(whole),
        };
        let Some((key, value)) = found else { return Ok(false) };
        length(value.len_bytes)?;
        if value.is_whole() || value.bytes.len() >= LEAST_BYTES {
            self.copy(key, &[], value);
            return Ok(true);
        }
        cursor.value()?;
        let Some((key, value)) = cursor.current() else { return Ok(false) };
        self.copy(key, &[], Beginning::whole(value));
        Ok(true)
    }

    fn has_room(&self, most: Most) -> bool {
        let Memory { rows, records, .. } = &*self.memory;
        rows.len() < most.rows && records.copied_bytes() < most.bytes && records.pages() < MOST_RUNS
    }

    /// Reads the rows after the cursor's that are in memory, in place where that is possible.
    fn run_on(&mut self, cursor: &mut impl RecordCursor, most: Most) -> Outcome<()> {
        let more = most.rows - self.memory.rows.len();
        if let Some(run) = cursor.lend_run(more)? {
            self.take(run, more);
            return Ok(());
        }
        // A run has no more bytes than a page.
        while self.has_room(most) {
            let more = most.rows - self.memory.rows.len();
            let copy =
                |front: &[u8], rest: &[u8], value: &[u8]| self.copy(front, rest, Beginning::whole(value));
            if cursor.run_on(more, copy)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Reads the rows before the cursor's that are in memory.
    fn run_back(&mut self, cursor: &mut impl RecordCursor, most: Most) -> Outcome<()> {
        while self.has_room(most) {
            let more = most.rows - self.memory.rows.len();
            let copy =
                |front: &[u8], rest: &[u8], value: &[u8]| self.copy(front, rest, Beginning::whole(value));
            if cursor.run_back(more, copy)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Appends the next `most` rows of a page, and keeps that.
    fn take(&mut self, mut run: LentRun, most: usize) {
        let (front, shown) = run.show(most);
        if self.is_index {
            for (rest, value, after) in shown {
                self.note_key(front, rest);
                let record = self.memory.records.place(value, after);
                self.memory.rows.push(Row::whole(0, record, value.len() as u32));
            }
        } else {
            // The page's keys have one length each, which the compiler knows then.
            match front.len() {
                7 => self.take_rows::<1>(front, shown),
                6 => self.take_rows::<2>(front, shown),
                5 => self.take_rows::<3>(front, shown),
                4 => self.take_rows::<4>(front, shown),
                3 => self.take_rows::<5>(front, shown),
                2 => self.take_rows::<6>(front, shown),
                1 => self.take_rows::<7>(front, shown),
                0 => self.take_rows::<8>(front, shown),
                // The page has a single key, or none of 8 bytes.
                _ => shown.for_each(|(rest, value, _)| self.copy(front, rest, Beginning::whole(value))),
            }
        }
        self.memory.records.keep(run);
    }

    /// Appends rows of a page whose keys end with `N` bytes after `front`.
    fn take_rows<'r, const N: usize>(
        &mut self,
        front: &[u8],
        shown: impl Iterator<Item = (&'r [u8], &'r [u8], usize)>,
    ) {
        let mut key = [0; 8];
        key[..8 - N].copy_from_slice(front);
        let Memory { rows, records, .. } = &mut *self.memory;
        let mut is_malformed = false;
        rows.extend(shown.map(|(rest, value, after)| {
            let rowid = key::rowid_with::<N>(key, rest);
            is_malformed |= rowid.is_none();
            let record = records.place(value, after);
            Row::whole(rowid.unwrap_or_default(), record, value.len() as u32)
        }));
        self.is_malformed |= is_malformed;
    }

    /// Appends a copy of a row, whose key is in two pieces.
    #[inline]
    fn copy(&mut self, front: &[u8], rest: &[u8], value: Beginning<'_>) {
        let rowid = if self.is_index {
            self.note_key(front, rest);
            0
        } else {
            let rowid = key::rowid_of(front, rest);
            self.is_malformed |= rowid.is_none();
            rowid.unwrap_or_default()
        };
        self.push(rowid, value);
    }

    /// Appends a row with a copy of its record, or of the beginning.
    #[inline]
    fn push(&mut self, rowid: i64, value: Beginning<'_>) {
        let row = own_row(&mut self.memory.records, rowid, value, self.may_cut);
        self.memory.rows.push(row);
    }

    /// Notes the key of the next row of an index.
    #[inline]
    fn note_key(&mut self, front: &[u8], rest: &[u8]) {
        let Memory { rows, first_key, group, .. } = &mut *self.memory;
        if rows.is_empty() {
            first_key.clear();
            first_key.extend_from_slice(front);
            first_key.extend_from_slice(rest);
        }
        if !key::is_cut(front.len() + rest.len()) {
            group.clear();
            return;
        }
        self.has_cut_keys = true;
        let front = &front[..front.len().min(key::CUT_BYTES)];
        let rest = &rest[..key::CUT_BYTES - front.len()];
        if group.strip_prefix(front) != Some(rest) {
            self.group_start = rows.len();
            group.clear();
            group.extend_from_slice(front);
            group.extend_from_slice(rest);
        }
    }

    /// Reads the group in which the batch would end to its end. Returns whether the tree ends there, or `None` if the
    /// group is too long.
    fn end_group(&mut self, cursor: &mut impl RecordCursor, is_backward: bool) -> Outcome<Option<bool>> {
        loop {
            let found = if is_backward { cursor.prev()? } else { cursor.next()? };
            let Some((key, value)) = found else { return Ok(Some(true)) };
            if !key::is_cut(key.len()) || !key.starts_with(&self.memory.group) {
                return Ok(Some(false));
            }
            if self.memory.records.copied_bytes() + value.len() > MOST_EXTENDED_BYTES {
                return Ok(None);
            }
            length(value.len() as u64)?;
            self.push(0, Beginning::whole(value));
        }
    }

    fn check(&self) -> Outcome<()> {
        match self.is_malformed {
            false => Ok(()),
            true => Err(Failure::new(CORRUPT, "the key of a row does not have 8 bytes")),
        }
    }
}
