//! Why a remote store failed, as far as callers treat the reasons differently.

use base::{Error, ErrorKind};
use std::fmt;

/// The reason why a remote store failed. It is the cause of the error, and [`Fault::in_error`] finds it. Nothing was
/// written, unless the kind of the error is `Indeterminate`.
///
/// ```
/// use pando::remote::Fault;
/// # let refused = "no space left on device";
/// let error = Fault::Full.error(pando::ErrorKind::Full, "the disk of the store is full", refused);
/// assert_eq!(Fault::in_error(&error), Some(Fault::Full));
/// assert_eq!(error.to_string(), "the disk of the store is full: no space left on device");
/// assert_eq!(Fault::in_error(&Fault::duplicate(&error)), Some(Fault::Full));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The store cannot be reached, does not respond, or cannot accept writes at the moment. Try again later.
    Unavailable,
    /// All connections or all memory are in use. Try again in a moment.
    Busy,
    /// The disk of the store is full. Free space there.
    Full,
    /// The store ended a statement because it took longer than a request may.
    TimedOut,
    /// The store rejects the user, lacks a part of the database, or cannot be trusted. An operator must act.
    Misconfigured,
}

impl Fault {
    /// Returns the reason in `error` if a store failed, and `None` for every other error.
    #[must_use]
    pub fn in_error(error: &Error) -> Option<Fault> {
        cause_in(error).map(|cause| cause.fault)
    }

    /// Returns an error with this reason. `why` is the message of the store. Adapters call this.
    #[cold]
    #[must_use]
    pub fn error(self, kind: ErrorKind, message: impl Into<String>, why: impl fmt::Display) -> Error {
        Error::new(kind, message).caused_by(Cause { fault: self, why: why.to_string() })
    }

    /// Returns a copy of `error` that keeps the reason. [`Error::duplicate`] loses it.
    #[must_use]
    pub fn duplicate(error: &Error) -> Error {
        match cause_in(error) {
            Some(Cause { fault, why }) => fault.error(error.kind(), error.message(), why),
            None => error.duplicate(),
        }
    }
}

fn cause_in(error: &Error) -> Option<&Cause> {
    std::error::Error::source(error)?.downcast_ref()
}

#[derive(Debug)]
struct Cause {
    fault: Fault,
    why: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Cause {}
