//! The result of a statement: a sequence of rows and their values.

use crate::error::Result;
use crate::machine::{self, row_column_names, row_prepared_anew};
use rusqlite::types::{Value, ValueRef};
use std::borrow::Cow;
use std::fmt;

/// Returns a copy of a value. In text that is not UTF-8, replacement characters replace the invalid bytes.
pub fn to_owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// The rows of a statement, one after the other. Call [`Rows::next`] until it returns `None`.
pub struct Rows<'s> {
    pub(crate) columns: Cow<'s, [String]>,
    pub(crate) source: RowSource<'s>,
    pub(crate) changes: u64,
}

/// A row of SQLite's, lent until the next one.
#[cfg(feature = "loadable")]
type LentRow<'r> = &'r machine::Row<'r>;
#[cfg(not(feature = "loadable"))]
type LentRow<'r> = machine::Row<'r>;

/// The source of rows.
pub(crate) enum RowSource<'s> {
    /// Rows of SQLite, and how often the statement had been prepared again before the first row was fetched.
    Sqlite(machine::Rows<'s>, Option<i32>),
    /// Rows that are already computed, and the current one.
    Held(std::vec::IntoIter<Vec<Value>>, Option<Vec<Value>>),
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl Rows<'_> {
    /// Returns the names of the columns, or an empty slice if the statement is not a query. They can change until the
    /// first row is read: if another connection alters the table, the statement is prepared again.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of rows that the statement has inserted, updated or deleted.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Moves to the next row and returns it, or `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "a row is lent until the next call")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        match &mut self.source {
            RowSource::Sqlite(rows, before) => {
                let row = rows.next()?;
                if let (Some(row), Some(before)) = (&row, before.take())
                    && row_prepared_anew(row) != before
                {
                    self.columns = Cow::Owned(row_column_names(row));
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
    Sqlite(LentRow<'r>),
    Held(&'r [Value]),
}

impl Row<'_> {
    /// Returns the number of columns.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the row has no columns.
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
