//! What the server's errors, and the loss of a connection, mean for a caller.

use base::{Error, ErrorKind};
use pando::remote::Fault;
use std::error::Error as StdError;
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
        let message = "PostgreSQL did not respond within the request timeout";
        Trouble::Lost(Fault::Unavailable.error(ErrorKind::Io, message, "the connection was given up"))
    }

    /// Returns why a connection could not be opened.
    pub fn unreachable(error: tokio_postgres::Error) -> Self {
        if error.as_db_error().is_some() {
            return Trouble::from(error);
        }
        let (fault, message) = match refuses_certificate(&error) {
            true => (
                Fault::Misconfigured,
                "PostgreSQL's certificate is not valid for its name, or an unknown authority has signed it; \
                 set SSL_CERT_FILE to a file with the certificate of the authority",
            ),
            false => (Fault::Unavailable, "PostgreSQL cannot be reached"),
        };
        Trouble::Lost(fault.error(ErrorKind::Io, message, reasons(&error)))
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
            _ => {
                let message = "the connection to PostgreSQL was lost";
                Trouble::Lost(Fault::Unavailable.error(ErrorKind::Io, message, reasons(&error)))
            }
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

/// Returns whether the server showed a certificate that was not accepted.
fn refuses_certificate(error: &tokio_postgres::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        // An error of TLS is within one of the system, whose source is the next one and not that.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let found = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if matches!(found.or_else(|| error.downcast_ref()), Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns the messages of an error and of its causes, which the client's own message leaves out.
fn reasons(error: &tokio_postgres::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        let server = match trouble {
            Trouble::Lost(error) => return error,
            Trouble::Server(server) => server,
        };
        let (fault, kind, message) = meaning(server.code());
        let message = format!("{message} ({})", server.code().code());
        match fault {
            Some(fault) => fault.error(kind, message, server),
            None => Error::new(kind, message).caused_by(server),
        }
    }
}

/// Returns what an error of the server means: why it failed, if callers can do something about it, and what to do.
fn meaning(code: &SqlState) -> (Option<Fault>, ErrorKind, &'static str) {
    match code.code() {
        // A failed serialization, or a deadlock: the transaction should run again.
        "40001" | "40P01" => {
            (None, ErrorKind::Conflict, "another transaction changed what this one has read or written")
        }
        "54000" => (None, ErrorKind::Invalid, "a record exceeds a limit of PostgreSQL"),
        "25006" => (
            Some(Fault::Unavailable),
            ErrorKind::ReadOnly,
            "PostgreSQL accepts no writes here; connect to the primary",
        ),
        "53100" => (Some(Fault::Full), ErrorKind::Full, "the disk of PostgreSQL is full; free space there"),
        code if code.starts_with("53") => {
            (Some(Fault::Busy), ErrorKind::Full, "PostgreSQL has no memory or no connection left")
        }
        "57014" => (
            Some(Fault::TimedOut),
            ErrorKind::Io,
            "PostgreSQL did not finish a statement within the request timeout, and nothing was written; do \
             less at once, or raise the timeout",
        ),
        code if code.starts_with("28") => (
            Some(Fault::Misconfigured),
            ErrorKind::Io,
            "PostgreSQL refused the user or the password of the URL (or of PGPASSWORD)",
        ),
        "42501" => (
            Some(Fault::Misconfigured),
            ErrorKind::Io,
            "PostgreSQL refused a right to the user of the URL; grant it the schema of the database and the \
             relations in it",
        ),
        // The server's database, the schema, a relation, a column.
        "3D000" | "3F000" | "42P01" | "42703" => (
            Some(Fault::Misconfigured),
            ErrorKind::Io,
            "PostgreSQL lacks the database, or a part of its schema: another program has dropped or changed \
             it; restore it",
        ),
        _ => (None, ErrorKind::Io, "PostgreSQL refused a statement"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_server_is_what_it_is() {
        let meaning = |code: &str| {
            let (fault, kind, _) = meaning(&SqlState::from_code(code));
            (fault, kind)
        };
        for (code, fault, kind) in [
            ("40001", None, ErrorKind::Conflict),
            ("40P01", None, ErrorKind::Conflict),
            ("54000", None, ErrorKind::Invalid),
            ("25006", Some(Fault::Unavailable), ErrorKind::ReadOnly),
            ("53100", Some(Fault::Full), ErrorKind::Full),
            ("53200", Some(Fault::Busy), ErrorKind::Full),
            ("53300", Some(Fault::Busy), ErrorKind::Full),
            ("57014", Some(Fault::TimedOut), ErrorKind::Io),
            ("28P01", Some(Fault::Misconfigured), ErrorKind::Io),
            ("42501", Some(Fault::Misconfigured), ErrorKind::Io),
            ("42P01", Some(Fault::Misconfigured), ErrorKind::Io),
            ("3D000", Some(Fault::Misconfigured), ErrorKind::Io),
            ("XX000", None, ErrorKind::Io),
        ] {
            assert_eq!(meaning(code), (fault, kind), "{code}");
        }
    }
}
