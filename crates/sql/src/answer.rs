//! The result of a statement: a sequence of rows and their values.

use crate::error::Result;
use rusqlite::StatementStatus;
use rusqlite::types::{Value, ValueRef};
use std::borrow::Cow;
use std::fmt;

/// Returns a copy of a value. In text that is not UTF-8, replacement characters stand for invalid bytes.
pub fn to_owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// Returns how often SQLite has prepared a statement again because a schema changed.
pub(crate) fn prepared_anew(statement: &rusqlite::Statement<'_>) -> i32 {
    statement.get_status(StatementStatus::RePrepare)
}

/// Returns the names of a query's columns.
pub(crate) fn column_names(statement: &rusqlite::Statement<'_>) -> Vec<String> {
    statement.column_names().map(str::to_owned).collect()
}

/// An iterator over the rows of a statement.
pub struct Rows<'s> {
    pub(crate) columns: Cow<'s, [String]>,
    pub(crate) source: RowSource<'s>,
    pub(crate) changes: u64,
}

/// The source of rows.
pub(crate) enum RowSource<'s> {
    /// Rows of SQLite, and how often the statement had been prepared again before the first row was fetched.
    Sqlite(rusqlite::Rows<'s>, Option<i32>),
    /// Rows that are already computed, and the current one.
    Held(std::vec::IntoIter<Vec<Value>>, Option<Vec<Value>>),
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl Rows<'_> {
    /// Returns the names of the columns; none if the statement is not a query. Before the first row was read they can
    /// change: if another connection alters the table, the statement is prepared again.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns how many rows the statement has inserted, updated or deleted.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Moves to the next row and returns it, or `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "a row is lent until the next call")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        match &mut self.source {
            RowSource::Sqlite(rows, before) => {
                let row = rows.next()?;
                if let (Some(row), Some(before)) = (row, before.take())
                    && prepared_anew(row.as_ref()) != before
                {
                    self.columns = Cow::Owned(column_names(row.as_ref()));
                }
                let count = self.columns.len();
                Ok(row.map(|row| Row { count, source: Lent::Sqlite(row) }))
            }
            RowSource::Held(rows, current) => {
                *current = rows.next();
                Ok(current.as_ref().map(|row| Row { count: row.len(), source: Lent::Held(row) }))
            }
        }
    }
}

/// A borrowed row.
#[derive(Debug)]
pub struct Row<'r> {
    count: usize,
    source: Lent<'r>,
}

#[derive(Debug)]
enum Lent<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Held(&'r [Value]),
}

impl Row<'_> {
    /// Returns the number of columns.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the value of a column, counted from 0.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn get(&self, column: usize) -> ValueRef<'_> {
        match &self.source {
            Lent::Sqlite(row) => row.get_ref(column).expect("a column that there is"),
            Lent::Held(row) => ValueRef::from(&row[column]),
        }
    }
}
