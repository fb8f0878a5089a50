//! Why a remote store failed, for code that keeps errors in a form of its own.

use crate::remote::fault::Fault;
use crate::remote::in_doubt::InDoubt;
use base::{Error, ErrorKind};

/// What an error says about a remote store, as a value. SQLite keeps only codes and messages, so the SQL layer takes
/// the reason from an error of the store, and puts it into the error that it returns.
///
/// ```
/// use pando::ErrorKind;
/// use pando::remote::{Fault, Reason};
/// let error = Fault::Unavailable.error(ErrorKind::Io, "the store cannot be reached", "no route");
/// let reason = Reason::in_error(&error).expect("it has one");
/// let again = reason.error(error.to_string());
/// assert_eq!(Fault::in_error(&again), Some(Fault::Unavailable));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The store failed, for this reason.
    Fault(Fault),
    /// The outcome of this commit is not known.
    InDoubt(InDoubt),
    /// Something else, of this kind.
    Other(ErrorKind),
}

impl Reason {
    /// Returns what `error` says about a store, or `None` if it says nothing about one.
    #[must_use]
    pub fn in_error(error: &Error) -> Option<Reason> {
        let in_doubt = InDoubt::in_error(error).map(Reason::InDoubt);
        in_doubt.or_else(|| Fault::in_error(error).map(Reason::Fault))
    }

    /// Returns the kind of an error with this reason.
    #[must_use]
    pub fn kind(self) -> ErrorKind {
        match self {
            Reason::Fault(Fault::Full | Fault::Busy) => ErrorKind::Full,
            Reason::Fault(_) => ErrorKind::Io,
            Reason::InDoubt(_) => ErrorKind::Indeterminate,
            Reason::Other(kind) => kind,
        }
    }

    /// Returns an error with this reason.
    #[cold]
    #[must_use]
    pub fn error(self, message: impl Into<String>) -> Error {
        match self {
            Reason::Fault(fault) => fault.error(self.kind(), "the statement failed", message.into()),
            Reason::InDoubt(commit) => commit.because_of(Error::new(ErrorKind::Io, message)),
            Reason::Other(kind) => Error::new(kind, message),
        }
    }
}
