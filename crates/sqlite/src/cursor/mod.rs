//! A cursor on a tree: where it is, and the batch of rows around it.
//!
//! # Places
//! SQLite's interface has a cursor on an entry, or nowhere. Ours also has places whose entry was not read yet, so that
//! a look-up costs one read, and nothing is read that is not asked for:
//!
//! | place | meaning | `Next` goes to | `Previous` goes to |
//! |---|---|---|---|
//! | `EOF` | no entry | nothing | nothing |
//! | `VALID` | on a row of the batch | the entry after it | the entry before it |
//! | `SAVED` | on the entry with the saved key, which is to be read again | the entry after the key | before the key |
//! | `GAP` | where the entry with the saved key was deleted | the same | the same |
//! | `MISS` | on the last entry before the saved key | the first entry from the key on | two before the key |
//! | `FAULT` | every use fails | | |
//!
//! # Batches
//! Rows are read into the cursor's memory, a few after a seek, twice as many with each further batch. No
//! snapshot and no lock is held between two calls, so the connection may write while cursors are open. A write changes
//! the version of its tree; a cursor whose batch is older keeps its row, and reads again after the row's key. The
//! cursor that changes or deletes the row that it is on does the same to its batch, and goes on in it.
//!
//! Records that lie in pages stay there, and the batch keeps the pages ([`pando::LentRun`]); others are copied. Outside
//! of a transaction, the rest of the last page belongs to the batch: the next rows are shown without a search, and a
//! seek of a key that is in the page goes there. In a transaction they would count as read before they are asked for.
//!
//! The keys of this module are whole; `batch` alone knows that long ones are stored in another way.

mod batch;
mod change;
mod group;
mod partial;
mod seek;

pub(crate) use change::count_some;

use self::partial::{LEAST_BYTES, LONG_BYTES, own_row};
use crate::failure::{ABORT_ROLLBACK, CORRUPT, Failure, Outcome, not_a_rowid};
use crate::memory::Memory;
use crate::state::{State, Tree, Work, read};
use crate::sys::{PandoCursor, Row, counter, place};
use pando::{Beginning, ReadTables};
use sqlite_format::key::{self, Shape};
use std::rc::Rc;

/// The rows of the first batch after a seek, and of the first one of a scan from an end.
const SEEK_ROWS: usize = 4;
/// The rows that a seek in a page shows at first: mostly one is equal, and the next one is not.
const EQUAL_ROWS: usize = 2;
const SCAN_ROWS: usize = 32;
/// The rows of the second batch after a seek, at least. Twice as many follow each time, so that at most about twice as
/// many rows are read as are used.
const RANGE_ROWS: usize = 16;
/// How far from the last rowid another one may be sought so that the rows from there on are read with it.
const NEAR: i64 = 4;
/// The rows of a batch after one that was thrown away: a statement that changes what it scans by another cursor does
/// this to each batch.
const FEW_ROWS: usize = 2;
/// The most rows of a batch: at 100 bytes a row it stays in the processor's second cache.
const MOST_ROWS: usize = 512;
/// The most rows of a batch of which the cursor changes some: the others count as read, and a change of them by others
/// is a conflict.
const MOST_CHANGED_ROWS: usize = 64;
/// The bytes from which on a batch takes no more rows.
const MOST_BYTES: usize = 64 << 10;
/// The most pages in which records of a batch stay in place: as much memory as [`MOST_BYTES`] copied.
const MOST_RUNS: usize = 4;

/// The part of a cursor that only Rust knows.
#[derive(Debug)]
pub(crate) struct Own {
    pub state: *mut State,
    pub tree: Rc<Tree>,
    /// The order of an index. `None`: rows by rowid.
    pub shape: Option<Rc<Shape>>,
    pub memory: Box<Memory>,
    /// How many rows the next batch has.
    wanted: usize,
    /// Whether the next row that is put has a rowid that was given for it.
    is_numbered: bool,
    /// The rowid from which the batch has all rows, if it was read for a seek.
    near_from: Option<i64>,
    /// Whether only entries that begin with `memory.prefix` are read, until the next seek.
    is_within_prefix: bool,
    /// Whether the batch is the first of the entries that begin with what was sought, read alone.
    is_first_alone: bool,
    /// Whether an interrupt does not end what is read, because C has no way to return that.
    must_end: bool,
    /// Whether the batch begins with the first row, and how many rows the next such batch has.
    is_first: bool,
    first_rows: usize,
    /// How many rows of the batch were completed, and how many batches more are read with whole records.
    completed: usize,
    whole_batches: usize,
    /// Whether the cursor has changed a row of a batch, and whether it is where it deleted one.
    is_writing: bool,
    has_gap: bool,
}

impl Own {
    pub(crate) fn new(
        state: *mut State,
        tree: Rc<Tree>,
        shape: Option<Rc<Shape>>,
        memory: Box<Memory>,
    ) -> Own {
        let (wanted, is_numbered, near_from) = (SEEK_ROWS, false, None);
        let (is_first, first_rows, is_writing, has_gap) = (false, SCAN_ROWS, false, false);
        let (completed, whole_batches) = (0, 0);
        Own {
            state,
            tree,
            shape,
            memory,
            wanted,
            is_numbered,
            near_from,
            is_within_prefix: false,
            is_first_alone: false,
            must_end: false,
            is_first,
            first_rows,
            completed,
            whole_batches,
            is_writing,
            has_gap,
        }
    }

    /// Forgets what is known of the batch, which is read anew.
    fn forget_batch(&mut self) {
        (self.near_from, self.is_first, self.is_first_alone, self.has_gap) = (None, false, false, false);
        self.memory.clear_batch();
    }
}

/// A cursor during a call.
pub(crate) struct Cursor<'c> {
    pub tail: &'c mut PandoCursor,
    pub own: &'c mut Own,
    pub state: &'c mut State,
}

/// The keys that a batch begins from.
#[derive(Clone, Copy, Debug)]
enum From<'k> {
    /// From an end of the tree.
    End,
    /// From a key on, in descending order before it.
    Key(&'k [u8]),
    /// After a key.
    After(&'k [u8]),
}

impl Cursor<'_> {
    /// Returns whether the cursor is on a row, and the tree was not changed since the row was read.
    fn is_fresh(&self) -> bool {
        self.tail.place == place::VALID && self.tail.stamp == self.own.tree.version.get()
    }

    /// Moves to the first or the last entry.
    pub(crate) fn move_to_end(&mut self, is_last: bool) -> Outcome<()> {
        self.check_fault()?;
        if let (counter::OWN, Work::Open(open)) = (self.tail.counter, &mut self.state.work) {
            open.counters_of(&self.own.tree);
        }
        self.own.is_within_prefix = false;
        if is_last {
            self.own.wanted = SCAN_ROWS;
            return self.load(From::End, true);
        }
        if self.rewind() {
            return Ok(());
        }
        // A join often goes through a table once for each row of another, and left the first batch each time. In a
        // transaction, what is read ahead could be a conflict.
        let is_reading = matches!(self.state.work, Work::Reading(_));
        self.own.wanted = if is_reading { self.own.first_rows } else { SCAN_ROWS };
        self.own.first_rows = (self.own.first_rows * 2).min(MOST_ROWS);
        self.load(From::End, false)?;
        self.own.is_first = true;
        Ok(())
    }

    /// Moves to the first row within the batch. Returns whether the batch has it.
    fn rewind(&mut self) -> bool {
        let is_current = self.tail.stamp == self.own.tree.version.get();
        if !(self.own.is_first && is_current && self.tail.counter == counter::NONE) {
            return false;
        }
        // Without a row, the first one was deleted, and what follows is not known.
        if self.tail.row_count == 0 && self.tail.is_at_end == 0 {
            return false;
        }
        self.own.has_gap = false;
        self.tail.row = 0;
        self.tail.place = if self.tail.row_count == 0 { place::EOF } else { place::VALID };
        true
    }

    /// Moves to the next or the previous entry, beyond what the batch has. Returns whether there is one.
    pub(crate) fn step(&mut self, is_backward: bool) -> Outcome<bool> {
        self.check_fault()?;
        match self.tail.place {
            place::EOF => return Ok(false),
            place::MISS if is_backward => {
                self.own.wanted = SEEK_ROWS;
                self.load_saved(true)?;
                if self.tail.place != place::VALID {
                    return Ok(false);
                }
                if self.tail.row_count > 1 {
                    self.tail.row = 1;
                    return Ok(true);
                }
            }
            place::MISS => {
                self.load_saved(false)?;
                return Ok(self.tail.place == place::VALID);
            }
            place::GAP => {
                let is_of_batch = std::mem::take(&mut self.own.has_gap);
                if is_of_batch && self.tail.stamp == self.own.tree.version.get() {
                    if let Some(is_on_row) = self.step_from_gap(is_backward) {
                        return Ok(is_on_row);
                    }
                    self.want_more();
                } else {
                    self.own.wanted = FEW_ROWS;
                }
            }
            _ => {}
        }
        if self.tail.place == place::VALID {
            if self.is_fresh() {
                if self.is_exhausted(is_backward) {
                    self.tail.place = place::EOF;
                    return Ok(false);
                }
                self.own.memory.known.is_followed |= self.own.is_first_alone;
                self.want_more();
                if !is_backward && self.show_rest()? {
                    return Ok(true);
                }
            } else {
                self.own.wanted = FEW_ROWS;
            }
            self.save_key()?;
        }
        let key = std::mem::take(&mut self.own.memory.key);
        let loaded = self.load(if is_backward { From::Key(&key) } else { From::After(&key) }, is_backward);
        self.own.memory.key = key;
        loaded?;
        Ok(self.tail.place == place::VALID)
    }

    /// Makes the next batch longer.
    fn want_more(&mut self) {
        let most = if self.own.is_writing { MOST_CHANGED_ROWS } else { MOST_ROWS };
        self.own.wanted = (self.own.wanted * 2).clamp(RANGE_ROWS, most);
    }

    /// Returns whether the batch is known to end with the tree, and the cursor to be on its last row.
    fn is_exhausted(&self, is_backward: bool) -> bool {
        let tail = &self.tail;
        tail.is_at_end != 0 && (tail.is_backward != 0) == is_backward && tail.row + 1 == tail.row_count
    }

    /// Reads the row that the cursor is on, if that was put off.
    pub(crate) fn ensure(&mut self) -> Outcome<()> {
        self.check_fault()?;
        match self.tail.place {
            place::MISS => {
                self.own.wanted = SEEK_ROWS;
                self.own.must_end = true;
                let loaded = self.load_saved(true);
                self.own.must_end = false;
                loaded
            }
            place::SAVED => self.restore().map(drop),
            _ => Ok(()),
        }
    }

    /// Reads the row again that the cursor was on. Returns whether that does not exist any more.
    pub(crate) fn restore(&mut self) -> Outcome<bool> {
        self.check_fault()?;
        match self.tail.place {
            place::VALID if self.is_fresh() => return Ok(false),
            place::VALID => self.save_key()?,
            place::SAVED => {}
            place::MISS => {
                self.ensure()?;
                return Ok(self.tail.place != place::VALID);
            }
            _ => return Ok(true),
        }
        let key = std::mem::take(&mut self.own.memory.key);
        let found = self.load_one(&key);
        self.own.memory.key = key;
        if !found? {
            self.tail.place = place::GAP;
        }
        Ok(self.tail.place != place::VALID)
    }

    /// Reads the first of the entries of an index that begin with `sought`, and moves to it. Returns whether there is
    /// one; `None` if its key is too long for its place to be known.
    fn load_first(&mut self, sought: &[u8]) -> Outcome<Option<bool>> {
        self.tail.place = place::EOF;
        let (own, state) = (&mut *self.own, &*self.state);
        own.forget_batch();
        let Memory { rows, records, first_key, .. } = &mut *own.memory;
        let copy = |rest: &[u8], record: &[u8]| -> Outcome<bool> {
            if key::is_cut(sought.len() + rest.len()) {
                return Ok(false);
            }
            let bytes = length(record.len() as u64)?;
            first_key.clear();
            first_key.extend_from_slice(sought);
            first_key.extend_from_slice(rest);
            rows.push(Row::whole(0, records.copy(record), bytes));
            Ok(true)
        };
        let found = read!(state, reader => {
            reader.first_with_prefix(&own.tree.table, sought, copy).map_err(Failure::from)
        })?;
        match found.transpose()? {
            Some(false) => return Ok(None),
            Some(true) => own.is_first_alone = true,
            None => {}
        }
        self.show(false, false);
        Ok(Some(self.tail.place == place::VALID))
    }

    fn check_fault(&self) -> Outcome<()> {
        if self.tail.place == place::FAULT {
            // SQLite's words, which programs compare.
            let message = match self.tail.fault {
                ABORT_ROLLBACK => "abort due to ROLLBACK",
                _ => "query aborted",
            };
            return Err(Failure::new(self.tail.fault, message));
        }
        Ok(())
    }

    /// Saves the key of the row that the cursor is on.
    fn save_key(&mut self) -> Outcome<()> {
        let own = &mut *self.own;
        let row = own.memory.rows[self.tail.row as usize];
        match &own.shape {
            None => {
                own.memory.key.clear();
                own.memory.key.extend_from_slice(&key::of_rowid(row.rowid));
            }
            Some(shape) => {
                let Memory { records, key, .. } = &mut *own.memory;
                shape.key_of(records.get(&row), key)?;
            }
        }
        Ok(())
    }

    /// Returns the key of the current entry.
    fn current_key(&mut self) -> Outcome<()> {
        match self.tail.place {
            place::VALID => self.save_key(),
            place::SAVED => Ok(()),
            place::MISS => {
                self.ensure()?;
                if self.tail.place == place::VALID { self.save_key() } else { Err(nowhere()) }
            }
            _ => Err(nowhere()),
        }
    }

    fn load_saved(&mut self, is_backward: bool) -> Outcome<()> {
        let key = std::mem::take(&mut self.own.memory.key);
        let loaded = self.load(From::Key(&key), is_backward);
        self.own.memory.key = key;
        loaded
    }

    /// Reads the entry with a key. Returns whether there is one.
    fn load_one(&mut self, key: &[u8]) -> Outcome<bool> {
        self.tail.place = place::EOF;
        let (own, state) = (&mut *self.own, &*self.state);
        own.forget_batch();
        let rowid = if own.shape.is_none() { key::rowid_of(key, &[]).ok_or_else(not_a_rowid)? } else { 0 };
        let (table, records) = (&own.tree.table, &mut own.memory.records);
        let (key, may_cut) = (key::stored(key), own.shape.is_none() && state.db.native().is_some());
        let whole_bytes = if may_cut { LONG_BYTES } else { usize::MAX };
        let found = read!(state, reader => {
            let copy = |value: Beginning<'_>| {
                length(value.len_bytes).map(|_| own_row(records, rowid, value, may_cut))
            };
            reader.get_beginning(table, key, whole_bytes, copy).map_err(Failure::from)
        })?;
        let Some(row) = found.transpose()? else { return Ok(false) };
        own.memory.rows.push(row);
        if row.here < row.bytes && (row.here as usize) < LEAST_BYTES {
            self.complete_at(0)?;
        }
        self.show(false, false);
        Ok(true)
    }

    /// Shows C the batch.
    fn show(&mut self, is_backward: bool, is_at_end: bool) {
        let (tail, own) = (&mut *self.tail, &mut *self.own);
        own.memory.records.end();
        tail.row = 0;
        // A batch has fewer rows than bytes, and those are counted in 32 bits.
        tail.row_count = own.memory.rows.len() as u32;
        tail.rows = own.memory.rows.as_ptr();
        tail.is_backward = u8::from(is_backward);
        tail.is_at_end = u8::from(is_at_end);
        tail.stamp = own.tree.version.get();
        tail.place = if own.memory.rows.is_empty() { place::EOF } else { place::VALID };
    }
}

/// Returns the error of a change at a cursor that is on no entry.
fn nowhere() -> Failure {
    Failure::new(CORRUPT, "a change of an entry that does not exist: an index disagrees with its table")
}

fn length(bytes: u64) -> Outcome<u32> {
    u32::try_from(bytes).map_err(|_| Failure::new(crate::failure::TOOBIG, "a record has 4 GiB or more"))
}
