//! What the server's errors, and the loss of a connection, mean for a caller.

use base::{Error, ErrorKind};
use pando::remote::Fault;
use std::error::Error as StdError;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// The reason why a request failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server responded with this error, so it did not do what was asked, except perhaps if it is doubtful
    /// ([`Trouble::is_doubtful`]).
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
        if let Some(server) = error.as_db_error() {
            // Each refusal of a login is fatal, and says by its code what to do. A server that crashes does not.
            return match severity(server) == Some(Severity::Panic) || is_code_of_an_end(server.code()) {
                true => Trouble::lost(error),
                false => Trouble::Server(Box::new(server.clone())),
            };
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

    /// Returns the trouble of a connection that ended with this error.
    fn lost(error: tokio_postgres::Error) -> Self {
        let code = error.as_db_error().map(DbError::code);
        if code == Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT) {
            let message = "the snapshot or transaction was idle for too long, and PostgreSQL has ended it";
            return Trouble::Lost(Error::new(ErrorKind::SnapshotTooOld, message).caused_by(error));
        }
        let message = "the connection to PostgreSQL was lost";
        Trouble::Lost(Fault::Unavailable.error(ErrorKind::Io, message, reasons(&error)))
    }

    /// Returns whether the server reports trouble of its own (class XX, an internal error) or of its machine (class
    /// 58): a commit may have happened before that.
    pub fn is_doubtful(&self) -> bool {
        let is_doubtful = |code: &str| code.starts_with("XX") || code.starts_with("58");
        matches!(self, Trouble::Server(error) if is_doubtful(error.code().code()))
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
            Some(server) if !ends_connection(server) => Trouble::Server(Box::new(server.clone())),
            _ => Trouble::lost(error),
        }
    }
}

/// Returns how severe an error is.
fn severity(error: &DbError) -> Option<Severity> {
    // A server before PostgreSQL 9.6, or another product, sends the text for people alone.
    error.parsed_severity().or_else(|| match error.severity() {
        "FATAL" => Some(Severity::Fatal),
        "PANIC" => Some(Severity::Panic),
        _ => None,
    })
}

/// Returns whether the server ends the connection with this error, or does not know itself what became of a statement.
/// The severity decides before the code: if the disk is full while the server writes its log, it crashes, and its
/// recovery may find that the commit has happened.
fn ends_connection(error: &DbError) -> bool {
    matches!(severity(error), Some(Severity::Fatal | Severity::Panic)) || is_code_of_an_end(error.code())
}

/// Returns whether a code means that by itself: the classes 08 (connection) and 57P (shutdown, crash), the end of an
/// idle transaction, and 40003.
fn is_code_of_an_end(code: &SqlState) -> bool {
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
            "PostgreSQL denied a permission to the user of the URL; grant it the schema of the database and \
             the relations in it",
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
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use tokio_postgres::{Config, NoTls};

    /// Returns the client's error after a server has sent this one.
    fn sent(severity: &str, is_parsed: bool, code: &str) -> tokio_postgres::Error {
        let parsed = if is_parsed { format!("V{severity}\0") } else { String::new() };
        let fields = format!("S{severity}\0{parsed}C{code}\0Mwhy\0\0");
        let length = u32::try_from(4 + fields.len()).unwrap().to_be_bytes();
        let (client, mut server) = UnixStream::pair().unwrap();
        server.write_all(&[b"E", &length[..], fields.as_bytes()].concat()).unwrap();
        client.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = tokio::net::UnixStream::from_std(client).unwrap();
            let connected = Config::new().user("test").connect_raw(client, NoTls).await;
            connected.err().expect("the server sent an error")
        })
    }

    #[test]
    fn an_error_that_ends_the_connection_leaves_a_commit_in_doubt() {
        for (severity, code, is_lost, is_doubtful) in [
            ("ERROR", "40001", false, false),
            ("ERROR", "53100", false, false),
            ("ERROR", "57P01", true, false),
            ("ERROR", "40003", true, false),
            ("ERROR", "XX001", false, true),
            ("ERROR", "58030", false, true),
            ("FATAL", "53100", true, false),
            ("PANIC", "53100", true, false),
            ("PANIC", "58030", true, false),
            ("PANIC", "XX000", true, false),
        ] {
            for is_parsed in [true, false] {
                let trouble = Trouble::from(sent(severity, is_parsed, code));
                let found = (trouble.is_lost(), trouble.is_doubtful());
                assert_eq!(found, (is_lost, is_doubtful), "{severity} {code}, {is_parsed}: {trouble:?}");
            }
        }
        let expired = Error::from(Trouble::from(sent("FATAL", true, "25P03")));
        assert_eq!(expired.kind(), ErrorKind::SnapshotTooOld);
    }

    #[test]
    fn a_login_that_is_refused_says_what_to_do() {
        for (code, fault) in [
            ("28P01", Fault::Misconfigured),
            ("28000", Fault::Misconfigured),
            ("3D000", Fault::Misconfigured),
            ("53300", Fault::Busy),
            ("57P03", Fault::Unavailable),
        ] {
            let error = Error::from(Trouble::unreachable(sent("FATAL", true, code)));
            assert_eq!(Fault::in_error(&error), Some(fault), "{code}: {error:?}");
        }
        assert!(Trouble::unreachable(sent("PANIC", true, "53100")).is_lost());
    }

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
