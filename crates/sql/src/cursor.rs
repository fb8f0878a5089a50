//! A scan of a typed table.
//!
//! 1. Rows are read in batches ([`rows::BatchScan`]): a step from row to row within one increments a number.
//! 2. The first batch is as large as what the previous scan needed, and the next ones grow, so that few rows are read
//!    in vain if few are needed. A transaction begins with a small batch, because unneeded reads can make it conflict.
//! 3. A value is decoded when SQLite asks for it, and lent from the batch; SQLite copies what it keeps.
//! 4. If the plan's keys contain everything that is needed, values are not read at all.

use crate::bounds::bounds;
use crate::catalog::{RowId, SqlTable};
use crate::failure::{Failure, Outcome};
use crate::plan::{self, Plan};
use crate::session::with_reader;
use crate::table::PandoTable;
use crate::transient::{self, Making, Transient};
use crate::vtab::{Arguments, Cursor};
use rows::{Batch, BatchScan, Bounds, ColumnType, Value};
use rusqlite::ffi;
use rusqlite::types::ValueRef;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The least number of rows in a scan's first batch, which is also the most if the needed number is unknown.
const FIRST_BATCH: usize = 8;
const LARGEST_FIRST_BATCH: usize = 128;
/// The factor by which batches grow.
const BATCH_GROWTH: usize = 8;
const LARGEST_BATCH: usize = 512;

/// The number of rows that the last scan of each way into a table needed.
#[derive(Clone, Debug)]
pub(crate) struct RowsNeeded(Arc<[AtomicUsize]>);

impl RowsNeeded {
    /// Creates it for a table with `ways` ways.
    pub fn new(ways: usize) -> Self {
        RowsNeeded((0..ways).map(|_| AtomicUsize::new(0)).collect())
    }

    // Relaxed: this is a hint, and nothing else is read by it.
    fn last(&self, way: u8) -> usize {
        self.0[usize::from(way)].load(Ordering::Relaxed)
    }

    fn note(&self, way: u8, rows: usize) {
        self.0[usize::from(way)].store(rows, Ordering::Relaxed);
    }
}

/// A scan of a table.
pub(crate) struct PandoCursor {
    table: PandoTable,
    /// The scan; `None`: nothing can be found.
    scan: Option<BatchScan>,
    /// The scans of other ranges that follow, the last one first.
    more: Vec<BatchScan>,
    way: u8,
    batch: Batch,
    /// The current row in the batch.
    row: usize,
    /// The number of rows in the batches before.
    passed: usize,
    next_count: usize,
    /// Whether a row was read before.
    has_begun: bool,
    /// A value in SQLite's form that is not in the batch.
    own: Value<'static>,
    /// The index of a plan that makes one for itself.
    transient: Transient,
}

impl Drop for PandoCursor {
    fn drop(&mut self) {
        self.note_wanted();
        let batch = std::mem::take(&mut self.batch);
        self.table.session().cursor_closed(self.table.host, batch);
    }
}

impl PandoCursor {
    /// Creates a scan without a position.
    pub fn new(table: PandoTable) -> Self {
        let batch = table.session().cursor_opened();
        let own = Value::Null;
        let (has_begun, transient) = (false, Transient::default());
        let (row, passed, next_count) = (0, 0, 0);
        let (scan, more, way) = (None, Vec::new(), 0);
        PandoCursor { table, scan, more, way, batch, row, passed, next_count, has_begun, own, transient }
    }

    /// Converts a failure during a statement. SQLite runs a statement from its beginning again if its tables were
    /// changed, which must not happen after it has returned rows.
    #[cold]
    fn within_statement(&self, failure: Failure) -> Failure {
        if !self.has_begun || failure.code != ffi::SQLITE_SCHEMA {
            return failure;
        }
        let name = self.table.table.name();
        Failure::new(ffi::SQLITE_ABORT, format!("table {name} was changed while a statement was reading it"))
    }

    fn fill(&mut self) -> Outcome {
        self.passed += self.row;
        self.row = 0;
        if self.transient.has_found() {
            return self.fill_found();
        }
        loop {
            while self.scan.as_ref().is_none_or(BatchScan::is_done)
                && let Some(next) = self.more.pop()
            {
                self.scan = Some(next);
            }
            let Some(scan) = self.scan.as_mut().filter(|scan| !scan.is_done()) else {
                self.batch.clear();
                return Ok(());
            };
            let (batch, most) = (&mut self.batch, self.next_count);
            let filled = self
                .table
                .tables
                .session
                .read(|source| Ok(with_reader!(source, reader => scan.fill(reader, most, batch))))?;
            filled.map_err(|error| self.within_statement(self.table.to_failure(error)))?;
            self.has_begun = true;
            if !self.batch.is_empty() || self.more.is_empty() {
                break;
            }
        }
        self.next_count = (self.next_count * BATCH_GROWTH).min(LARGEST_BATCH);
        Ok(())
    }

    /// Reads the next rows that the transient index has found.
    fn fill_found(&mut self) -> Outcome {
        let PandoCursor { scan: Some(scan), batch, transient, .. } = self else {
            unreachable!("what was found is of a scan")
        };
        loop {
            let keys = transient.take(self.next_count);
            let is_last = keys.is_empty();
            let keys = keys.iter().map(|key| transient.key(key));
            let filled = self
                .table
                .tables
                .session
                .read(|source| Ok(with_reader!(source, reader => scan.fill_keys(reader, keys, batch))))?;
            filled.map_err(|error| self.table.to_failure(error))?;
            if is_last || !batch.is_empty() {
                break;
            }
        }
        self.has_begun = true;
        self.next_count = (self.next_count * BATCH_GROWTH).min(LARGEST_BATCH);
        Ok(())
    }

    /// Begins a scan by a column without an index. The first scan of a statement reads all rows. Later ones find theirs
    /// by an index that the second one makes.
    fn filter_transient(&mut self, column: usize, value: ValueRef<'_>) -> Outcome {
        let all = || BatchScan::new(&self.table.table.rows, None, &Bounds::default(), false, false);
        let scan = all().map_err(|error| self.table.to_failure(error))?;
        (self.way, self.next_count) = (0, FIRST_BATCH);
        if self.transient.is_wanted() {
            let made = all().map_err(|error| self.table.to_failure(error))?;
            self.make_transient(column, made)?;
        }
        let kind = self.table.table.columns[column].kind;
        self.transient.find(kind, value);
        self.scan = Some(scan);
        self.fill()
    }

    fn make_transient(&mut self, column: usize, mut scan: BatchScan) -> Outcome {
        let place = column + self.table.hidden;
        let mut making = Making::default();
        let batch = &mut self.batch;
        while !scan.is_done() {
            let filled =
                self.table.tables.session.read(|source| {
                    Ok(with_reader!(source, reader => scan.fill(reader, LARGEST_BATCH, batch)))
                })?;
            filled.map_err(|error| self.table.to_failure(error))?;
            for row in 0..batch.len() {
                let value = scan.value(batch, row, place).map_err(|error| self.table.to_failure(error))?;
                let Some(bucket) = transient::bucket(lend(value, &mut self.own)) else { continue };
                let key = scan.key(batch, row).map_err(|error| self.table.to_failure(error))?;
                if !making.add(bucket, key) {
                    self.transient.give_up();
                    return Ok(());
                }
            }
        }
        self.transient.made(making);
        Ok(())
    }

    /// Notes how many rows the scan needed, when it is over or abandoned.
    fn note_wanted(&mut self) {
        if self.scan.take().is_some() {
            self.table.wanted.note(self.way, self.passed + self.row);
        }
    }

    /// Returns the current row's value in a column. With `is_integer`, it is first decoded as an integer.
    #[inline]
    fn value(&mut self, place: usize, is_integer: bool) -> Outcome<ValueRef<'_>> {
        let PandoCursor { scan: Some(scan), batch, own, .. } = self else {
            unreachable!("a scan without rows has no columns")
        };
        if is_integer && let Some(integer) = scan.integer(batch, self.row, place) {
            return Ok(ValueRef::Integer(integer));
        }
        // It is checked at once: a value that is lent in one arm cannot be the error of another.
        let value = match scan.value(batch, self.row, place) {
            Ok(value) => value,
            Err(error) => return Err(self.table.to_failure(error)),
        };
        Ok(lend(value, own))
    }

    /// Returns the current row's key, by which SQLite names the row to change.
    fn key(&mut self) -> Outcome<ValueRef<'_>> {
        let PandoCursor { scan: Some(scan), batch, table, .. } = self else {
            unreachable!("a scan without rows has no keys")
        };
        let key = scan.key(batch, self.row);
        key.map(ValueRef::Blob).map_err(|error| table.to_failure(error))
    }
}

/// Converts a value to SQLite's types. A value that is not in the batch is put into `own`.
#[inline]
fn lend<'v>(value: Value<'v>, own: &'v mut Value<'static>) -> ValueRef<'v> {
    match value {
        Value::Null => ValueRef::Null,
        Value::Bool(value) => ValueRef::Integer(value.into()),
        Value::Int(value) | Value::Timestamp(value) => ValueRef::Integer(value),
        Value::UInt(value) => i64::try_from(value).map_or(ValueRef::Real(value as f64), ValueRef::Integer),
        Value::Float(value) => ValueRef::Real(value),
        Value::Text(Cow::Borrowed(text)) | Value::Json(Cow::Borrowed(text)) => {
            ValueRef::Text(text.as_bytes())
        }
        Value::Bytes(Cow::Borrowed(bytes)) => ValueRef::Blob(bytes),
        other => {
            *own = other.into_owned();
            match own {
                Value::Text(text) | Value::Json(text) => ValueRef::Text(text.as_bytes()),
                Value::Bytes(bytes) => ValueRef::Blob(bytes),
                Value::Uuid(bytes) => ValueRef::Blob(bytes),
                other => unreachable!("{other} is a number"),
            }
        }
    }
}

impl Cursor for PandoCursor {
    fn filter(&mut self, plan: i32, arguments: &Arguments<'_>) -> Outcome {
        let transient = plan::transient_column(plan);
        let plan = Plan::from_number(plan);
        self.note_wanted();
        self.table.session().enter(self.table.host)?;
        self.table.is_current().map_err(|failure| self.within_statement(failure))?;
        self.more.clear();
        if let Some(column) = transient {
            (self.row, self.passed) = (0, 0);
            return self.filter_transient(column, arguments.get(0));
        }
        self.transient.leave();
        (self.way, self.row, self.passed) = (plan.way, 0, 0);
        self.next_count = self.first_batch(plan, arguments);
        let table = &self.table.table;
        let part_type = |part: usize| table.part_type(plan.way, part);
        if let Some(ranges) = bounds(plan, part_type, arguments) {
            let index = table.index_of(plan.way);
            let scan = |bounds: &Bounds<'_>| {
                let scan = BatchScan::new(&table.rows, index, bounds, plan.backwards, plan.is_covered);
                scan.map_err(|error| self.table.to_failure(error))
            };
            let first = scan(&ranges.first)?;
            self.more = ranges.others.iter().rev().map(scan).collect::<Outcome<_>>()?;
            self.scan = Some(first);
        }
        self.fill()
    }

    #[inline]
    fn next(&mut self) -> Outcome {
        self.row += 1;
        if self.row < self.batch.len() { Ok(()) } else { self.fill() }
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.row >= self.batch.len()
    }

    #[inline]
    fn column(&mut self, column: usize) -> Outcome<ValueRef<'_>> {
        if column == self.table.key_column {
            return self.key();
        }
        let is_integer = self.table.table.columns[column].kind == ColumnType::Int;
        self.value(column + self.table.hidden, is_integer)
    }

    fn row_id(&mut self) -> Outcome<i64> {
        let place = match self.table.table.row_id {
            RowId::Column(place) => place,
            RowId::Hidden => 0,
            RowId::Key => unreachable!("a table whose rows have no ids is declared WITHOUT ROWID"),
        };
        match self.value(place, true)? {
            ValueRef::Integer(id) => Ok(id),
            other => unreachable!("a row's id is an integer, not {other:?}"),
        }
    }
}

impl PandoCursor {
    /// Returns how many rows to read first.
    fn first_batch(&self, plan: Plan, arguments: &Arguments<'_>) -> usize {
        let table: &SqlTable = &self.table.table;
        if usize::from(plan.equal) >= table.ways[usize::from(plan.way)].unique_parts {
            return 1;
        }
        let count = |at: usize| match arguments.get(at) {
            ValueRef::Integer(count) => usize::try_from(count).ok(),
            _ => None,
        };
        let last = arguments.len();
        let wanted = match (plan.has_limit, plan.has_offset) {
            (true, true) => {
                count(last - 2).zip(count(last - 1)).map(|(limit, offset)| limit.saturating_add(offset))
            }
            (true, false) => count(last - 1),
            _ => None,
        };
        if let Some(wanted) = wanted {
            return wanted.clamp(1, LARGEST_BATCH);
        }
        if self.table.session().is_writing() {
            return FIRST_BATCH;
        }
        // One more row is read to detect the end.
        (self.table.wanted.last(plan.way) + 1).clamp(FIRST_BATCH, LARGEST_FIRST_BATCH)
    }
}
