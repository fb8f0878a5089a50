//! Changes at a cursor.

use super::{Cursor, MOST_BYTES, Own, nowhere};
use crate::failure::{CORRUPT, Failure, Outcome};
use crate::memory::Memory;
use crate::state::{State, Tree, read};
use crate::sys::{Row, counter, place};
use pando::{ErrorKind, ReadTables, RecordCursor, Span, WriteTables};
use sqlite_format::key;
use std::ops::Bound;

impl Cursor<'_> {
    /// Puts a row, followed by `zeros` zeros. Afterwards the cursor is on it.
    pub(crate) fn put_row(&mut self, rowid: i64, record: &[u8], zeros: usize) -> Outcome<()> {
        let mut whole = Vec::new();
        let record = if zeros == 0 {
            record
        } else {
            whole.reserve_exact(record.len() + zeros);
            whole.extend_from_slice(record);
            whole.resize(record.len() + zeros, 0);
            &whole
        };
        let is_in_batch = self.has_fresh_batch()
            && self.own.shape.is_none()
            && self.own.memory.rows[self.tail.row as usize].rowid == rowid;
        self.put(&key::of_rowid(rowid), record)?;
        // A statement may write one row again and again, and the batch keeps each version.
        if is_in_batch && self.own.memory.records.copied_bytes() + record.len() < MOST_BYTES {
            self.show_written(record);
        }
        self.own.tree.note_row(rowid);
        Ok(())
    }

    /// Returns whether the batch is as the tree is, so that it will be if the row that is written changes in it.
    fn has_fresh_batch(&self) -> bool {
        self.is_fresh() && self.tail.counter == counter::NONE
    }

    /// Shows the row that the cursor is on as it was written. The others are as they were read.
    fn show_written(&mut self, record: &[u8]) {
        let Memory { rows, records, .. } = &mut *self.own.memory;
        let row = &mut rows[self.tail.row as usize];
        // The engine has taken it, so that its length is one of 32 bits.
        *row = Row::whole(row.rowid, records.copy(record), record.len() as u32);
        records.end();
        self.tail.stamp = self.own.tree.version.get();
        self.tail.place = place::VALID;
        self.own.is_writing = true;
    }

    /// Takes a rowid above `counter` for the next row. The cursor is then on an entry before it, whose record is not to
    /// be used. If there is none left, the cursor is on the last one that can be.
    pub(crate) fn new_rowid(&mut self, counter: i64) -> Outcome<()> {
        self.check_fault()?;
        let next = self.state.new_rowid(&self.own.tree, counter)?;
        self.own.is_numbered = next.is_some();
        self.own.forget_batch();
        let rowid = next.map_or(i64::MAX, |next| next.wrapping_sub(1));
        let record = self.own.memory.records.copy(&[]);
        self.own.memory.rows.push(Row::whole(rowid, record, 0));
        self.show(false, false);
        // It is read again where its record is asked for.
        self.tail.stamp = 0;
        Ok(())
    }

    /// Puts a record into an index. The cursor is on it then.
    pub(crate) fn put_entry(&mut self, record: &[u8]) -> Outcome<()> {
        let mut key = std::mem::take(&mut self.own.memory.sought);
        let shape = self.own.shape.as_ref().ok_or_else(|| Failure::new(CORRUPT, "not an index"))?;
        let put = match shape.key_of(record, &mut key) {
            Ok(()) => self.put(&key, record),
            Err(malformed) => Err(malformed.into()),
        };
        self.own.memory.sought = key;
        put
    }

    fn put(&mut self, key: &[u8], record: &[u8]) -> Outcome<()> {
        self.state.check_pins(&self.own.tree, self.tail)?;
        let (open, table) = (self.state.writable()?, &self.own.tree.table);
        let is_numbered = std::mem::take(&mut self.own.is_numbered);
        self.own.is_within_prefix = false;
        open.note_counter(self.tail.counter, &self.own.tree, key);
        // A counter of AUTOINCREMENT is written whatever others did to it; see `counters.rs`.
        let is_inserted = is_numbered
            && self.tail.counter != counter::OWN
            && match open.transaction.insert(table, key, record) {
                // A trigger put a row there, which SQLite would replace.
                Err(error) if error.kind() == ErrorKind::Exists => false,
                inserted => inserted.map(|()| true)?,
            };
        if !is_inserted {
            open.transaction.put(table, key::stored(key), record)?;
        }
        self.own.tree.touch();
        self.own.memory.key.clear();
        self.own.memory.key.extend_from_slice(key);
        self.tail.place = place::SAVED;
        Ok(())
    }

    /// Deletes the entry that the cursor is on. The cursor is between its neighbours then. Returns the rowid of a row.
    pub(crate) fn delete(&mut self) -> Outcome<Option<i64>> {
        self.check_fault()?;
        let is_in_batch = self.has_fresh_batch();
        self.current_key()?;
        self.state.check_pins(&self.own.tree, self.tail)?;
        let open = self.state.writable()?;
        open.note_counter(self.tail.counter, &self.own.tree, &self.own.memory.key);
        open.transaction.delete(&self.own.tree.table, key::stored(&self.own.memory.key))?;
        self.own.tree.touch();
        self.own.tree.forget_last_row();
        self.tail.place = place::GAP;
        if is_in_batch {
            self.own.memory.rows.remove(self.tail.row as usize);
            self.tail.row_count -= 1;
            self.tail.stamp = self.own.tree.version.get();
            self.own.is_writing = true;
        }
        self.own.has_gap = is_in_batch;
        Ok(self.own.shape.is_none().then(|| key::rowid_of(&self.own.memory.key, &[])).flatten())
    }

    /// Moves from a deleted row to its neighbour in the fresh batch. `None`: the batch does not say which that is.
    pub(super) fn step_from_gap(&mut self, is_backward: bool) -> Option<bool> {
        // The rows after it have moved to its place.
        let is_onward = (self.tail.is_backward != 0) == is_backward;
        let at = if is_onward { Some(self.tail.row) } else { self.tail.row.checked_sub(1) };
        match at.filter(|&at| at < self.tail.row_count) {
            Some(at) => (self.tail.row, self.tail.place) = (at, place::VALID),
            None if is_onward && self.tail.is_at_end != 0 => self.tail.place = place::EOF,
            None => return None,
        }
        Some(self.tail.place == place::VALID)
    }

    /// Replaces a part of the row that the cursor is on. A handle of a blob writes one piece after another, and each
    /// would put the whole record: it is put by [`Cursor::put_written`], before anything else uses the connection's
    /// trees.
    pub(crate) fn put_data(&mut self, offset: usize, data: &[u8]) -> Outcome<()> {
        self.state.check_pins(&self.own.tree, self.tail)?;
        self.state.writable()?;
        let is_whole = |own: &mut Own, row: u32| {
            let Memory { rows, records, .. } = &mut *own.memory;
            rows.get(row as usize).is_some_and(|row| records.whole_mut(row).is_some())
        };
        if !(self.is_fresh() && is_whole(self.own, self.tail.row)) {
            self.current_key()?;
            let key = self.own.memory.key.clone();
            if !self.load_one(&key)? {
                return Err(nowhere());
            }
            self.complete()?;
            if !is_whole(self.own, 0) {
                let record = self.own.memory.record(0).to_vec();
                let Memory { rows, records, .. } = &mut *self.own.memory;
                records.keep_whole(rows, 0, &record);
            }
        }
        let Memory { rows, records, .. } = &mut *self.own.memory;
        let record = records.whole_mut(&rows[self.tail.row as usize]);
        let part = record.and_then(|record| record.get_mut(offset..)?.get_mut(..data.len()));
        part.ok_or_else(|| Failure::new(CORRUPT, "a blob ends before its end"))?.copy_from_slice(data);
        // Others do not have it in their batches.
        self.own.tree.touch();
        self.tail.stamp = self.own.tree.version.get();
        self.state.writing = self.tail;
        Ok(())
    }

    /// Puts the record of which [`Cursor::put_data`] has replaced parts.
    pub(crate) fn put_written(&mut self) -> Outcome<()> {
        self.check_fault()?;
        let Memory { rows, records, .. } = &mut *self.own.memory;
        let Some(row) = rows.get(self.tail.row as usize) else { return Err(nowhere()) };
        let key = key::of_rowid(row.rowid);
        let record = records.whole_mut(row).ok_or_else(nowhere)?.to_vec();
        self.put(&key, &record)
    }

    /// Counts some entries: the first ones, or those after the last call.
    pub(crate) fn count_some(&mut self, is_going_on: bool) -> Outcome<Counted> {
        self.check_fault()?;
        count_some(self.state, &self.own.tree, is_going_on)
    }
}

/// How many entries are counted between two looks at the time limit of a statement.
const COUNTED: usize = 4096;

/// Entries that were counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub entries: i64,
    pub has_more: bool,
}

/// Counts some entries of a tree: the first ones, or those after the last call.
pub(crate) fn count_some(state: &mut State, tree: &Tree, is_going_on: bool) -> Outcome<Counted> {
    let mut from = std::mem::take(&mut state.counted);
    let span = match is_going_on {
        true => Span::all().starting(Bound::Excluded(&from[..])),
        false => Span::all(),
    };
    let counted = read!(state, reader => count(reader, tree, span, &mut from).map_err(Failure::from));
    state.counted = from;
    counted
}

fn count(reader: &impl ReadTables, tree: &Tree, span: Span, until: &mut Vec<u8>) -> pando::Result<Counted> {
    let mut cursor = reader.cursor(&tree.table, span)?;
    let entries = cursor.skip(COUNTED)?;
    until.clear();
    until.extend_from_slice(cursor.key().unwrap_or_default());
    Ok(Counted { entries: entries as i64, has_more: entries == COUNTED })
}
