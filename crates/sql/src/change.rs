//! Carries out `INSERT`, `UPDATE` and `DELETE` of one row.
//!
//! Constraints are checked in this order: types, `NOT NULL`, `CHECK`, the primary key, unique indexes. A row that
//! breaks one writes nothing. SQLite then decides about the statement by the code that it gets: `Failure::code` of
//! [`PandoTable::refused`].

use crate::affinity::{Affinity, is_unsure};
use crate::answer::to_owned;
use crate::catalog::RowId;
use crate::column::SqlColumn;
use crate::failure::{Failure, Outcome};
use crate::session::{Conflict, Conflicts};
use crate::table::PandoTable;
use crate::vtab::{self, Change, OnConflict, Row};
use pando::WriteTables;
use rows::{Cause, ColumnType, DynamicTable, KeyRange, Value};
use rusqlite::ffi;
use rusqlite::types::ValueRef;
use std::borrow::Cow;
use std::ffi::c_int;

/// The first version of SQLite in which a virtual table can report which constraint a row breaks, regardless of how the
/// statement handles it.
const KNOWS_EXTENDED_CODES: i32 = 3_054_000;

/// Converts a value to a column's type; `Err` returns a value that cannot be converted.
pub(crate) fn coerce(kind: ColumnType, value: Value<'_>) -> Result<Value<'_>, Value<'_>> {
    match (kind, value) {
        (_, Value::Null) => Ok(Value::Null),
        (ColumnType::Any, value) => Ok(value),
        (ColumnType::Int, value @ Value::Int(_))
        | (ColumnType::Float, value @ Value::Float(_))
        | (ColumnType::Text, value @ Value::Text(_))
        | (ColumnType::Bytes, value @ Value::Bytes(_)) => Ok(value),
        (ColumnType::Bool, Value::Int(number @ 0..=1)) => Ok(Value::Bool(number == 1)),
        (ColumnType::UInt, Value::Int(number)) if number >= 0 => Ok(Value::UInt(number as u64)),
        (ColumnType::Timestamp, Value::Int(number)) => Ok(Value::Timestamp(number)),
        (ColumnType::Uuid, Value::Bytes(bytes)) => match <[u8; 16]>::try_from(&bytes[..]) {
            Ok(uuid) => Ok(Value::Uuid(uuid)),
            Err(_) => Err(Value::Bytes(bytes)),
        },
        (ColumnType::Json, Value::Text(text)) => match rows::check_json(&text) {
            Ok(()) => Ok(Value::Json(text)),
            Err(_) => Err(Value::Text(text)),
        },
        (_, value) => Err(value),
    }
}

fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Float(_) => "REAL",
        Value::Text(_) | Value::Json(_) => "TEXT",
        Value::Bytes(_) | Value::Uuid(_) => "BLOB",
        _ => "INTEGER",
    }
}

impl PandoTable {
    /// Carries out a change. Returns the id of a new row, if rows have ids.
    pub fn change(&self, change: Change<'_>) -> Outcome<Option<i64>> {
        match change {
            Change::Delete { id } => {
                let key = self.key_of(id)?;
                self.tables
                    .session
                    .write(|tx| Ok(self.table.rows.delete_at(tx, &key)))?
                    .map_err(|e| self.to_failure(e))?;
                Ok(None)
            }
            Change::Insert { id, row, on_conflict } => self.insert(id, &row, on_conflict),
            Change::Update { old, new, row, on_conflict } => self.replace(old, new, &row, on_conflict),
        }
    }

    fn insert(&self, id: ValueRef<'_>, row: &Row<'_>, on_conflict: OnConflict) -> Outcome<Option<i64>> {
        if self.session().is_of_others() {
            self.check_of_others(row)?;
        }
        self.check_of_trigger(row)?;
        let mut values = self.spare.take();
        self.read_values(row, on_conflict, &mut values)?;
        let id = self.insert_values(id, row, &mut values, on_conflict)?;
        self.spare.keep(values);
        Ok(id)
    }

    fn insert_values<'v>(
        &self,
        id: ValueRef<'_>,
        row: &Row<'v>,
        values: &mut Vec<Value<'v>>,
        on_conflict: OnConflict,
    ) -> Outcome<Option<i64>> {
        if self.table.key_column().is_some_and(|column| row.get(column) != ValueRef::Null) {
            return Err(self.key_is_given());
        }
        let (place, is_given) = match self.table.row_id {
            RowId::Key => (None, true),
            RowId::Hidden => (Some(0), id != ValueRef::Null),
            RowId::Column(place) => (Some(place), id != ValueRef::Null || !values[place].is_null()),
        };
        if let (Some(place), true, true) = (place, is_given, values[place.unwrap_or(0)].is_null()) {
            values[place] = given_id(id)?;
        }
        let is_noted = self.until_free(values, on_conflict, |values| {
            loop {
                if let (Some(place), false) = (place, is_given) {
                    values[place] = Value::Int(self.next_row_id()?);
                }
                self.check(values, on_conflict)?;
                if let (Some(place), true) = (place, is_given) {
                    self.note_row_id(integer(&values[place]))?;
                }
                let (inserted, is_noted) =
                    self.tables.session.write_row(|tx| Ok(self.table.rows.insert(tx, values)))?;
                match inserted {
                    Err(error) if !is_given && is_duplicate_key(&error) => self.pass_over_row_ids()?,
                    inserted => return Ok(inserted.map(|()| is_noted)),
                }
            }
        })?;
        if is_noted {
            self.note_written(values)?;
        }
        Ok(place.map(|place| integer(&values[place])))
    }

    /// Writes a row until no other row conflicts with it. If it fails nevertheless, the rows that `OR REPLACE` has
    /// deleted are restored.
    fn until_free<'v, T>(
        &self,
        values: &mut Vec<Value<'v>>,
        on_conflict: OnConflict,
        mut write: impl FnMut(&mut Vec<Value<'v>>) -> Outcome<pando::Result<T>>,
    ) -> Outcome<T> {
        let mut before = None;
        let done = loop {
            let error = match write(values) {
                Ok(Ok(done)) => break Ok(done),
                Ok(Err(error)) => error,
                Err(failure) => break Err(failure),
            };
            if on_conflict == OnConflict::Replace && before.is_none() {
                before = Some(self.session().write(|tx| Ok(tx.savepoint()))?);
            }
            if let Err(failure) = self.resolve(error, values, on_conflict) {
                break Err(failure);
            }
        };
        if let Some(before) = before {
            self.session().write(|tx| {
                if done.is_err() {
                    tx.rollback_to(&before)?;
                }
                Ok(tx.release(&before)?)
            })?;
        }
        done
    }

    /// Refuses a statement that sets the key as one value.
    #[cold]
    fn key_is_given(&self) -> Failure {
        Failure::error(format!("table {} has no row ids that can be set", self.table.name()))
    }

    fn replace(
        &self,
        old: ValueRef<'_>,
        new: ValueRef<'_>,
        row: &Row<'_>,
        on_conflict: OnConflict,
    ) -> Outcome<Option<i64>> {
        let key = self.key_of(old)?;
        let mut values = Vec::new();
        self.read_values(row, on_conflict, &mut values)?;
        match self.table.row_id {
            RowId::Hidden => values[0] = given_id(new)?,
            RowId::Column(place) if values[place].is_null() => {
                return Err(Failure::new(ffi::SQLITE_MISMATCH, "datatype mismatch"));
            }
            // `UPDATE t SET rowid = ...`.
            RowId::Column(place) if new != old => values[place] = given_id(new)?,
            RowId::Key if new != old => return Err(self.key_is_given()),
            RowId::Column(_) | RowId::Key => {}
        }
        self.check(&values, on_conflict)?;
        if let RowId::Column(place) = self.table.row_id {
            self.note_row_id(integer(&values[place]))?;
        }
        self.until_free(&mut values, on_conflict, |values| {
            self.session().write(|tx| Ok(self.table.rows.replace_at(tx, &key, values)))
        })?;
        self.note_written(&values)?;
        Ok(None)
    }

    /// Collects the row's values by column, converted to the columns' types, with nulls where they are allowed.
    fn read_values<'v>(
        &self,
        row: &Row<'v>,
        on_conflict: OnConflict,
        values: &mut Vec<Value<'v>>,
    ) -> Outcome {
        let table = &self.table;
        values.reserve(table.columns.len() + 1);
        if self.hidden > 0 {
            values.push(Value::Null);
        }
        for (place, column) in table.columns.iter().enumerate() {
            // The most frequent case comes first: the value has the type of its column.
            let value = match (row.get(place), column.kind, column.affinity) {
                (ValueRef::Integer(number), ColumnType::Int, Affinity::Integer) => Value::Int(number),
                (ValueRef::Text(text), ColumnType::Text, Affinity::Text) => match str::from_utf8(text) {
                    Ok(text) => Value::Text(Cow::Borrowed(text)),
                    Err(_) => return Err(self.not_text(column, on_conflict)),
                },
                (value, ..) => self.coaxed(value, place, column, on_conflict)?,
            };
            values.push(value);
        }
        Ok(())
    }

    /// Converts a value to the type of its column.
    fn coaxed<'v>(
        &self,
        value: ValueRef<'v>,
        place: usize,
        column: &SqlColumn,
        on_conflict: OnConflict,
    ) -> Outcome<Value<'v>> {
        if self.table.rows.may_convert() && column.affinity.is_numeric() && is_unsure(value) {
            let what = "text that only SQLite's library can convert to a number";
            return Err(mistyped(on_conflict, self.misfit(column, what)));
        }
        let value = column.affinity.apply(value).ok_or_else(|| self.not_text(column, on_conflict))?;
        let is_row_id = self.table.row_id == RowId::Column(place);
        match coerce(column.kind, value) {
            Ok(Value::Null) if !column.is_nullable && !is_row_id => self.instead_of_null(column, on_conflict),
            Ok(value) => Ok(value),
            Err(_) if is_row_id => Err(Failure::new(ffi::SQLITE_MISMATCH, "datatype mismatch")),
            Err(value) => {
                let mut message = self.misfit(column, &format!("{} value", type_name(&value)));
                if let (ColumnType::Json, Value::Text(text)) = (column.kind, &value)
                    && let Err(error) = rows::check_json(text)
                {
                    message = format!("{message}: {error}");
                }
                Err(mistyped(on_conflict, message))
            }
        }
    }

    #[cold]
    fn not_text(&self, column: &SqlColumn, on_conflict: OnConflict) -> Failure {
        mistyped(on_conflict, self.misfit(column, "text that is not UTF-8"))
    }

    fn misfit(&self, column: &SqlColumn, what: &str) -> String {
        let kind = match column.kind {
            ColumnType::Int => "INTEGER",
            ColumnType::Float => "REAL",
            ColumnType::Text => "TEXT",
            ColumnType::Bytes => "BLOB",
            other => other.name(),
        };
        format!("cannot store {what} in {kind} column {}.{}", self.table.name(), column.name)
    }

    /// Returns the default for `OR REPLACE` in a column that allows no null.
    fn instead_of_null(&self, column: &SqlColumn, on_conflict: OnConflict) -> Outcome<Value<'static>> {
        let schema = self.table.rows.schema();
        let known = schema.columns().find(|known| known.name() == column.name);
        match known.and_then(|known| known.default_value()) {
            Some(value) if on_conflict == OnConflict::Replace && !value.is_null() => Ok(value.clone()),
            _ => {
                let message = format!("NOT NULL constraint failed: {}.{}", self.table.name(), column.name);
                Err(self.refused(on_conflict, ffi::SQLITE_CONSTRAINT_NOTNULL, message))
            }
        }
    }

    /// Handles a row that could not be written, according to `on_conflict`: returns an error, or removes the
    /// conflicting rows so that the write can be tried again.
    fn resolve(&self, error: pando::Error, values: &[Value<'_>], on_conflict: OnConflict) -> Outcome {
        let Some(Cause::Duplicate { index, columns, .. }) = Cause::in_error(&error) else {
            return Err(self.to_failure(error));
        };
        if on_conflict == OnConflict::Replace {
            let key = self.key_in_the_way(index.as_deref(), values)?;
            self.tables
                .session
                .write(|tx| Ok(self.table.rows.delete(tx, &key)))?
                .map_err(|e| self.to_failure(e))?;
            return Ok(());
        }
        let Failure { code, message, .. } = Failure::duplicate(self.table.name(), index.is_none(), columns);
        if self.tables.session.watch(|watch| watch.conflicts.is_some()) {
            let found = self.all_in_the_way(values)?;
            // If none was found, the conflict was in an index that SQL does not know.
            if !found.is_empty() {
                self.tables.session.watch(|watch| watch.conflicts = Some(Conflicts { found, refused: None }));
                return Err(Failure::new(ffi::SQLITE_CONSTRAINT, message));
            }
        }
        Err(self.refused(on_conflict, code, message))
    }

    /// Returns the primary key of the row that has these unique values.
    fn key_in_the_way(&self, index: Option<&str>, values: &[Value<'_>]) -> Outcome<Vec<Value<'static>>> {
        let Some(index) = index else { return Ok(key_values(&self.table.rows, values)) };
        let gone = || {
            Failure::new(
                ffi::SQLITE_CORRUPT,
                format!("index {index} refers to a row that does not exist; run `pando check`"),
            )
        };
        self.found_by(index, values)?.ok_or_else(gone)
    }

    /// Returns the primary key of the row that has the same values in a unique index. Rows with a null there are
    /// equal to none.
    fn found_by(&self, index: &str, values: &[Value<'_>]) -> Outcome<Option<Vec<Value<'static>>>> {
        let rows = &self.table.rows;
        let wanted = rows.index_values(index, values).map_err(|error| self.to_failure(error))?;
        if wanted.iter().any(Value::is_null) {
            return Ok(None);
        }
        let found = self.tables.session.write(|tx| {
            let range = KeyRange::prefix(&wanted);
            let scan = rows.scan_index(tx, index, &range);
            Ok(scan.and_then(|mut scan| scan.next_with(|row| key_values(rows, &row))))
        })?;
        found.map_err(|error| self.to_failure(error))
    }

    /// Returns the conflicting rows, one for each constraint.
    fn all_in_the_way(&self, values: &[Value<'_>]) -> Outcome<Vec<Conflict>> {
        let (rows, name) = (&self.table.rows, self.table.name());
        let mut all = Vec::new();
        let names = |parts: &[rows::Part]| parts.iter().map(part_name).collect();
        let mut add = |is_key: bool, columns: Vec<String>, key| {
            let failure = Failure::duplicate(name, is_key, &columns);
            all.push(Conflict { columns, key, failure });
        };
        let key = key_values(rows, values);
        let is_there = self.tables.session.write(|tx| Ok(rows.contains(tx, &key)))?;
        if is_there.map_err(|error| self.to_failure(error))? {
            add(true, names(rows.schema().key()), key);
        }
        for index in rows.schema().indexes().iter().filter(|index| index.is_unique() && !index.is_building())
        {
            if let Some(key) = self.found_by(index.name(), values)? {
                add(false, names(index.parts()), key);
            }
        }
        Ok(all)
    }

    /// Returns the failure of a row that breaks a constraint. An older SQLite skips the row, or keeps what the
    /// statement has done, only for the plain code. `ON CONFLICT` concerns conflicting rows, and skips no others.
    pub(crate) fn refused(&self, on_conflict: OnConflict, code: c_int, message: String) -> Failure {
        self.tables.session.watch(|watch| {
            if let Some(conflicts) = &mut watch.conflicts {
                conflicts.refused = Some(Failure::new(code, message.clone()));
            }
        });
        let is_old = vtab::version_number() < KNOWS_EXTENDED_CODES;
        let code = if is_old && on_conflict != OnConflict::Abort { ffi::SQLITE_CONSTRAINT } else { code };
        Failure::new(code, message)
    }

    fn note_written(&self, values: &[Value<'_>]) -> Outcome {
        self.tables.session.watch(|watch| {
            let Some(written) = &mut watch.written else { return Ok(()) };
            let key = key_values(&self.table.rows, values);
            let bytes = key.iter().map(held_bytes).sum();
            written.push(key);
            watch.hold(bytes)
        })
    }

    /// Returns the primary key of the row that SQLite identifies by an id or by that key.
    fn key_of(&self, id: ValueRef<'_>) -> Outcome<Vec<u8>> {
        match id {
            ValueRef::Integer(id) => {
                self.table.rows.key_bytes(&[Value::Int(id)]).map_err(|e| self.to_failure(e))
            }
            ValueRef::Blob(key) => Ok(key.to_vec()),
            other => unreachable!("a row is known by an id or a key, not by {other:?}"),
        }
    }
}

/// Returns the name of a part: its column, and its path if it is a value within a document.
pub(crate) fn part_name(part: &rows::Part) -> String {
    format!("{}{}", part.column(), part.pointer().unwrap_or_default())
}

/// Returns the failure of a value that has another type than its column. It is not a conflict with a row, so `OR
/// IGNORE` and similar clauses do not continue without the row. SQLite's `STRICT` tables do the same; a virtual table
/// has no constraint code for it.
#[cold]
fn mistyped(on_conflict: OnConflict, message: String) -> Failure {
    let code = match on_conflict {
        OnConflict::Abort => ffi::SQLITE_CONSTRAINT_DATATYPE,
        _ => ffi::SQLITE_MISMATCH,
    };
    Failure::new(code, message)
}

/// Returns the values of a row's primary key.
fn key_values(rows: &DynamicTable, row: &[Value<'_>]) -> Vec<Value<'static>> {
    let schema = rows.schema();
    let places = schema.key().iter().map(|part| schema.place(part.column()).expect("a key is of columns"));
    places.map(|place| row[place].borrowed().into_owned()).collect()
}

fn is_duplicate_key(error: &pando::Error) -> bool {
    matches!(Cause::in_error(error), Some(Cause::Duplicate { index: None, .. }))
}

pub(crate) fn integer(value: &Value<'_>) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => unreachable!("a row's id is an integer, not {other}"),
    }
}

fn given_id<'v>(id: ValueRef<'_>) -> Outcome<Value<'v>> {
    match Affinity::Integer.apply(id) {
        Some(Value::Int(id)) => Ok(Value::Int(id)),
        _ => Err(Failure::new(ffi::SQLITE_MISMATCH, "datatype mismatch")),
    }
}

/// Returns the approximate memory of a value.
fn held_bytes(value: &Value<'_>) -> usize {
    let outside = match value {
        Value::Text(text) | Value::Json(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Value<'_>>() + outside
}

/// Converts a value to SQLite's type.
pub(crate) fn sqlite_value(value: &Value<'_>) -> rusqlite::types::Value {
    to_owned(lent_value(value))
}

/// Converts a value to SQLite's type without copying it.
pub(crate) fn lent_value<'v>(value: &'v Value<'_>) -> ValueRef<'v> {
    match value {
        Value::Null => ValueRef::Null,
        Value::Bool(value) => ValueRef::Integer((*value).into()),
        Value::Int(value) | Value::Timestamp(value) => ValueRef::Integer(*value),
        Value::UInt(value) => i64::try_from(*value).map_or(ValueRef::Real(*value as f64), ValueRef::Integer),
        Value::Float(value) => ValueRef::Real(*value),
        Value::Text(text) | Value::Json(text) => ValueRef::Text(text.as_bytes()),
        Value::Bytes(bytes) => ValueRef::Blob(bytes),
        Value::Uuid(bytes) => ValueRef::Blob(bytes),
    }
}
