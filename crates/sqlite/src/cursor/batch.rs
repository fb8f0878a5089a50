//! Reading a batch of rows.
//!
//! Long keys of an index are stored cut (see `key`), and those that begin in the same way are a group without an order:
//!
//! 1. A batch that ends within a group is extended to the group's end.
//! 2. A batch that begins at a long key begins with the group of that key. What comes before the key is dropped.
//! 3. A batch with cut keys is sorted by the whole keys, which its records say.

use super::{Cursor, From, MOST_BYTES, MOST_ROWS, Own, SEEK_ROWS, length};
use crate::failure::{CORRUPT, Failure, OK, Outcome};
use crate::memory::Memory;
use crate::state::{Work, read};
use crate::sys::{Row, counter, place};
use pando::any::{AnyCursor, AnyDatabase};
use pando::{ReadTables, RecordCursor, Span, keys};
use sqlite_format::key;
use std::ops::Bound;

/// How many times as many rows a long batch of a remote store has, and how many bytes: a request to one takes as long
/// as reading hundreds of rows. A short batch has only what is wanted, because the store counts all of it as read.
const REMOTE_FACTOR: usize = 16;
const MOST_REMOTE_ROWS: usize = MOST_ROWS * 8;

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

/// What reading a batch found, beside its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filled {
    /// There are no more rows in this direction.
    is_at_end: bool,
    has_cut_keys: bool,
}

impl Cursor<'_> {
    /// Reads a batch and moves to its first row, or to nowhere if there is none.
    pub(super) fn load(&mut self, from: From<'_>, is_backward: bool) -> Outcome<()> {
        self.tail.place = place::EOF;
        let (From::Key(key) | From::After(key)) = from else {
            let filled = self.fill(Span::all(), is_backward)?;
            return self.arrange(filled, is_backward);
        };
        if key::is_cut(key.len()) {
            return self.load_from_long_key(from, key, is_backward);
        }
        let filled = self.fill(beyond(from, key, is_backward), is_backward)?;
        self.arrange(filled, is_backward)
    }

    /// Reads the first entries that begin with a key, and moves to the first, or to nowhere. Nothing else is read, so
    /// that a value that is not there is no conflict with its neighbours.
    pub(super) fn load_prefix(&mut self, key: &[u8]) -> Outcome<()> {
        if key::is_cut(key.len()) {
            return self.load(From::Key(key), false);
        }
        self.tail.place = place::EOF;
        let filled = self.fill(Span::prefix(key), false)?;
        // Others can come after them.
        self.arrange(Filled { is_at_end: false, ..filled }, false)
    }

    fn arrange(&mut self, filled: Filled, is_backward: bool) -> Outcome<()> {
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
        let mut filled = self.fill(span, is_backward)?;
        self.own.sort(is_backward, |found| match (from, is_backward) {
            (From::After(_), _) => found > key,
            (_, false) => found >= key,
            (_, true) => found < key,
        })?;
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
            filled = self.fill(after_group, is_backward)?;
            return self.arrange(filled, is_backward);
        }
        self.show(is_backward, filled.is_at_end);
        Ok(())
    }

    fn fill(&mut self, span: Span, is_backward: bool) -> Outcome<Filled> {
        let (own, state) = (&mut *self.own, &*self.state);
        // As long as those of the last batch.
        own.near_from = None;
        let most = Most::of(&state.db, own.wanted);
        let bytes = own.memory.bytes.len() / own.memory.rows.len().max(1) * most.rows;
        own.memory.rows.clear();
        own.memory.bytes.clear();
        own.memory.group.clear();
        own.memory.rows.reserve(most.rows);
        own.memory.bytes.reserve(bytes.min(most.bytes));
        if let (counter::OWN, Work::Open(open)) = (self.tail.counter, &state.work) {
            let cursor = open.transaction.cursor_unread(&own.tree.table, span)?;
            return fill_from(own, cursor, most, is_backward);
        }
        read!(state, reader => {
            let cursor = reader.cursor(&own.tree.table, span)?;
            fill_from(own, cursor, most, is_backward)
        })
    }
}

/// Reads rows from a cursor of either kind, which is looked at once.
fn fill_from(own: &mut Own, cursor: AnyCursor<'_>, most: Most, is_backward: bool) -> Outcome<Filled> {
    match cursor {
        AnyCursor::Native(cursor) => fill(own, cursor, most, is_backward),
        AnyCursor::Remote(mut cursor) => {
            cursor.expect(most.rows, most.bytes);
            fill(own, cursor, most, is_backward)
        }
    }
}

/// Returns the keys that come after `from` in a direction. Its key is stored as it is.
fn beyond(from: From<'_>, key: &[u8], is_backward: bool) -> Span {
    match (from, is_backward) {
        (From::After(_), _) => Span::all().starting(Bound::Excluded(key)),
        (_, false) => Span::from(key..),
        (_, true) => Span::from(..key),
    }
}

impl Own {
    /// Sorts the rows by their whole keys, and keeps those that `keep` says.
    fn sort(&mut self, is_backward: bool, keep: impl Fn(&[u8]) -> bool) -> Outcome<()> {
        let Own { shape: Some(shape), memory, .. } = self else {
            return Err(Failure::new(CORRUPT, "the key of a row does not have 8 bytes"));
        };
        let Memory { rows, bytes, first_key, .. } = &mut **memory;
        let mut keyed = Vec::with_capacity(rows.len());
        for row in rows.drain(..) {
            let mut key = Vec::new();
            shape.key_of(&bytes[row.start as usize..][..row.bytes as usize], &mut key)?;
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
fn fill(own: &mut Own, mut cursor: impl RecordCursor, most: Most, is_backward: bool) -> Outcome<Filled> {
    let is_index = own.shape.is_some();
    let Memory { rows, bytes, first_key, group, .. } = &mut *own.memory;
    let mut malformed = OK;
    let mut has_cut_keys = false;
    let mut push = |front: &[u8], rest: &[u8], value: &[u8]| {
        let rowid = if is_index {
            if rows.is_empty() {
                first_key.clear();
                first_key.extend_from_slice(front);
                first_key.extend_from_slice(rest);
            }
            if key::is_cut(front.len() + rest.len()) {
                has_cut_keys = true;
                group.clear();
                group.extend(front.iter().chain(rest).take(key::CUT_BYTES));
            } else {
                group.clear();
            }
            0
        } else {
            key::rowid_of(front, rest).unwrap_or_else(|| {
                malformed = CORRUPT;
                0
            })
        };
        let start = bytes.len() as u32;
        bytes.extend_from_slice(value);
        rows.push(Row { rowid, start, bytes: value.len() as u32 });
        (rows.len(), bytes.len())
    };
    let mut is_at_end = false;
    loop {
        let found = if is_backward { cursor.prev()? } else { cursor.next()? };
        let Some((key, value)) = found else {
            is_at_end = true;
            break;
        };
        length(value.len())?;
        let (mut count, mut size) = push(key, &[], value);
        if count < most.rows && size < most.bytes && !is_backward {
            // Rows in pages are at most a quarter of a page long, so that the number bounds the bytes.
            let more = (most.rows - count).min(1 + (most.bytes - size) / (size / count).max(1));
            cursor.run_on(more, |front, rest, value| (count, size) = push(front, rest, value))?;
        }
        if count >= most.rows || size >= most.bytes {
            break;
        }
    }
    if has_cut_keys && !is_at_end && !group.is_empty() {
        loop {
            let found = if is_backward { cursor.prev()? } else { cursor.next()? };
            let Some((key, value)) = found else {
                is_at_end = true;
                break;
            };
            if !key::is_cut(key.len()) || !key.starts_with(group) {
                break;
            }
            length(bytes.len() + value.len())?;
            rows.push(Row { rowid: 0, start: bytes.len() as u32, bytes: value.len() as u32 });
            bytes.extend_from_slice(value);
        }
    }
    match malformed {
        OK => Ok(Filled { is_at_end, has_cut_keys }),
        code => Err(Failure::new(code, "the key of a row does not have 8 bytes")),
    }
}
