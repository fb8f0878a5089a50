//! The latch: after a failure that leaves memory and disk possibly apart, nothing is written any more.
//!
//! It is set once, by a failed append, a failed sync or a failed superblock write, and never cleared: whether the
//! disk holds what was asked of it is then unknown (Linux marks pages clean after a failed fsync, so that asking
//! again would answer "yes" falsely; Rebello et al., ATC 2020). Reads go on. Opening again finds out.
//!
//! A store that was opened read-only is latched from the beginning, so that what asks here before it writes is
//! refused there too.

use base::{Error, ErrorKind, Result};
use std::sync::OnceLock;

/// Set once, with the cause.
#[derive(Debug, Default)]
pub struct Latch {
    cause: OnceLock<Error>,
}

impl Latch {
    /// The latch of a store that was opened read-only.
    pub fn read_only() -> Self {
        let message = "the database was opened read-only; open it for writing to change it";
        Latch { cause: OnceLock::from(Error::new(ErrorKind::ReadOnly, message)) }
    }

    /// Whether it is [`Latch::read_only`].
    pub fn is_read_only(&self) -> bool {
        self.cause.get().is_some_and(|cause| cause.kind() == ErrorKind::ReadOnly)
    }

    /// Latches, unless it already is, and returns `cause` for the caller that met it.
    #[cold]
    pub fn set(&self, cause: Error) -> Error {
        let copy = cause.duplicate();
        // A second cause changes nothing: every caller gets the first one.
        let _ = self.cause.set(cause);
        copy
    }

    /// An error if latched.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Self::refusal(cause)),
        }
    }

    /// The failure that latched it.
    pub fn cause(&self) -> Option<&Error> {
        self.cause.get().filter(|_| !self.is_read_only())
    }

    #[cold]
    fn refusal(cause: &Error) -> Error {
        if cause.kind() == ErrorKind::ReadOnly {
            return cause.duplicate();
        }
        let message = "the database stopped accepting writes after an earlier failure; close it, fix the \
                       cause and open it again";
        Error::new(ErrorKind::Latched, message).caused_by(cause.to_string())
    }
}
