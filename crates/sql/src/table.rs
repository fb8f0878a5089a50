//! A typed table as a virtual table: [`PandoTable`], its scans ([`PandoCursor`]), and the table without rows that
//! reading transactions take part with ([`MarkerTable`]). What a change of a row does is in `change.rs`.

use crate::catalog::{RowId, SqlTable};
use crate::failure::{Failure, Outcome};
use crate::plan::{self, Asked, Edge, Plan};
use crate::session::{Session, with_reader};
use crate::tables::Tables;
use crate::vtab::{Arguments, Change, Choice, Connect, Constraint, Cursor, Host, Query, Table};
use rows::{Batch, BatchScan, Bounds, Cause, ColumnType, Value};
use rusqlite::ffi;
use rusqlite::types::ValueRef;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

/// A table of a connection.
pub(crate) struct PandoTable {
    pub table: Arc<SqlTable>,
    pub tables: Arc<Tables>,
    pub host: Host,
    /// What the connection knew when this was connected: [`Tables::generation`].
    generation: u64,
}

/// What a connection knows a table's name by.
pub(crate) struct Connector {
    pub table: Arc<SqlTable>,
    pub tables: Arc<Tables>,
}

impl Connect<PandoTable> for Connector {
    fn connect(&self, host: Host) -> Outcome<PandoTable> {
        let (table, tables) = (Arc::clone(&self.table), Arc::clone(&self.tables));
        let generation = tables.generation();
        Ok(PandoTable { table, tables, host, generation })
    }
}

impl PandoTable {
    fn session(&self) -> &Session {
        &self.tables.session
    }

    /// That the table is as the connection knows it now; if not, SQLite is told to prepare the statement anew.
    pub fn is_current(&self) -> Outcome {
        if self.session().take_undone() {
            self.tables.reload(self.host)?;
        }
        if self.generation == self.tables.generation() {
            return Ok(());
        }
        let name = self.table.name();
        Err(Failure::new(
            ffi::SQLITE_SCHEMA,
            format!("table {name} was read again since the statement was prepared"),
        ))
    }

    /// An error of the engine. If it says that the table's schema is another one by now, the connection reads the
    /// schemas again, and SQLite is told to prepare the statement anew.
    pub fn told(&self, error: pando::Error) -> Failure {
        if matches!(Cause::of(&error), Some(Cause::SchemaChanged { .. })) {
            return match self.tables.reload(self.host) {
                Ok(()) => Failure::new(ffi::SQLITE_SCHEMA, error.to_string()),
                Err(failure) => failure,
            };
        }
        Failure::from(error)
    }
}

impl Table for PandoTable {
    type Cursor = PandoCursor;

    fn declaration(&self) -> String {
        self.table.declaration()
    }

    fn best_index(&self, query: &Query<'_>) -> Outcome<Choice> {
        let data = self.table.rows.data();
        let rows = match &self.tables.latest_snapshot() {
            Ok(snapshot) => snapshot.approximate_len(data).unwrap_or(DEFAULT_ROWS),
            Err(_) => DEFAULT_ROWS,
        };
        let row_id = match self.table.row_id {
            RowId::Column(column) => Some(column),
            _ => None,
        };
        // A made row id is in no way.
        let is_known = |column: Option<usize>| column.is_some() || self.table.row_id != RowId::Made;
        let constraints = query.constraints().into_iter();
        let constraints: Vec<_> = constraints
            .map(|(index, constraint)| {
                let column = constraint.column.or(row_id);
                (index, Constraint { column, ..constraint })
            })
            .filter(|(_, constraint)| constraint.is_limit() || is_known(constraint.column))
            .collect();
        let order: Vec<_> =
            query.order().into_iter().map(|(column, down)| (column.or(row_id), down)).collect();
        let uses = |column: usize| query.uses(column);
        let rows = rows.max(1) as f64;
        let asked = Asked { constraints: &constraints, order: &order, uses: &uses, rows };
        let mut choice = plan::choose(&self.table.ways, &asked);
        choice.is_ordered &=
            self.table.row_id != RowId::Made || order.iter().all(|(column, _)| column.is_some());
        Ok(choice)
    }

    fn open(&self) -> PandoCursor {
        PandoCursor {
            table: PandoTable {
                table: Arc::clone(&self.table),
                tables: Arc::clone(&self.tables),
                host: self.host,
                generation: self.generation,
            },
            scan: None,
            batch: self.session().cursor_opened(),
            row: 0,
            next_count: 0,
            values: Vec::new(),
            asked: 0,
            decoded: 0,
        }
    }

    fn update(&self, change: Change<'_>) -> Outcome<i64> {
        self.is_current()?;
        self.change(change)
    }

    fn begin(&self) -> Outcome {
        self.session().begin()
    }

    fn sync(&self) -> Outcome {
        self.tables.sync()
    }

    fn commit(&self) {
        self.session().end();
    }

    fn rollback(&self) {
        self.session().end();
    }

    fn savepoint(&self, number: i32) -> Outcome {
        self.session().savepoint(number);
        Ok(())
    }

    fn release(&self, number: i32) -> Outcome {
        self.session().release(number)
    }

    fn rollback_to(&self, number: i32) -> Outcome {
        self.session().rollback_to(number)
    }
}

/// Rows of a table whose size is not known.
const DEFAULT_ROWS: u64 = 1000;
/// Rows of the first batch of a scan, and how batches grow: little is read in vain where few rows are wanted.
const FIRST_BATCH: usize = 8;
const BATCH_GROWTH: usize = 8;
const LARGEST_BATCH: usize = 512;

/// A scan of a table.
pub(crate) struct PandoCursor {
    table: PandoTable,
    /// `None`: nothing can be found.
    scan: Option<BatchScan>,
    batch: Batch,
    /// Of the batch.
    row: usize,
    next_count: usize,
    /// The current row, by place, as far as it is decoded.
    values: Vec<Held>,
    /// Places that were asked for in this scan, as bits; the last stands for all from there on. Rows are decoded as far
    /// as an earlier one was asked for.
    asked: u64,
    /// Those of the current row that are decoded.
    decoded: u64,
}

/// The bit of a place in [`PandoCursor::asked`].
fn bit(place: usize) -> u64 {
    1 << place.min(63)
}

/// A value of the current row: what is longer than a number lies in the batch.
#[derive(Clone, Debug)]
enum Held {
    Number(ValueOf),
    Text(usize, usize),
    Bytes(usize, usize),
    Own(Value<'static>),
}

/// A number, or nothing.
#[derive(Clone, Copy, Debug)]
enum ValueOf {
    Null,
    Integer(i64),
    Real(f64),
}

impl Drop for PandoCursor {
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.table.session().cursor_closed(self.table.host, batch);
    }
}

impl PandoCursor {
    fn fill(&mut self) -> Outcome {
        self.row = 0;
        self.decoded = 0;
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
        filled.map_err(|error| self.table.told(error))?;
        self.next_count = (self.next_count * BATCH_GROWTH).min(LARGEST_BATCH);
        Ok(())
    }

    /// The bounds of a plan, or `None` if no row can be within them.
    fn bounds<'v>(&self, plan: Plan, arguments: &Arguments<'v>) -> Option<Bounds<'v>> {
        let mut bounds = Bounds::default();
        let mut at = 0;
        for part in 0..usize::from(plan.equal) {
            let (kind, affinity) = self.table.table.part_type(plan.way, part);
            let value = affinity.apply(arguments.get(at))?;
            // Nothing is null in a primary key.
            if value.is_null() && (plan.nulls >> part & 1 == 0 || plan.way == 0) {
                return None;
            }
            bounds.equal.push(fit::exactly(kind, value)?);
            at += 1;
        }
        for (edge, is_lower) in [(plan.lower, true), (plan.upper, false)] {
            if edge == Edge::Open {
                continue;
            }
            let (kind, affinity) = self.table.table.part_type(plan.way, usize::from(plan.equal));
            let value = affinity.apply(arguments.get(at))?;
            at += 1;
            if value.is_null() {
                return None;
            }
            let side = if is_lower { &mut bounds.lower } else { &mut bounds.upper };
            *side = fit::bound(kind, value, edge, is_lower)?;
        }
        // Nulls are before all values, and in no range.
        let has_upper = !matches!(bounds.upper, Bound::Unbounded);
        if plan.way > 0 && has_upper && matches!(bounds.lower, Bound::Unbounded) {
            bounds.lower = Bound::Excluded(Value::Null);
        }
        Some(bounds)
    }

    /// Sees to it that a place of the current row is decoded.
    #[inline]
    fn decode(&mut self, place: usize) -> Outcome {
        if self.decoded & bit(place) == 0 { self.decode_asked(bit(place)) } else { Ok(()) }
    }

    fn decode_asked(&mut self, more: u64) -> Outcome {
        self.asked |= more;
        let Some(scan) = &self.scan else { unreachable!("a scan without rows has no columns") };
        let (values, batch, asked) = (&mut self.values, &self.batch, self.asked);
        values.clear();
        let base = batch.bytes().as_ptr().addr();
        let found = |place: usize, value: Value<'_>| {
            if values.len() <= place {
                values.resize(place + 1, Held::Number(ValueOf::Null));
            }
            values[place] = hold(value, base);
        };
        let visited = scan.visit(batch, self.row, |place| asked & bit(place) != 0, found);
        visited.map_err(|error| self.table.told(error))?;
        self.decoded = asked;
        Ok(())
    }

    fn value(&self, place: usize) -> ValueRef<'_> {
        let bytes = self.batch.bytes();
        match self.values.get(place) {
            None | Some(Held::Number(ValueOf::Null)) => ValueRef::Null,
            Some(Held::Number(ValueOf::Integer(number))) => ValueRef::Integer(*number),
            Some(Held::Number(ValueOf::Real(number))) => ValueRef::Real(*number),
            Some(Held::Text(start, end)) => ValueRef::Text(&bytes[*start..*end]),
            Some(Held::Bytes(start, end)) => ValueRef::Blob(&bytes[*start..*end]),
            Some(Held::Own(Value::Text(text) | Value::Json(text))) => ValueRef::Text(text.as_bytes()),
            Some(Held::Own(Value::Bytes(bytes))) => ValueRef::Blob(bytes),
            Some(Held::Own(Value::Uuid(bytes))) => ValueRef::Blob(bytes),
            Some(Held::Own(other)) => unreachable!("{other} is a number"),
        }
    }

    /// A value of the current row.
    fn owned(&self, place: usize) -> Value<'static> {
        match self.value(place) {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Real(number) => Value::Float(number),
            ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Value::from(bytes.to_vec()),
        }
    }
}

/// A value that lies in the batch, whose bytes begin at address `base`, as what can be found there again.
fn hold(value: Value<'_>, base: usize) -> Held {
    let lent = |bytes: &[u8]| {
        let start = bytes.as_ptr().addr().wrapping_sub(base);
        (start, start.wrapping_add(bytes.len()))
    };
    match value {
        Value::Null => Held::Number(ValueOf::Null),
        Value::Bool(value) => Held::Number(ValueOf::Integer(value.into())),
        Value::Int(value) | Value::Timestamp(value) => Held::Number(ValueOf::Integer(value)),
        Value::UInt(value) => Held::Number(match i64::try_from(value) {
            Ok(value) => ValueOf::Integer(value),
            Err(_) => ValueOf::Real(value as f64),
        }),
        Value::Float(value) => Held::Number(ValueOf::Real(value)),
        Value::Text(std::borrow::Cow::Borrowed(text)) | Value::Json(std::borrow::Cow::Borrowed(text)) => {
            let (start, end) = lent(text.as_bytes());
            Held::Text(start, end)
        }
        Value::Bytes(std::borrow::Cow::Borrowed(bytes)) => {
            let (start, end) = lent(bytes);
            Held::Bytes(start, end)
        }
        other => Held::Own(other.into_owned()),
    }
}

impl Cursor for PandoCursor {
    fn filter(&mut self, plan: i32, arguments: &Arguments<'_>) -> Outcome {
        let plan = Plan::from_number(plan);
        self.table.session().enter(self.table.host)?;
        self.table.is_current()?;
        self.next_count = first_batch(&self.table.table, plan, arguments);
        let table = &self.table.table;
        self.scan = match self.bounds(plan, arguments) {
            Some(bounds) => {
                let index = table.index_of(plan.way);
                let entries_only = index.is_some() && plan.is_covered;
                let scan = BatchScan::new(&table.rows, index, &bounds, plan.backwards, entries_only);
                Some(scan.map_err(|error| self.table.told(error))?)
            }
            None => None,
        };
        self.fill()
    }

    fn next(&mut self) -> Outcome {
        self.row += 1;
        self.decoded = 0;
        if self.row < self.batch.len() { Ok(()) } else { self.fill() }
    }

    fn is_done(&self) -> bool {
        self.row >= self.batch.len()
    }

    fn column(&mut self, column: usize) -> Outcome<ValueRef<'_>> {
        let place = column + self.table.table.hidden();
        self.decode(place)?;
        Ok(self.value(place))
    }

    fn row_id(&mut self) -> Outcome<i64> {
        let place = match self.table.table.row_id {
            RowId::Column(place) => place,
            RowId::Hidden => 0,
            RowId::Made => {
                let table = Arc::clone(&self.table.table);
                let schema = table.rows.schema();
                let mut key = Vec::with_capacity(schema.key().len());
                for part in schema.key() {
                    let place = schema.place(part.column()).expect("a key is of columns");
                    self.decode(place)?;
                    key.push(self.owned(place));
                }
                let id = hash(&key);
                return Ok(self.table.session().row_id(schema.id(), id, key));
            }
        };
        self.decode(place)?;
        match self.value(place) {
            ValueRef::Integer(id) => Ok(id),
            other => unreachable!("a row's id is an integer, not {other:?}"),
        }
    }
}

/// How many rows are worth reading at first.
fn first_batch(table: &SqlTable, plan: Plan, arguments: &Arguments<'_>) -> usize {
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
    wanted.unwrap_or(FIRST_BATCH).clamp(1, LARGEST_BATCH)
}

/// A number that is the same for the same key.
fn hash(key: &[Value<'static>]) -> i64 {
    let mut hasher = DefaultHasher::new();
    for value in key {
        match value {
            Value::Null => 0u8.hash(&mut hasher),
            Value::Int(number) => number.hash(&mut hasher),
            Value::Float(number) => number.to_bits().hash(&mut hasher),
            Value::Text(text) => text.hash(&mut hasher),
            Value::Bytes(bytes) => bytes.hash(&mut hasher),
            _ => {}
        }
    }
    (hasher.finish() >> 1) as i64
}

/// Values of a comparison as a part of a key can hold them.
mod fit {
    use super::*;

    /// The value that a part must have to be equal to `value`; `None`: none is.
    pub fn exactly(kind: ColumnType, value: Value<'_>) -> Option<Value<'_>> {
        if value.is_null() {
            return Some(value);
        }
        match (kind, &value) {
            (ColumnType::Any, _)
            | (ColumnType::Int, Value::Int(_))
            | (ColumnType::Float, Value::Float(_))
            | (ColumnType::Text, Value::Text(_))
            | (ColumnType::Bytes, Value::Bytes(_)) => Some(value),
            _ => super::super::change::coerce(kind, value).ok(),
        }
    }

    /// A bound of a part that leaves out no value beyond `value`, and as few others as is simple; `None`: all.
    pub fn bound(kind: ColumnType, value: Value<'_>, edge: Edge, is_lower: bool) -> Option<Bound<Value<'_>>> {
        let exact = |value| match edge {
            Edge::Excluded => Bound::Excluded(value),
            _ => Bound::Included(value),
        };
        // Where types differ: numbers, then texts, then bytes. Nothing is above all, everything is above nothing.
        let rank = |value: &Value<'_>| match value {
            Value::Text(_) => 1,
            Value::Bytes(_) => 2,
            _ => 0,
        };
        let own_rank = match kind {
            ColumnType::Any => return Some(exact(value)),
            ColumnType::Text => 1,
            ColumnType::Bytes => 2,
            ColumnType::Int | ColumnType::Float => 0,
            // Of columns that SQL did not make: SQLite compares.
            _ => return Some(Bound::Unbounded),
        };
        if rank(&value) != own_rank {
            let is_beyond = (rank(&value) > own_rank) == is_lower;
            return if is_beyond { None } else { Some(Bound::Unbounded) };
        }
        Some(match (kind, value) {
            (ColumnType::Int, Value::Float(number)) => {
                Bound::Included(Value::Int(if is_lower { number.floor() } else { number.ceil() } as i64))
            }
            (ColumnType::Float, Value::Int(number)) => Bound::Included(Value::Float(number as f64)),
            (_, value) => exact(value),
        })
    }
}

/// The table without rows.
pub(crate) struct MarkerTable(pub Arc<Tables>);

pub(crate) struct MarkerConnector(pub Arc<Tables>);

impl Connect<MarkerTable> for MarkerConnector {
    fn connect(&self, _host: Host) -> Outcome<MarkerTable> {
        Ok(MarkerTable(Arc::clone(&self.0)))
    }
}

/// A scan of no rows.
pub(crate) struct Nothing;

impl Table for MarkerTable {
    type Cursor = Nothing;

    fn declaration(&self) -> String {
        "CREATE TABLE x(unused)".to_owned()
    }

    fn best_index(&self, _query: &Query<'_>) -> Outcome<Choice> {
        Ok(Choice { cost: 1.0, ..Choice::default() })
    }

    fn open(&self) -> Nothing {
        Nothing
    }

    fn update(&self, _change: Change<'_>) -> Outcome<i64> {
        Err(Failure::new(ffi::SQLITE_READONLY, "this table has no rows"))
    }

    fn begin(&self) -> Outcome {
        self.0.session.begin()
    }

    fn sync(&self) -> Outcome {
        self.0.sync()
    }

    fn commit(&self) {
        self.0.session.end();
    }

    fn rollback(&self) {
        self.0.session.end();
    }

    fn savepoint(&self, number: i32) -> Outcome {
        self.0.session.savepoint(number);
        Ok(())
    }

    fn release(&self, number: i32) -> Outcome {
        self.0.session.release(number)
    }

    fn rollback_to(&self, number: i32) -> Outcome {
        self.0.session.rollback_to(number)
    }
}

impl Cursor for Nothing {
    fn filter(&mut self, _plan: i32, _arguments: &Arguments<'_>) -> Outcome {
        Ok(())
    }

    fn next(&mut self) -> Outcome {
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }

    fn column(&mut self, _column: usize) -> Outcome<ValueRef<'_>> {
        Ok(ValueRef::Null)
    }

    fn row_id(&mut self) -> Outcome<i64> {
        Ok(0)
    }
}
