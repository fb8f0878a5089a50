//! The error of a statement.

use crate::failure::{AUTH, BUSY, BUSY_SNAPSHOT, CLOSED, Failure, INTERRUPT, LOCKED, MISUSE};
use crate::state::Conflict;
use pando::remote::Reason;
use std::fmt;

/// The error of a call: one of [SQLite's result codes](https://www.sqlite.org/rescode.html) and a message.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pando_sqlite::Connection;
/// let db = pando::Database::builder().in_memory()?;
/// let [one, two] = [Connection::open(&db)?, Connection::open(&db)?];
/// one.execute("CREATE TABLE stock(id INTEGER PRIMARY KEY, count); INSERT INTO stock VALUES (7, 1)")?;
/// for connection in [&one, &two] {
///     connection.execute("BEGIN; UPDATE stock SET count = count + 1 WHERE id = 7")?;
/// }
/// one.execute("COMMIT")?;
/// let error = two.execute("COMMIT").unwrap_err();
/// assert!(error.is_conflict());
/// let conflict = error.conflict().expect("the commit met it");
/// assert_eq!((conflict.table(), conflict.rowid()), ("stock", Some(7)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// SQLite's extended result code, for example 517 for `SQLITE_BUSY_SNAPSHOT`.
    pub code: i32,
    /// The message: what happened. For a conflict it names the table and the key.
    pub message: String,
    pub(super) conflict: Option<Box<Conflict>>,
    pub(super) reason: Option<Reason>,
}

impl Error {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), conflict: None, reason: None }
    }

    /// Returns the error of a call whose arguments make no sense.
    pub(super) fn misuse(message: &str) -> Error {
        Error::new(MISUSE, message)
    }

    /// Returns the error of a database that was closed.
    pub(super) fn closed() -> Error {
        Error::new(CLOSED, "the database is closed; open it again")
    }

    /// Returns whether another transaction has changed something that this one has read or written. Nothing was
    /// written; the transaction can succeed if you run it again from its beginning. Waiting does not help.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.code == BUSY_SNAPSHOT
    }

    /// Returns the place of a conflict, if the error is a conflict of a commit. It returns `None` for all other errors,
    /// and for a conflict that is not about one table: a statement that begins to write after others have committed
    /// since it began to read.
    #[must_use]
    pub fn conflict(&self) -> Option<&Conflict> {
        self.conflict.as_deref()
    }

    /// Returns the reason why the remote store failed in which the database is, or the commit in doubt. It returns
    /// `None` for all other errors.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns whether another connection excludes this one at the moment, for example with `BEGIN IMMEDIATE`. The same
    /// statement can succeed later.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self.code & 0xff, BUSY | LOCKED) && !self.is_conflict()
    }

    /// Returns whether the database was closed, before the statement or while it was running.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let connection = pando_sqlite::Connection::open(&db)?;
    /// connection.execute("CREATE TABLE t(a)")?;
    /// db.close()?;
    /// assert!(connection.execute("INSERT INTO t VALUES (1)").unwrap_err().is_closed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.code == CLOSED
    }

    /// Returns whether the statement was stopped: by [`Interrupt::interrupt`](super::Interrupt::interrupt), or by the
    /// callback of [`Connection::set_progress_handler`](super::Connection::set_progress_handler).
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.code & 0xff == INTERRUPT
    }

    /// Returns whether the callback of [`Connection::set_authorizer`](super::Connection::set_authorizer) denied
    /// something that the statement names.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.code & 0xff == AUTH
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error { reason: failure.reason, ..Error::new(failure.code, failure.message) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Error {}
