//! Changes as lines of JSON, with rows in place of what the engine stores for them.
//!
//! ```json
//! {"commit":7,"op":"define","type":"table","name":"people","table":"people","sql":"CREATE TABLE people(...)"}
//! {"commit":8,"op":"put","table":"people","key":{"id":3},"row":{"id":3,"name":"Ann"}}
//! {"commit":9,"op":"delete","table":"people","key":{"id":3}}
//! ```
//! 1. Entries of indexes and other records of the engine's own are left out. Plain tables are as in `changes.rs`.
//! 2. Where a key does not follow from its bytes, both lines have `key_hex`, so that they can be matched.
//! 3. A row that cannot be shown has `unknown`, which says why. If not even its table is known, the line is in every
//!    selection of tables.

use crate::send::changes::{Ended, LONGEST_BYTES, begin, lines_of, member, write_date, write_operation};
use crate::send::rows::{write_json, write_row};
use crate::wire::digits::write_digits;
use pando::changes::TableChange;
use pando::{Change, Database, Operation};
use rows::{Changed, ChangedRows, DynamicTable, Named, Value};
use serde_json::json as object;
use std::io::Write as _;

/// A writer of such lines: call [`RowLines::write`] with one change after the other.
#[derive(Debug)]
pub struct RowLines {
    rows: ChangedRows,
    /// The tables that are shown; none: all.
    tables: Vec<String>,
    most_bytes: Option<u64>,
}

impl RowLines {
    /// Begins after the commit of number `after`, the [position](pando::Changes::position) of a reader without filter.
    /// Changes of other tables than `tables` are left out, unless there are none.
    ///
    /// # Errors
    /// Those of [`ChangedRows::begin`].
    pub fn begin(db: &Database, after: u64, tables: Vec<String>) -> pando::Result<Self> {
        Ok(RowLines { rows: ChangedRows::begin(db, after)?, tables, most_bytes: None })
    }

    /// Cuts each value to `most_bytes` bytes.
    pub(crate) fn cut(mut self, most_bytes: Option<u64>) -> Self {
        self.most_bytes = most_bytes;
        self
    }

    /// Calls `write` on each line of `change`, without its line feed, and with whether the line is the last one, that
    /// of the commit. A change that has none of the tables has no line. Returns whether there was a line.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// use rows::{Column, ColumnType, Definition, DynamicTable, Value};
    /// let db = pando::Database::builder().in_memory()?;
    /// let fruit = Definition::new("fruit").column(Column::new("name", ColumnType::Text)).key(["name"]);
    /// let fruit = db.write(|tx| DynamicTable::create(tx, &fruit))?;
    /// let mut changes = db.changes(1)?;
    /// let mut rows = pando_server::RowLines::begin(&db, 1, Vec::new())?;
    /// db.write(|tx| fruit.insert(tx, &[Value::from("fig")]))?;
    /// let change = changes.next()?.expect("the row");
    /// let mut lines = Vec::new();
    /// rows.write(&change, |line, _is_last| -> Result<(), ()> {
    ///     lines.push(String::from_utf8_lossy(line).into_owned());
    ///     Ok(())
    /// })
    /// .unwrap();
    /// assert_eq!(lines[0], r#"{"commit":2,"op":"put","table":"fruit","key":{"name":"fig"},"row":{"name":"fig"}}"#);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An error of reading the change or of `write`.
    pub fn write<E>(
        &mut self,
        change: &Change<'_>,
        write: impl FnMut(&[u8], bool) -> Result<(), E>,
    ) -> Result<bool, Ended<E>> {
        self.rows.enter(change)?;
        let (rows, tables, most_bytes) = (&mut self.rows, &self.tables, self.most_bytes);
        let each = |operation: Operation<'_>, line: &mut Vec<u8>| {
            let changed = rows.decode(&operation, LONGEST_BYTES)?;
            if !tables.is_empty() && !concerns(&changed, &operation, tables) {
                return Ok(false);
            }
            match changed {
                Changed::Internal => return Ok(false),
                Changed::Plain => write_operation(operation, most_bytes, line)?,
                changed => write_changed(&changed, &operation, most_bytes, line),
            }
            Ok(true)
        };
        lines_of(change, tables.is_empty(), each, write)
    }
}

/// Returns whether an operation concerns one of the tables. SQL compares names regardless of case.
fn concerns(changed: &Changed<'_>, operation: &Operation<'_>, tables: &[String]) -> bool {
    let is_one = |name: &str| tables.iter().any(|table| table.eq_ignore_ascii_case(name));
    let is_plain = |name: &str| tables.iter().any(|table| table == name);
    match (changed, operation) {
        (Changed::Plain, Operation::Table(TableChange::Renamed { from, table })) => {
            is_plain(from) || is_plain(table.name())
        }
        (Changed::Plain, operation) => is_plain(operation.table_name()),
        (Changed::Defined(defined), _) => {
            is_one(defined.named.table)
                || defined.renamed_from.is_some_and(is_one)
                || defined.in_place_of.is_some_and(|other| is_one(other.table))
        }
        (Changed::Unknown { table: None, .. }, _) => true,
        (changed, _) => changed.table().is_some_and(is_one),
    }
}

fn write_changed(
    changed: &Changed<'_>,
    operation: &Operation<'_>,
    most_bytes: Option<u64>,
    line: &mut Vec<u8>,
) {
    match changed {
        Changed::Put { table, row, has_key } => {
            begin("put", table.name(), line);
            match has_key {
                true => write_key_of(table, table.key_columns().map(|(place, _)| &row[place]), line),
                false => write_key(operation, line),
            }
            line.extend_from_slice(b",\"row\":");
            let most = most_bytes.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
            let named = table.schema().columns().map(|column| (column.name(), column.column_type()));
            let cut = write_row(named.zip(row).map(|((name, kind), value)| (name, kind, value)), most, line);
            if !cut.is_empty() {
                line.extend_from_slice(b",\"cut\":");
                write_json(&cut, line);
            }
            if let Operation::Put { table, value, .. } = operation {
                write_date(value, table.has_ttl_by_key(), line);
            }
        }
        Changed::Deleted { table, key } => {
            begin("delete", table.name(), line);
            match key {
                Some(key) => write_key_of(table, key.iter(), line),
                None => write_key(operation, line),
            }
        }
        Changed::DeletedRange { table, is_all: true } => begin("clear", table.name(), line),
        Changed::DeletedRange { table, .. } => {
            begin("delete_range", table.name(), line);
            write_key(operation, line);
        }
        Changed::Defined(defined) => {
            line.extend_from_slice(b"\"define\"");
            write_named(defined.named, line);
            if let Some(sql) = defined.sql {
                member("sql", sql.as_bytes(), line);
            }
            if let Some(schema) = defined.schema {
                line.extend_from_slice(b",\"schema\":");
                write_json(&schema.to_json(), line);
            }
            if let Some(name) = defined.renamed_from {
                member("from", name.as_bytes(), line);
            }
            if let Some(Named { kind, name, table, .. }) = defined.in_place_of {
                line.extend_from_slice(b",\"dropped\":");
                write_json(&object!({ "type": kind, "name": name, "table": table }), line);
            }
        }
        Changed::Dropped(named) => {
            line.extend_from_slice(b"\"drop\"");
            write_named(*named, line);
        }
        Changed::Hidden { table, key, why } => {
            begin("put", table.name(), line);
            match key {
                Some(key) => write_key_of(table, key.iter(), line),
                None => write_key(operation, line),
            }
            member("unknown", why.as_bytes(), line);
        }
        Changed::Unknown { table, why } => {
            let op = match operation {
                Operation::Put { .. } => "put",
                Operation::Delete { .. } => "delete",
                Operation::DeleteRange { .. } => "delete_range",
                Operation::Table(_) => "drop",
            };
            let _ = write!(line, "\"{op}\"");
            match table {
                Some(table) => member("table", table.as_bytes(), line),
                None => member("stored_in", operation.table_name().as_bytes(), line),
            }
            write_key(operation, line);
            member("unknown", why.as_bytes(), line);
        }
        // `RowLines::write` has no line for them.
        _ => {}
    }
}

fn write_named(named: Named<'_>, line: &mut Vec<u8>) {
    member("type", named.kind.as_bytes(), line);
    member("name", named.name.as_bytes(), line);
    member("table", named.table.as_bytes(), line);
}

/// Writes a primary key as an object.
fn write_key_of<'v>(
    table: &'v DynamicTable,
    key: impl Iterator<Item = &'v Value<'static>>,
    line: &mut Vec<u8>,
) {
    let columns = table.key_columns().zip(key);
    let named = columns.map(|((_, column), value)| (column.name(), column.column_type(), value));
    line.extend_from_slice(b",\"key\":");
    // Keys are short.
    write_row(named, usize::MAX, line);
}

/// Writes the stored key of an operation, or its range of keys.
fn write_key(operation: &Operation<'_>, line: &mut Vec<u8>) {
    let mut digits = |name: &str, bytes: &[u8]| {
        let _ = write!(line, ",\"{name}\":\"");
        write_digits(bytes, line);
        line.push(b'"');
    };
    match operation {
        Operation::Put { key, .. } | Operation::Delete { key, .. } => digits("key_hex", key),
        Operation::DeleteRange { start, end, .. } => {
            digits("start_hex", start);
            if let Some(end) = end {
                digits("end_hex", end);
            }
        }
        Operation::Table(_) => {}
    }
}
