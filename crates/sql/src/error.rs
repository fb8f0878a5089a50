//! The error of a statement.

use crate::failure::Failure;
use pando::ErrorKind;
use rusqlite::ffi;
use std::ffi::c_int;
use std::fmt;

/// The result of every call in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a statement failed: a result code of SQLite (<https://www.sqlite.org/rescode.html> lists them) and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: c_int,
    message: String,
    /// The engine's table and key in which a commit met a conflict.
    place: Option<Box<(String, Option<Vec<u8>>)>>,
}

impl Error {
    fn with(code: c_int, message: String) -> Self {
        Error { code, message, place: None }
    }

    /// Returns where a commit met a conflict, in the engine's terms.
    pub(crate) fn place(&self) -> Option<(&str, Option<&[u8]>)> {
        self.place.as_ref().map(|place| (&place.0[..], place.1.as_deref()))
    }

    /// Returns the error with another message.
    pub(crate) fn in_words(self, message: String) -> Self {
        Error { message, ..self }
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

    /// Creates the error of a statement that was stopped.
    #[cold]
    pub(crate) fn interrupted() -> Self {
        Error::with(ffi::SQLITE_INTERRUPT, "interrupted".to_owned())
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

    /// Returns whether the same transaction can succeed if it runs again: it had a conflict, and nothing was written.
    pub fn is_conflict(&self) -> bool {
        self.code == ffi::SQLITE_BUSY_SNAPSHOT
    }

    /// Returns whether the statement was stopped: by [`crate::Interrupt::interrupt`], or by the callback of
    /// [`crate::Connection::on_progress`] or [`crate::Connection::confine`].
    pub fn is_interrupted(&self) -> bool {
        self.code & 0xff == ffi::SQLITE_INTERRUPT
    }

    /// Returns whether the statement names something forbidden: to confined connections
    /// ([`crate::Connection::confine`]), or to all, as `CREATE VIRTUAL TABLE` is.
    pub fn is_refused(&self) -> bool {
        self.code & 0xff == ffi::SQLITE_AUTH
    }

    /// Returns whether a row violated a constraint.
    pub fn is_constraint(&self) -> bool {
        self.code & 0xff == ffi::SQLITE_CONSTRAINT
    }

    /// Returns the engine's kind of error.
    pub fn kind(&self) -> ErrorKind {
        match self.code & 0xff {
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
        // The message names the tables of SQL's own.
        let unnamed = error.conflict().filter(|place| place.index().is_none() && place.rowid().is_none());
        let place = unnamed.map(|place| (place.table().to_owned(), place.key().map(<[u8]>::to_vec)));
        Error { code: error.code, place: place.map(Box::new), message: error.message }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error::with(failure.code, failure.message)
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
        pando::Error::new(error.kind(), error.message.clone()).caused_by(error)
    }
}
