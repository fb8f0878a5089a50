//! Why a call has failed, as every language shows it: a kind, a message, and the place of a conflict.

use pando::{Conflict, Error, ErrorKind};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of every call that can fail.
pub type Outcome<T> = Result<T, Failure>;

/// The kind of a failure: the library's kinds, and those that only a binding has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A kind of the library.
    Engine(ErrorKind),
    /// The call was made with arguments that no correct program gives, such as a missing object.
    Misuse,
    /// Another call uses the object at this moment.
    InUse,
    /// The caller's buffer is too short.
    TooSmall,
    /// A defect in Pando: a panic was caught.
    Internal,
    /// A statement of SQL or other long work was stopped.
    Interrupted,
    /// A row violates a constraint of its table.
    Constraint,
}

/// Why a call has failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind.
    pub kind: Kind,
    /// What happened, where, and what to do.
    pub message: String,
    /// The table of a conflict.
    pub table: Option<String>,
    /// The key of a conflict.
    pub key: Option<Vec<u8>>,
    /// The extended result code of SQLite, if a statement of SQL has failed.
    pub sqlite_code: Option<i32>,
}

impl Failure {
    /// A failure without a place.
    #[cold]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), table: None, key: None, sqlite_code: None }
    }

    /// That a call does not fit its arguments.
    #[cold]
    pub fn misuse(message: impl Into<String>) -> Self {
        Failure::new(Kind::Misuse, message)
    }

    /// That an argument is out of range.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Failure::new(Kind::Engine(ErrorKind::Invalid), message)
    }

    /// That an object was used after its end.
    #[cold]
    pub fn closed(what: &str) -> Self {
        Failure::new(Kind::Engine(ErrorKind::Closed), format!("{what} is closed"))
    }

    /// That another call uses the object at this moment.
    #[cold]
    pub fn in_use(what: &str) -> Self {
        Failure::new(Kind::InUse, format!("{what} is in use by another call; use one for each thread"))
    }

    /// Whether the same transaction can succeed if it runs again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, Kind::Engine(ErrorKind::Conflict | ErrorKind::SnapshotTooOld))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let conflict = Conflict::in_error(&error);
        Failure {
            kind: Kind::Engine(error.kind()),
            message: error.to_string(),
            table: conflict.and_then(Conflict::table).map(str::to_owned),
            key: conflict.and_then(Conflict::key).map(<[u8]>::to_vec),
            sqlite_code: None,
        }
    }
}

/// Runs `work`, and makes a failure of a panic.
pub fn guard<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    // Broken state is not seen again: locks that a panic poisons count as closed, and the library has its own rules.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Failure::new(Kind::Internal, format!("a defect in Pando, please report it: {text}"))
}
