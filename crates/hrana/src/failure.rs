//! Errors in the form of the protocol: a message for people, and a code for programs.

use serde_json::{Value, json};
use sql::Reason;
use std::borrow::Cow;
use std::fmt;

/// The result of a part of a request.
pub type Outcome<T> = Result<T, Failure>;

/// Why a request, or a part of one, failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
    code: Cow<'static, str>,
}

/// SQLite's codes that have a name here, without constraints. The others are `SQLITE_ERROR`.
const CODES: [(i32, &str); 21] = [
    (2, "SQLITE_INTERNAL"),
    (3, "SQLITE_PERM"),
    (4, "SQLITE_ABORT"),
    (5, "SQLITE_BUSY"),
    (6, "SQLITE_LOCKED"),
    (7, "SQLITE_NOMEM"),
    (8, "SQLITE_READONLY"),
    (9, "SQLITE_INTERRUPT"),
    (10, "SQLITE_IOERR"),
    (11, "SQLITE_CORRUPT"),
    (13, "SQLITE_FULL"),
    (14, "SQLITE_CANTOPEN"),
    (15, "SQLITE_PROTOCOL"),
    (17, "SQLITE_SCHEMA"),
    (18, "SQLITE_TOOBIG"),
    (19, "SQLITE_CONSTRAINT"),
    (20, "SQLITE_MISMATCH"),
    (21, "SQLITE_MISUSE"),
    (23, "SQLITE_AUTH"),
    (25, "SQLITE_RANGE"),
    (26, "SQLITE_NOTADB"),
];

/// The extended codes of constraints, by the number above the lowest byte.
const CONSTRAINTS: [&str; 13] = [
    "",
    "_CHECK",
    "_COMMITHOOK",
    "_FOREIGNKEY",
    "_FUNCTION",
    "_NOTNULL",
    "_PRIMARYKEY",
    "_TRIGGER",
    "_UNIQUE",
    "_VTAB",
    "_ROWID",
    "_PINNED",
    "_DATATYPE",
];

/// The code of [`Failure::rows_missing`].
const ROWS_MISSING: &str = "ROWS_MISSING";

impl Failure {
    /// Creates a failure with a code of the protocol, such as `STREAM_EXPIRED`.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Failure { message: short(message.into()), code: Cow::Borrowed(code) }
    }

    /// Creates the failure of a statement that has taken effect, and whose rows the client does not have.
    pub(crate) fn rows_missing() -> Self {
        Failure::new(
            ROWS_MISSING,
            "the statement has taken effect, and is committed unless a transaction is open, but not all of \
             its rows were sent in time; do not run it again: read the rows with a SELECT",
        )
    }

    /// Returns whether the statement has taken effect all the same.
    pub(crate) fn has_taken_effect(&self) -> bool {
        self.code == ROWS_MISSING
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Returns the failure as the protocol's structure `Error`.
    pub fn to_json(&self) -> Value {
        json!({ "message": self.message, "code": self.code })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

/// A conflict of two transactions is `SQLITE_BUSY`, as clients know it. A constraint keeps its extended code. Over a
/// store, a failure of that is `SQLITE_IOERR`, and a commit in doubt `INDETERMINATE`.
impl From<sql::Error> for Failure {
    fn from(error: sql::Error) -> Self {
        match error.reason() {
            Some(Reason::InDoubt(commit)) => {
                let message = format!(
                    "the connection to the store was lost during the commit, and it is not known whether it \
                     happened; ask with POST /v1/databases/NAME/commits/{commit}/outcome"
                );
                return Failure::new("INDETERMINATE", message);
            }
            Some(_) => {
                return Failure { message: short(error.message().to_owned()), code: "SQLITE_IOERR".into() };
            }
            None => {}
        }
        let (low, high) = (error.code() & 0xff, error.code() >> 8);
        let name = CODES.iter().find(|(code, _)| *code == low).map_or("SQLITE_ERROR", |(_, name)| name);
        let kind = usize::try_from(high).ok().filter(|_| error.is_constraint());
        let kind = kind.and_then(|kind| CONSTRAINTS.get(kind)).copied().unwrap_or_default();
        let code = if kind.is_empty() { name.into() } else { format!("{name}{kind}").into() };
        let message = match name {
            "SQLITE_AUTH" => format!(
                "{error}: statements of clients can use only the database: no files, no extensions, and only \
                 pragmas about its tables"
            ),
            "SQLITE_NOMEM" => "the statements of all clients together need more memory than SQL may have; \
                               sort, group or change fewer rows, or use an index"
                .to_owned(),
            _ => error.message().to_owned(),
        };
        Failure { message: short(message), code }
    }
}

/// The longest message in bytes. SQLite repeats words of a statement, which a client can make long, and a request may
/// have thousands of statements.
const MOST_MESSAGE_BYTES: usize = 1000;

/// Returns the beginning of a message.
fn short(mut message: String) -> String {
    if message.len() > MOST_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MOST_MESSAGE_BYTES));
        message.push_str(" ...");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_that_clients_know() {
        let db = pando::Database::builder().in_memory().unwrap();
        let sql = sql::Sql::new(db);
        let (one, other) = (sql.connect().unwrap(), sql.connect().unwrap());
        one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE NOT NULL, CHECK (a < 9))")
            .unwrap();
        one.execute("INSERT INTO t VALUES (1, 'x')", &[]).unwrap();
        let failure = |text: &str| Failure::from(one.execute(text, &[]).unwrap_err());
        for (text, code) in [
            ("INSERT INTO t VALUES (1, 'y')", "SQLITE_CONSTRAINT_PRIMARYKEY"),
            ("INSERT INTO t VALUES (2, 'x')", "SQLITE_CONSTRAINT_UNIQUE"),
            ("INSERT INTO t VALUES (2, NULL)", "SQLITE_CONSTRAINT_NOTNULL"),
            ("INSERT INTO t VALUES (10, 'y')", "SQLITE_CONSTRAINT_CHECK"),
            ("SELEC", "SQLITE_ERROR"),
        ] {
            assert_eq!(failure(text).code(), code, "{text}");
        }
        for connection in [&one, &other] {
            connection.execute_batch("BEGIN; UPDATE t SET b = b || 'z' WHERE a = 1").unwrap();
        }
        one.execute("COMMIT", &[]).unwrap();
        let conflict = Failure::from(other.execute("COMMIT", &[]).unwrap_err());
        assert_eq!(conflict.code(), "SQLITE_BUSY");
        assert!(conflict.message().contains('t'), "{conflict}");
    }
}
