//! What the server's errors, and the loss of a connection, mean for a caller.

use base::{Error, ErrorKind};
use tokio_postgres::error::{DbError, SqlState};

/// The reason why a request failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server responded with this error, so it did not do what was asked.
    Server(Box<DbError>),
    /// The connection ended, or there was no response in time: whether the server did what was asked is unknown.
    Lost(Error),
}

impl Trouble {
    pub fn timeout() -> Self {
        Trouble::Lost(Error::new(ErrorKind::Io, "PostgreSQL did not respond within the request timeout"))
    }

    /// Returns why a connection could not be opened.
    pub fn unreachable(error: tokio_postgres::Error) -> Self {
        if error.as_db_error().is_some() {
            return Trouble::from(error);
        }
        Trouble::Lost(Error::new(ErrorKind::Io, "PostgreSQL cannot be reached").caused_by(error))
    }

    /// Returns whether the request may have been executed.
    pub fn is_lost(&self) -> bool {
        matches!(self, Trouble::Lost(_))
    }

    /// Returns whether a check of a commit was not met: the statement divides by zero then.
    pub fn is_unmet(&self) -> bool {
        matches!(self, Trouble::Server(error) if *error.code() == SqlState::DIVISION_BY_ZERO)
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(server) if !ends_connection(server.code()) => Trouble::Server(Box::new(server.clone())),
            Some(server) if *server.code() == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
                let message =
                    "the snapshot or transaction was idle for too long, and PostgreSQL has ended it";
                Trouble::Lost(Error::new(ErrorKind::SnapshotTooOld, message).caused_by(error))
            }
            _ => Trouble::Lost(
                Error::new(ErrorKind::Io, "the connection to PostgreSQL was lost").caused_by(error),
            ),
        }
    }
}

/// Returns whether the server ends the connection with this error, or does not know itself what became of a statement:
/// the classes 08 (connection) and 57P (shutdown, crash), the end of an idle transaction, and 40003.
fn ends_connection(code: &SqlState) -> bool {
    code.code().starts_with("08")
        || code.code().starts_with("57P")
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        let server = match trouble {
            Trouble::Lost(error) => return error,
            Trouble::Server(server) => server,
        };
        let code = server.code();
        let (kind, message) = if is_conflict(code) {
            (ErrorKind::Conflict, "another transaction changed what this one has read or written")
        } else if code.code().starts_with("28") {
            (ErrorKind::Io, "PostgreSQL refused the user or the password of the URL (or of PGPASSWORD)")
        } else if code.code().starts_with("53") {
            (ErrorKind::Full, "PostgreSQL has no disk, memory or connection left")
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            (ErrorKind::ReadOnly, "PostgreSQL accepts no writes here; connect to the primary")
        } else if *code == SqlState::PROGRAM_LIMIT_EXCEEDED {
            (ErrorKind::Invalid, "a record exceeds a limit of PostgreSQL")
        } else if *code == SqlState::QUERY_CANCELED {
            (ErrorKind::Io, "PostgreSQL did not finish within the request timeout; nothing was written")
        } else {
            (ErrorKind::Io, "PostgreSQL refused a statement")
        };
        Error::new(kind, format!("{message} ({})", code.code())).caused_by(server)
    }
}

/// Returns whether the transaction should run again: a failed serialization or a deadlock.
fn is_conflict(code: &SqlState) -> bool {
    *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
}
