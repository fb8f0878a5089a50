//! The failure of a callback: a result code for SQLite and a message.

use pando::remote::Reason;
use pando::{Error, ErrorKind};
use rows::Cause;
use rusqlite::ffi;
use std::ffi::c_int;

/// The code of a closed database, which is also `pando_sqlite`'s. SQLite's own detailed codes of `SQLITE_ERROR` are
/// small.
pub(crate) const CLOSED: c_int = ffi::SQLITE_ERROR | 255 << 8;

/// The result of a callback.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// A result code of SQLite, and a message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: c_int,
    pub message: String,
    /// What it says about the remote store in which the database is.
    pub reason: Option<Reason>,
}

impl Failure {
    #[cold]
    pub fn new(code: c_int, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), reason: None }
    }

    /// Creates a plain error: the statement asks for something impossible.
    #[cold]
    pub fn error(message: impl Into<String>) -> Self {
        Failure::new(ffi::SQLITE_ERROR, message)
    }

    /// Creates the failure of a row whose unique values exist, in SQLite's words.
    #[cold]
    pub fn duplicate(table: &str, is_key: bool, columns: &[String]) -> Self {
        let columns: Vec<_> = columns.iter().map(|column| format!("{table}.{column}")).collect();
        let code = if is_key { ffi::SQLITE_CONSTRAINT_PRIMARYKEY } else { ffi::SQLITE_CONSTRAINT_UNIQUE };
        Failure::new(code, format!("UNIQUE constraint failed: {}", columns.join(", ")))
    }

    /// Checks the result code of a call of SQLite.
    pub fn check(code: c_int, what: &str) -> Outcome {
        match code {
            ffi::SQLITE_OK => Ok(()),
            _ => Err(Failure::new(code, format!("{what} failed: {}", ffi::code_to_str(code)))),
        }
    }
}

#[cfg(not(feature = "loadable"))]
impl From<pando_sqlite::Error> for Failure {
    fn from(error: pando_sqlite::Error) -> Self {
        Failure { reason: error.reason(), ..Failure::new(error.code, error.message) }
    }
}

/// The code depends on what a caller can do. A conflict is [`ffi::SQLITE_BUSY_SNAPSHOT`]: running the transaction again
/// can succeed, and waiting longer, as for `SQLITE_BUSY`, cannot.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let source = std::error::Error::source(&error);
        if let Some(own) = source.and_then(|source| source.downcast_ref::<crate::Error>()) {
            return Failure::new(own.code(), own.message());
        }
        if let Some(Cause::Duplicate { table, index, columns }) = Cause::in_error(&error) {
            return Failure::duplicate(table, index.is_none(), columns);
        }
        let code = match error.kind() {
            ErrorKind::Conflict | ErrorKind::SnapshotTooOld => ffi::SQLITE_BUSY_SNAPSHOT,
            ErrorKind::Closed => CLOSED,
            ErrorKind::Full => ffi::SQLITE_FULL,
            ErrorKind::Exists => ffi::SQLITE_CONSTRAINT,
            ErrorKind::Locked => ffi::SQLITE_BUSY,
            ErrorKind::ReadOnly => ffi::SQLITE_READONLY,
            ErrorKind::Foreign => ffi::SQLITE_NOTADB,
            ErrorKind::Corruption => ffi::SQLITE_CORRUPT,
            ErrorKind::Io | ErrorKind::Latched | ErrorKind::Indeterminate => ffi::SQLITE_IOERR,
            _ => ffi::SQLITE_ERROR,
        };
        let reason = Reason::in_error(&error);
        // After other codes SQLite undoes the whole transaction, and what follows would commit by itself.
        let code = if reason.is_some() { ffi::SQLITE_ERROR } else { code };
        Failure { reason, ..Failure::new(code, error.to_string()) }
    }
}
