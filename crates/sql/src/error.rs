//! The error of a statement.

use crate::failure::{CLOSED, Failure};
use pando::ErrorKind;
use pando::remote::Reason;
use rusqlite::ffi;
use std::ffi::c_int;
use std::fmt;

/// The result of every call in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a statement failed: a result code of SQLite (<https://www.sqlite.org/rescode.html> lists them) and a
/// message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: c_int,
    message: String,
    conflict: Option<Box<Conflict>>,
    /// What it says about the remote store in which the database is.
    reason: Option<Reason>,
}

/// The place of a conflict: what another transaction changed first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    table: String,
    key: Option<Vec<u8>>,
    /// Whether the table is one of SQL's own, and the message names it.
    is_named: bool,
}

impl Conflict {
    /// Returns the name of the table. For a conflict in an index, it is the name of the index's table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the key as it is stored, of a row or of an entry of an index. It returns `None` if the table itself was
    /// created or dropped.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }
}

impl Error {
    fn with(code: c_int, message: String) -> Self {
        Error { code, message, conflict: None, reason: None }
    }

    /// Returns the place of a conflict, if the error is a conflict of a commit. It returns `None` for all other errors,
    /// and for a conflict that is not about one table: a statement that begins to write after others have committed
    /// since it began to read.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sql = pando_sql::Sql::new(pando::Database::builder().in_memory()?);
    /// let [one, two] = [sql.connect()?, sql.connect()?];
    /// one.execute_batch("CREATE TABLE stock(id INTEGER PRIMARY KEY, count); INSERT INTO stock VALUES (7, 1)")?;
    /// for connection in [&one, &two] {
    ///     connection.execute_batch("BEGIN; UPDATE stock SET count = count + 1 WHERE id = 7")?;
    /// }
    /// one.execute_batch("COMMIT")?;
    /// let error = two.execute_batch("COMMIT").unwrap_err();
    /// assert_eq!(error.conflict().map(|conflict| conflict.table()), Some("stock"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn conflict(&self) -> Option<&Conflict> {
        self.conflict.as_deref()
    }

    /// Returns where a commit met a conflict, if the table has the engine's name.
    pub(crate) fn unnamed_conflict(&self) -> Option<&Conflict> {
        self.conflict().filter(|conflict| !conflict.is_named)
    }

    /// Returns the error with the place where it happened before its message.
    pub(crate) fn at(self, place: &str) -> Self {
        Error { message: format!("{place}: {}", self.message), ..self }
    }

    /// Returns the error of a conflict with SQL's name of the table, and with another message.
    pub(crate) fn in_words(self, table: String, message: String) -> Self {
        let named = |conflict: Box<Conflict>| Box::new(Conflict { table, is_named: true, ..*conflict });
        Error { message, conflict: self.conflict.map(named), ..self }
    }

    /// Creates a plain `SQLITE_ERROR`.
    #[cold]
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Error::with(ffi::SQLITE_ERROR, message.into())
    }

    /// Creates the error of a statement that names something forbidden.
    #[cold]
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Error::with(ffi::SQLITE_AUTH, message.into())
    }

    /// Creates the error of damaged bytes.
    #[cold]
    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Error::with(ffi::SQLITE_CORRUPT, message.into())
    }

    /// Returns the extended result code: 517 is `SQLITE_BUSY_SNAPSHOT`.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the reason why the remote store failed in which the database is, or the commit in doubt. It returns
    /// `None` for all other errors.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns whether the same transaction can succeed if you run it again: it had a conflict, and nothing was
    /// written.
    pub fn is_conflict(&self) -> bool {
        self.code == ffi::SQLITE_BUSY_SNAPSHOT
    }

    /// Returns whether the statement was stopped: by [`crate::Interrupt::interrupt`], or by the callback of
    /// [`crate::Connection::on_progress`] or [`crate::Connection::confine`].
    pub fn is_interrupted(&self) -> bool {
        self.code & 0xff == ffi::SQLITE_INTERRUPT
    }

    /// Returns whether the statement names something forbidden: to confined connections
    /// ([`crate::Connection::confine`]), or, like `CREATE VIRTUAL TABLE`, in an SQLite of another program.
    pub fn is_refused(&self) -> bool {
        self.code & 0xff == ffi::SQLITE_AUTH
    }

    /// Returns whether a row violated a constraint.
    pub fn is_constraint(&self) -> bool {
        self.code & 0xff == ffi::SQLITE_CONSTRAINT
    }

    /// Returns the engine's kind of error.
    pub fn kind(&self) -> ErrorKind {
        if let Some(reason) = self.reason {
            return reason.kind();
        }
        match self.code & 0xff {
            _ if self.code == CLOSED => ErrorKind::Closed,
            ffi::SQLITE_BUSY if self.is_conflict() => ErrorKind::Conflict,
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => ErrorKind::Locked,
            ffi::SQLITE_FULL | ffi::SQLITE_NOMEM => ErrorKind::Full,
            ffi::SQLITE_READONLY => ErrorKind::ReadOnly,
            ffi::SQLITE_CORRUPT => ErrorKind::Corruption,
            ffi::SQLITE_NOTADB => ErrorKind::Foreign,
            ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN => ErrorKind::Io,
            ffi::SQLITE_CONSTRAINT => ErrorKind::Exists,
            _ => ErrorKind::Invalid,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(failure, message) => {
                let message = message.unwrap_or_else(|| ffi::code_to_str(failure.extended_code).to_owned());
                Error::with(failure.extended_code, message)
            }
            rusqlite::Error::SqlInputError { error, msg, .. } => Error::with(error.extended_code, msg),
            other => Error::new(other.to_string()),
        }
    }
}

#[cfg(not(feature = "loadable"))]
impl From<pando_sqlite::Error> for Error {
    fn from(error: pando_sqlite::Error) -> Self {
        let conflict = error.conflict().map(|conflict| Conflict {
            table: conflict.table().to_owned(),
            key: conflict.key().map(<[u8]>::to_vec),
            is_named: conflict.is_named(),
        });
        let (code, reason) = (error.code, error.reason());
        Error { code, conflict: conflict.map(Box::new), message: error.message, reason }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error { reason: failure.reason, ..Error::with(failure.code, failure.message) }
    }
}

impl From<pando::Error> for Error {
    fn from(error: pando::Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let Error { code, message, .. } = error.into();
        Failure::new(code, message)
    }
}

/// `Failure` recovers an SQL error that passes through the engine.
impl From<Error> for pando::Error {
    fn from(error: Error) -> Self {
        match error.reason {
            Some(reason) => reason.error(error.message),
            None => pando::Error::new(error.kind(), error.message.clone()).caused_by(error),
        }
    }
}
