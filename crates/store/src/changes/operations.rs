//! The operations of a commit, one after the other.
//!
//! A record holds, in this order: the runs that a large transaction attached; rows of the catalog; and, table by table,
//! range deletes, then puts and deletes by key. They are returned in an order in which they can be applied:
//! 1. Changes of whole tables, so that a table exists before anything is put into it.
//! 2. The attached runs, oldest first in each table: the range deletes of each, then its records.
//! 3. The rest of the record.
//!
//! Operations on a table that the same commit dropped are left out.

use super::change::Change;
use super::value::ChangeValue;
use crate::state::names::{TableChange, TableInfo};
use base::op::{DELTA_BYTES, Decoder, Op};
use base::slots::Reader;
use base::{Error, Result, TableId};
use page::Value;
use run::{Cursor, Delta};
use std::collections::VecDeque;
use std::fmt;

/// One operation of a commit. Its keys are borrowed until the next call.
#[derive(Clone, Debug)]
pub enum Operation<'a> {
    /// A change of a whole table.
    Table(&'a TableChange),
    /// A put: `key` now has this value.
    Put {
        /// The table.
        table: &'a TableInfo,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: ChangeValue<'a>,
    },
    /// A delete: `key` is now absent.
    Delete {
        /// The table.
        table: &'a TableInfo,
        /// The key.
        key: &'a [u8],
    },
    /// A range delete: all keys at or after `start` and before `end` are now absent.
    DeleteRange {
        /// The table.
        table: &'a TableInfo,
        /// The first key.
        start: &'a [u8],
        /// The first key after the range; `None` if the range extends to the end of the table.
        end: Option<&'a [u8]>,
    },
}

impl<'a> Operation<'a> {
    /// Returns the name of the table that the operation concerns, as of the commit.
    pub fn table_name(&self) -> &'a str {
        match self {
            Operation::Table(change) => change.name(),
            Operation::Put { table, .. }
            | Operation::Delete { table, .. }
            | Operation::DeleteRange { table, .. } => table.name(),
        }
    }
}

/// The operations of a [`Change`]: call [`Operations::next`] until it returns `None`.
pub struct Operations<'f> {
    change: Change<'f>,
    reader: Option<Reader>,
    /// The next change of a table.
    next_table: usize,
    /// The runs that are still to be read, oldest first.
    attached: VecDeque<(TableId, &'f [u8; DELTA_BYTES])>,
    run: Option<Attached>,
    rest: Decoder<'f>,
    /// The table of the current operation.
    table: Option<TableInfo>,
    at: At<'f>,
}

/// The run that is being read.
struct Attached {
    delta: Delta,
    cursor: Cursor,
    next_range: usize,
    is_in_records: bool,
}

/// The current operation.
#[derive(Clone, Copy)]
enum At<'f> {
    Nothing,
    Table(usize),
    Range(usize),
    Record,
    Logged(Op<'f>),
}

impl fmt::Debug for Operations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations").field("commit", &self.change.commit_number()).finish_non_exhaustive()
    }
}

impl<'f> Operations<'f> {
    pub(super) fn begin(change: Change<'f>) -> Result<Self> {
        let mut rest = Decoder::begin(change.record).ok_or_else(no_record)?;
        let mut attached = VecDeque::new();
        while let Some((table, Op::Attach { delta, .. })) = rest.clone().next() {
            attached.push_back((table, delta));
            rest.next();
        }
        let reader = match attached.is_empty() {
            true => None,
            false => Some(change.guard.store.slots.claim_or_full()?),
        };
        let (run, table, at) = (None, None, At::Nothing);
        Ok(Operations { change, reader, next_table: 0, attached, run, rest, table, at })
    }

    /// Returns the next operation, or `None` after the last.
    ///
    /// # Errors
    /// [`TooOld`](base::ErrorKind::TooOld) if the feed has lost its position; `Corruption`; errors of reading.
    #[allow(clippy::should_implement_trait)] // It lends: an iterator cannot.
    pub fn next(&mut self) -> Result<Option<Operation<'_>>> {
        match self.advance()? {
            true => self.operation().map(Some),
            false => Ok(None),
        }
    }

    /// Moves to the next operation. Returns false after the last.
    ///
    /// # Errors
    /// As [`Operations::next`].
    pub fn advance(&mut self) -> Result<bool> {
        let advanced = self.go_on();
        self.change.guard.judge(advanced)
    }

    /// Returns whether there is a current operation.
    pub fn is_at_operation(&self) -> bool {
        !matches!(self.at, At::Nothing)
    }

    fn go_on(&mut self) -> Result<bool> {
        if self.next_table < self.change.tables().len() {
            self.at = At::Table(self.next_table);
            self.next_table += 1;
            return Ok(true);
        }
        while self.run.is_some() || !self.attached.is_empty() {
            if self.advance_in_run()? {
                return Ok(true);
            }
        }
        while let Some((table, op)) = self.rest.next() {
            if table != TableId::CATALOG && self.enter(table) {
                self.at = At::Logged(op);
                return Ok(true);
            }
        }
        self.at = At::Nothing;
        match self.rest.clone().finish() {
            Some([]) => Ok(false),
            _ => Err(no_record()),
        }
    }

    /// Continues in the current run, or opens the next one. Returns whether there is a current operation.
    fn advance_in_run(&mut self) -> Result<bool> {
        let (pool, reader) =
            (&self.change.guard.store.pool, self.reader.as_ref().expect("claimed for attached runs"));
        let Some(run) = &mut self.run else {
            let Some((table, delta)) = self.attached.pop_front() else { return Ok(false) };
            if !self.enter(table) {
                return Ok(false);
            }
            let reader = self.reader.as_ref().expect("claimed for attached runs");
            let delta = Delta::decode(delta, pool, reader)?;
            let cursor = Cursor::new(delta.records);
            self.run = Some(Attached { delta, cursor, next_range: 0, is_in_records: false });
            return Ok(false);
        };
        if run.delta.ranges.get(run.next_range).is_some() {
            self.at = At::Range(run.next_range);
            run.next_range += 1;
            return Ok(true);
        }
        let is_at_record = match run.is_in_records {
            true => run.cursor.next(pool, reader)?,
            false => run.cursor.seek_first(pool, reader)?,
        };
        run.is_in_records = true;
        self.at = At::Record;
        if !is_at_record {
            self.run = None;
        }
        Ok(is_at_record)
    }

    /// Makes `table` the current one. Returns whether it exists after the commit.
    fn enter(&mut self, table: TableId) -> bool {
        if self.table.as_ref().is_some_and(|current| current.id() == table) {
            return true;
        }
        let Some(named) = self.change.current.names.get(&table) else { return false };
        self.table = Some(named.clone());
        true
    }

    /// Returns the current operation.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if the operation is not valid.
    ///
    /// # Panics
    /// If there is no current operation.
    pub fn operation(&self) -> Result<Operation<'_>> {
        if let At::Table(at) = self.at {
            return Ok(Operation::Table(&self.change.tables()[at]));
        }
        let table = self.table.as_ref().expect("an operation has a table");
        let run = || self.run.as_ref().expect("a run is being read");
        match self.at {
            At::Nothing | At::Table(_) => unreachable!("there is a current operation"),
            At::Range(at) => {
                let (start, end) = run().delta.ranges.get(at).expect("it was counted");
                Ok(Operation::DeleteRange { table, start, end })
            }
            At::Record => {
                let (key, value) = run().cursor.entry().expect("the cursor is on a record");
                self.put_or_delete(table, key, value)
            }
            At::Logged(op) => match op {
                Op::Put { key, value } => self.put_or_delete(table, key, Value::Inline(value)),
                Op::PutLarge { key, large } => self.put_or_delete(table, key, Value::Large(large)),
                Op::Delete { key } => Ok(Operation::Delete { table, key }),
                Op::DeleteRange { start, end } => Ok(Operation::DeleteRange { table, start, end }),
                Op::Attach { .. } => Err(Error::corruption("a commit attached a run after other operations")),
            },
        }
    }

    fn put_or_delete<'a>(
        &'a self,
        table: &'a TableInfo,
        key: &'a [u8],
        value: Value<'a>,
    ) -> Result<Operation<'a>> {
        Ok(match ChangeValue::new(self.change.guard, value, table.row.ttl.is_some())? {
            Some(value) => Operation::Put { table, key, value },
            None => Operation::Delete { table, key },
        })
    }
}

#[cold]
fn no_record() -> Error {
    Error::corruption("its checksum is correct, but it is not a commit record")
}
