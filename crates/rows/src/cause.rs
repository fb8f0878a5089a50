//! The causes for which a row is rejected, for programs: the source of the [`pando::Error`] that describes it to
//! people.

use pando::{Error, ErrorKind};
use std::fmt;

/// The reason why a row or a handle was rejected. [`Cause::in_error`] finds it in an error.
///
/// ```
/// # use pando_rows::{Cause, Column, ColumnType, Definition, DynamicTable, Value};
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// let definition = Definition::new("t").column(Column::new("id", ColumnType::Int)).key(["id"]);
/// let error = db.write(|tx| {
///     let table = DynamicTable::create(tx, &definition)?;
///     table.insert(tx, &[Value::Int(1)])?;
///     table.insert(tx, &[Value::Int(1)])
/// }).unwrap_err();
/// assert_eq!(error.kind(), pando::ErrorKind::Exists);
/// assert!(matches!(Cause::in_error(&error), Some(Cause::Duplicate { index: None, .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Another row already has these values. The error's kind is `Exists`.
    Duplicate {
        /// The name of the typed table.
        table: String,
        /// The name of the unique index; `None` for the primary key.
        index: Option<String>,
        /// The columns whose values must be unique together.
        columns: Vec<String>,
    },
    /// The value of a column that is not nullable is null. The kind is `Invalid`.
    Null {
        /// The name of the typed table.
        table: String,
        /// The name of the column.
        column: String,
    },
    /// A value has a type other than its column's. The kind is `Invalid`.
    WrongType {
        /// The name of the typed table.
        table: String,
        /// The name of the column.
        column: String,
    },
    /// The row has more or fewer values than the table has columns, or the key has more values than parts. The kind
    /// is `Invalid`.
    WrongCount {
        /// The name of the typed table.
        table: String,
    },
    /// The values of a key or of an index entry are together longer than a key can be. The kind is `Invalid`.
    TooLong {
        /// The name of the typed table.
        table: String,
        /// The name of the index; `None` for the primary key.
        index: Option<String>,
    },
    /// SQL created the table, and only SQL can do this, for example change the definition of the table, or write to it
    /// if it has a trigger. The kind is `Invalid`.
    MadeBySqlite {
        /// The name of the table.
        table: String,
        /// The reason why this library cannot do it.
        reason: String,
    },
    /// The table was altered, renamed or dropped after the handle was opened, or does not exist yet in this snapshot.
    /// Open the table again. The kind is `Missing`.
    SchemaChanged {
        /// The name of the typed table.
        table: String,
    },
}

impl Cause {
    /// Returns the cause of `error`, or `None` if this crate gave it no cause.
    #[must_use]
    pub fn in_error(error: &Error) -> Option<&Cause> {
        std::error::Error::source(error)?.downcast_ref()
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Cause::Duplicate { .. } => ErrorKind::Exists,
            Cause::SchemaChanged { .. } => ErrorKind::Missing,
            _ => ErrorKind::Invalid,
        }
    }

    /// Returns an error with a message that precedes the description of the cause.
    #[cold]
    pub(crate) fn error(self, message: impl Into<String>) -> Error {
        Error::new(self.kind(), message).caused_by(self)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Duplicate { index: None, columns, .. } => {
                write!(f, "the primary key ({}) must be unique", columns.join(", "))
            }
            Cause::Duplicate { index: Some(index), columns, .. } => {
                write!(f, "index {index:?} ({}) must be unique", columns.join(", "))
            }
            Cause::Null { column, .. } => write!(f, "column {column:?} may not be null"),
            Cause::WrongType { column, .. } => write!(f, "column {column:?} has another type"),
            Cause::WrongCount { .. } => f.write_str("the number of values is wrong"),
            Cause::TooLong { index: None, .. } => f.write_str("the primary key is too long"),
            Cause::TooLong { index: Some(index), .. } => write!(f, "the key of index {index:?} is too long"),
            Cause::MadeBySqlite { reason, .. } => write!(f, "only SQL can do that: {reason}"),
            Cause::SchemaChanged { .. } => f.write_str("the schema has changed; open the table again"),
        }
    }
}

impl std::error::Error for Cause {}
