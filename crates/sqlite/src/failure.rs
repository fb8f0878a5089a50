//! Errors of Pando as SQLite's codes, and the message that belongs to one.

use pando::ErrorKind;
use pando::remote::{Reason, Unsupported};
use sqlite_format::record::Malformed;
use std::ffi::c_int;
use std::io;

pub(crate) const OK: c_int = 0;
pub(crate) const ERROR: c_int = 1;
pub(crate) const INTERNAL: c_int = 2;
pub(crate) const ABORT: c_int = 4;
/// A statement reads on after what it reads was rolled back.
pub(crate) const ABORT_ROLLBACK: c_int = ABORT | 2 << 8;
pub(crate) const BUSY: c_int = 5;
#[cfg(not(feature = "drop-in"))]
pub(crate) const NOMEM: c_int = 7;
/// The call is excluded by something that ends by itself. C tries it again at once, unless the statement is to stop,
/// and never returns the code to a program: SQLite's own detailed codes of `SQLITE_BUSY` are small. It is
/// `PANDO_BUSY_FOR_NOW` in `c/glue.c`.
pub(crate) const BUSY_FOR_NOW: c_int = BUSY | 255 << 8;
/// The database is closed. SQLite's own detailed codes of `SQLITE_ERROR` are small.
pub(crate) const CLOSED: c_int = ERROR | 255 << 8;
pub(crate) const READONLY: c_int = 8;
pub(crate) const IOERR: c_int = 10;
pub(crate) const CORRUPT: c_int = 11;
pub(crate) const FULL: c_int = 13;
pub(crate) const CANTOPEN: c_int = 14;
pub(crate) const SCHEMA: c_int = 17;
pub(crate) const TOOBIG: c_int = 18;
pub(crate) const NOTADB: c_int = 26;
#[cfg(not(feature = "drop-in"))]
pub(crate) const LOCKED: c_int = 6;
pub(crate) const INTERRUPT: c_int = 9;
#[cfg(not(feature = "drop-in"))]
pub(crate) const MISUSE: c_int = 21;
#[cfg(not(feature = "drop-in"))]
pub(crate) const AUTH: c_int = 23;
/// What an authorizer returns to deny an action, and to replace a column by `NULL`.
#[cfg(not(feature = "drop-in"))]
pub(crate) const DENY: c_int = 1;
#[cfg(not(feature = "drop-in"))]
pub(crate) const IGNORE: c_int = 2;
#[cfg(not(feature = "drop-in"))]
pub(crate) const ROW: c_int = 100;
pub(crate) const DONE: c_int = 101;
/// A trigger would change a row that its statement is about to change.
pub(crate) const CONSTRAINT_PINNED: c_int = 2835;
/// A transaction cannot be continued or committed, because others changed what it read. Waiting does not help.
pub(crate) const BUSY_SNAPSHOT: c_int = 517;

/// An error with SQLite's code for it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub code: c_int,
    pub message: String,
    /// What the error says about a remote store.
    pub reason: Option<Reason>,
}

impl Failure {
    pub(crate) fn new(code: c_int, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), reason: None }
    }
}

impl From<pando::Error> for Failure {
    fn from(error: pando::Error) -> Failure {
        let code = match error.kind() {
            _ if Unsupported::in_error(&error).is_some() => ERROR,
            ErrorKind::Conflict | ErrorKind::SnapshotTooOld => BUSY_SNAPSHOT,
            ErrorKind::Closed => CLOSED,
            ErrorKind::Full => FULL,
            ErrorKind::ReadOnly => READONLY,
            ErrorKind::Locked | ErrorKind::WouldWait => BUSY,
            ErrorKind::Corruption => CORRUPT,
            ErrorKind::Foreign => NOTADB,
            ErrorKind::Io if has_no_file(&error) => CANTOPEN,
            ErrorKind::Io | ErrorKind::Latched | ErrorKind::Indeterminate => IOERR,
            // Another connection dropped the table: the statement is to be prepared again.
            ErrorKind::Missing => SCHEMA,
            // Of what reaches the engine from here, only lengths can be invalid.
            ErrorKind::Invalid => TOOBIG,
            _ => ERROR,
        };
        Failure { reason: Reason::in_error(&error), ..Failure::new(code, error.to_string()) }
    }
}

/// Returns what the operating system said, if that caused an error.
pub(crate) fn cause(error: &pando::Error) -> Option<&io::Error> {
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        if let Some(found) = source.downcast_ref() {
            return Some(found);
        }
        next = source.source();
    }
    None
}

/// Returns whether the process, or the system, has as many files open as it may have.
fn has_no_file(error: &pando::Error) -> bool {
    /// `ENFILE` and `EMFILE`, for which the standard library has no names. They are the same on all systems of Unix.
    const TOO_MANY: [i32; 2] = [23, 24];
    let code = cause(error).and_then(io::Error::raw_os_error);
    cfg!(unix) && code.is_some_and(|code| TOO_MANY.contains(&code))
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Failure {
        Failure::new(CORRUPT, "a record is malformed")
    }
}

/// Returns the failure for a row whose key is not that of a rowid.
#[cold]
pub(crate) fn not_a_rowid() -> Failure {
    Failure::new(CORRUPT, "the key of a row does not have 8 bytes")
}

pub(crate) type Outcome<T> = Result<T, Failure>;
