//! Seeks: to a rowid, or to the first fields of an index.

use super::{Cursor, EQUAL_ROWS, From, MOST_ROWS, NEAR, RANGE_ROWS, SEEK_ROWS};
use crate::failure::Outcome;
use crate::memory::Memory;
use crate::state::Work;
use crate::sys::{counter, place};
use pando::any::AnySnapshot;
use sqlite_format::key;
use std::cmp::Ordering;

/// What a seek in an index found, in SQLite's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether the cursor is on an entry before (-1) or after (1) what was sought, or on it (0). -1 also means that
    /// the tree is empty.
    pub result: i32,
    /// Whether an entry with exactly the sought fields exists.
    pub is_equal: bool,
}

impl Cursor<'_> {
    /// Moves to a rowid. Returns whether it exists. If not, the cursor is on the last entry before it.
    pub(crate) fn seek_rowid(&mut self, rowid: i64) -> Outcome<bool> {
        self.check_fault()?;
        // What was sought last and was found in the batch by C is the row that the cursor is on.
        let last = match self.is_fresh() {
            true => self.own.memory.rows[self.tail.row as usize].rowid,
            false => self.own.memory.known.last_rowid,
        };
        self.own.memory.known.last_rowid = rowid;
        if let Some(found) = self.seek_in_batch(rowid) {
            return Ok(found);
        }
        let key = key::of_rowid(rowid);
        let is_near = (1..=NEAR).contains(&rowid.wrapping_sub(last));
        let is_found = if self.is_beyond(&key) {
            false
        } else if self.seek_from_page(&key, is_near)? {
            self.own.near_from = Some(rowid);
            self.own.memory.rows.first().is_some_and(|row| row.rowid == rowid)
        } else {
            self.own.wanted = SEEK_ROWS;
            self.load_one(&key)?
        };
        if !is_found {
            self.miss(&key);
        }
        Ok(is_found)
    }

    /// Moves to the first row from a rowid's key on, if it is in the page where the last seek ended, or if it is worth
    /// reading the rows from there on: a join often seeks one rowid after the other, or rowids that are all in a page.
    /// Returns whether it has moved.
    fn seek_from_page(&mut self, key: &[u8], is_near: bool) -> Outcome<bool> {
        let has_pages = match &self.state.work {
            Work::Reading(snapshot) => matches!(snapshot, AnySnapshot::Native(_)),
            // What is read ahead could be a conflict.
            _ => return Ok(false),
        };
        // Mostly, the first look-up is the only one.
        if self.tail.stamp == 0 && !is_near {
            return Ok(false);
        }
        let next = (self.own.wanted * 2).clamp(RANGE_ROWS, MOST_ROWS);
        // A batch of a single row would not need its page.
        self.own.wanted = if is_near { next } else { EQUAL_ROWS };
        let is_in_page = self.seek_in_page(key, if is_near { next } else { 1 })?;
        self.own.memory.known.paging.note(is_in_page);
        if !is_in_page && (is_near || has_pages && self.own.memory.known.paging.is_worth_it()) {
            self.load_from(key)?;
            return Ok(true);
        }
        Ok(is_in_page)
    }

    /// Moves to the first row from a rowid on, whose successors are read next. Returns whether it is that rowid's (0)
    /// or after it (1). If there is none, or what is read ahead could be a conflict, it moves as
    /// [`Cursor::seek_rowid`] does, and -1 means that the row was not found.
    pub(crate) fn seek_from(&mut self, rowid: i64) -> Outcome<i32> {
        self.check_fault()?;
        if !matches!(self.state.work, Work::Reading(AnySnapshot::Native(_))) {
            return self.seek_rowid(rowid).map(|is_found| if is_found { 0 } else { -1 });
        }
        self.own.memory.known.last_rowid = rowid;
        if self.seek_in_batch(rowid) == Some(true) {
            return Ok(0);
        }
        self.own.wanted = RANGE_ROWS;
        self.load(From::Key(&key::of_rowid(rowid)), false)?;
        self.own.near_from = Some(rowid);
        Ok(self.own.memory.rows.first().map_or(-1, |row| i32::from(row.rowid != rowid)))
    }

    /// Looks for a rowid in the batch, which a seek of another rowid that is not there leaves as it is. `None`: the
    /// batch says nothing about it.
    fn seek_in_batch(&mut self, rowid: i64) -> Option<bool> {
        let is_current = self.tail.stamp == self.own.tree.version.get();
        if !is_current || ![place::VALID, place::MISS].contains(&self.tail.place) {
            return None;
        }
        let rows = &self.own.memory.rows;
        let is_backward = self.tail.is_backward != 0;
        let (low, high) = match (self.own.near_from, &rows[..]) {
            (Some(from), _) if self.tail.is_at_end != 0 => (from, i64::MAX),
            (Some(from), [.., last]) => (from, last.rowid),
            (None, [first, .., last]) if is_backward => (last.rowid, first.rowid),
            (None, [first, .., last]) => (first.rowid, last.rowid),
            _ => return None,
        };
        if rowid < low || rowid > high {
            return None;
        }
        let found = rows.binary_search_by(|row| {
            let order = row.rowid.cmp(&rowid);
            if is_backward { order.reverse() } else { order }
        });
        match found {
            Ok(at) => (self.tail.row, self.tail.place) = (at as u32, place::VALID),
            Err(_) => self.miss(&key::of_rowid(rowid)),
        }
        Some(found.is_ok())
    }

    /// Moves to the last entry before a key, which is read when it is asked for.
    fn miss(&mut self, key: &[u8]) {
        self.own.memory.key.clear();
        self.own.memory.key.extend_from_slice(key);
        self.tail.place = place::MISS;
    }

    /// Moves to where `own.sought` is, the key of some first fields, or of all with `is_whole`. `default` says where
    /// among the entries that begin with them: before the first (1), after the last (-1), or on one (0). With
    /// `is_equal_asked`, no entry that does not begin with them is wanted.
    pub(crate) fn seek_key(&mut self, is_whole: bool, default: i32, is_equal_asked: bool) -> Outcome<Found> {
        self.check_fault()?;
        self.own.is_within_prefix = false;
        let sought = std::mem::take(&mut self.own.memory.sought);
        let found = if !self.own.memory.sought_rest.is_empty() {
            self.seek_beyond(&sought, default)
        } else if is_whole && (default == 0 || is_equal_asked) {
            self.seek_whole(&sought, default)
        } else {
            self.seek_prefix(&sought, default, is_equal_asked)
        };
        self.own.memory.sought = sought;
        found
    }

    /// Moves to the entry with a key. Unless `default` is 0, the cursor reads no other one, also after further steps.
    fn seek_whole(&mut self, sought: &[u8], default: i32) -> Outcome<Found> {
        let is_equal = if self.seek_whole_from_page(sought)? {
            self.tail.place == place::VALID && self.own.memory.first_key == sought
        } else {
            self.load_one(sought)?
        };
        if default != 0 && !key::is_cut(sought.len()) {
            self.stay_within(sought);
        }
        if !is_equal {
            self.miss(sought);
            return Ok(Found { result: -1, is_equal });
        }
        if default != 0 {
            // What was read with it comes after it, and would pass for what comes before.
            self.own.memory.rows.truncate(1);
            self.tail.row_count = 1;
            (self.tail.is_at_end, self.tail.is_backward) = (1, u8::from(default < 0));
        }
        Ok(Found { result: default, is_equal })
    }

    /// Does for the key of an index what [`Cursor::seek_from_page`] does for a rowid.
    fn seek_whole_from_page(&mut self, sought: &[u8]) -> Outcome<bool> {
        self.own.wanted = SEEK_ROWS;
        let has_pages = matches!(self.state.work, Work::Reading(AnySnapshot::Native(_)));
        // Mostly, the first look-up is the only one.
        if !has_pages || self.tail.stamp == 0 {
            return Ok(false);
        }
        let is_in_page = self.seek_in_page(sought, 1)?;
        self.own.memory.known.paging.note(is_in_page);
        if !is_in_page && self.own.memory.known.paging.is_worth_it() {
            self.load_from(sought)?;
            return Ok(true);
        }
        Ok(is_in_page)
    }

    /// Reads no entries but those that begin with a key, until the next seek.
    fn stay_within(&mut self, key: &[u8]) {
        self.own.memory.prefix.clear();
        self.own.memory.prefix.extend_from_slice(key);
        self.own.is_within_prefix = true;
    }

    /// Moves to the entry with the key `own.sought`, which is not read. Returns `false`, and stays, if columns beyond
    /// the key are sought.
    pub(crate) fn expect_sought(&mut self) -> Outcome<bool> {
        self.check_fault()?;
        self.own.is_within_prefix = false;
        let is_key = self.own.memory.sought_rest.is_empty();
        if is_key {
            let Memory { key, sought, .. } = &mut *self.own.memory;
            key.clear();
            key.extend_from_slice(sought);
            self.tail.place = place::SAVED;
        }
        Ok(is_key)
    }

    fn seek_prefix(&mut self, sought: &[u8], default: i32, is_equal_asked: bool) -> Outcome<Found> {
        self.own.wanted = if default == 0 { 1 } else { SEEK_ROWS };
        let is_open = matches!(self.state.work, Work::Open(_));
        // In a transaction, an entry beside those that are equal could be a conflict.
        if default >= 0
            && (is_equal_asked || is_open && default == 0)
            && self.seek_first(sought, default, is_open)?
        {
            let is_equal = self.tail.place == place::VALID;
            return Ok(Found { result: if is_equal { default } else { -1 }, is_equal });
        }
        if is_open && is_equal_asked && default != 0 && !key::is_cut(sought.len()) {
            return self.seek_equal(sought, default);
        }
        if default < 0 {
            return self.seek_after(sought, is_equal_asked);
        }
        if is_open && default == 0 {
            self.load_prefix(sought)?;
        } else if self.is_beyond(sought) {
            self.miss(sought);
            return Ok(Found { result: -1, is_equal: false });
        } else if !self.seek_in_page(sought, self.own.wanted.min(EQUAL_ROWS))? {
            self.load_from(sought)?;
        }
        let is_valid = self.tail.place == place::VALID;
        let is_equal = is_valid && self.own.memory.first_key.starts_with(sought);
        if !is_valid {
            self.miss(sought);
            return Ok(Found { result: -1, is_equal });
        }
        let result = if is_equal { default } else { 1 };
        Ok(Found { result, is_equal })
    }

    /// Moves to the first of the entries that begin with `sought`, and reads that alone: of a value that is unique, it
    /// is the only one. Without one, the cursor moves before where it would be. Returns `false` if another way to look
    /// for it costs less, or long keys are in the way.
    fn seek_first(&mut self, sought: &[u8], default: i32, is_open: bool) -> Outcome<bool> {
        // A page that is read pays if others are sought in it, and the first look-up mostly is the only one.
        let has_batch = !is_open && (self.tail.stamp != 0 || self.is_beyond(sought));
        let is_followed = default != 0 && self.own.memory.known.is_followed;
        let is_remote = self.state.db.native().is_none();
        if has_batch
            || is_followed
            || is_remote
            || key::is_cut(sought.len())
            || self.tail.counter == counter::OWN
        {
            return Ok(false);
        }
        let Some(is_found) = self.load_first(sought)? else { return Ok(false) };
        if default != 0 {
            self.stay_within(sought);
        }
        if !is_found {
            self.miss(sought);
        }
        Ok(true)
    }

    /// Moves to the first of the entries that begin with `sought`, or with a negative `default` to the last. The cursor
    /// reads no others, also after further steps.
    fn seek_equal(&mut self, sought: &[u8], default: i32) -> Outcome<Found> {
        self.stay_within(sought);
        self.load(From::End, default < 0)?;
        let is_equal = self.tail.place == place::VALID;
        if !is_equal {
            self.miss(sought);
        }
        Ok(Found { result: if is_equal { default } else { -1 }, is_equal })
    }

    /// Moves to the first entry from a key on, and notes if there is none.
    fn load_from(&mut self, key: &[u8]) -> Outcome<()> {
        self.load(From::Key(key), false)?;
        if self.tail.place != place::VALID && matches!(self.state.work, Work::Reading(_)) {
            self.own.memory.beyond.clear();
            self.own.memory.beyond.extend_from_slice(key);
            self.own.memory.known.beyond_stamp = self.own.tree.version.get();
        }
        Ok(())
    }

    /// Returns whether a key is known to be after all entries: a join may seek many that are. In a transaction it would
    /// have to be read.
    fn is_beyond(&self, key: &[u8]) -> bool {
        let is_known = self.own.memory.known.beyond_stamp == self.own.tree.version.get();
        is_known && matches!(self.state.work, Work::Reading(_)) && *key >= self.own.memory.beyond[..]
    }

    /// Moves to a whole key of a `WITHOUT ROWID` table, and compares `own.sought_rest` with the other columns of the
    /// one row that can have it.
    fn seek_beyond(&mut self, sought: &[u8], default: i32) -> Outcome<Found> {
        if !self.load_one(sought)? {
            self.miss(sought);
            return Ok(Found { result: -1, is_equal: false });
        }
        let (record, mut rest) = (self.own.memory.record(0), Vec::new());
        if let Some(shape) = &self.own.shape {
            shape.rest_of(record, &mut rest)?;
        }
        let is_equal = rest.starts_with(&self.own.memory.sought_rest);
        let result = if is_equal { default } else { rest.cmp(&self.own.memory.sought_rest) as i32 };
        Ok(Found { result, is_equal })
    }

    /// Moves to the last entry that begins with `sought` or comes before it.
    fn seek_after(&mut self, sought: &[u8], is_equal_asked: bool) -> Outcome<Found> {
        match pando::keys::prefix_end(sought) {
            Some(end) => self.miss(&end),
            // Every key begins with a byte below 255, unless it is all fields of a descending index.
            None => {
                self.load(From::End, true)?;
                let is_equal =
                    self.tail.place == place::VALID && self.own.memory.first_key.starts_with(sought);
                return Ok(Found { result: -1, is_equal });
            }
        }
        let mut is_equal = false;
        if is_equal_asked {
            self.load_saved(true)?;
            is_equal = self.tail.place == place::VALID && self.own.memory.first_key.starts_with(sought);
        }
        Ok(Found { result: Ordering::Less as i32, is_equal })
    }
}
