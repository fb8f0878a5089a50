//! The latch: after a failure that may leave memory and disk different, nothing more is written.
//!
//! It is set once, by a failed append, a failed sync or a failed superblock write, and never cleared, because it is
//! then unknown what the disk holds. (Linux marks pages clean after a failed fsync, so that another fsync would falsely
//! succeed; Rebello et al., ATC 2020.) Reads continue. Opening the database again finds out.
//!
//! A store that was opened read-only is latched from the beginning, so that everything that checks the latch before it
//! writes is rejected there, too.

use base::{Error, ErrorKind, Result};
use std::sync::OnceLock;

/// A latch, which is set once, with the cause.
#[derive(Debug, Default)]
pub struct Latch {
    cause: OnceLock<Error>,
}

impl Latch {
    /// Returns the latch of a store that was opened read-only.
    pub fn read_only() -> Self {
        let message = "the database was opened read-only; open it for writing to change it";
        Latch { cause: OnceLock::from(Error::new(ErrorKind::ReadOnly, message)) }
    }

    /// Returns whether it is [`Latch::read_only`].
    pub fn is_read_only(&self) -> bool {
        self.cause.get().is_some_and(|cause| cause.kind() == ErrorKind::ReadOnly)
    }

    /// Sets the latch, unless it is set already, and returns `cause` for the caller that met it.
    #[cold]
    pub fn set(&self, cause: Error) -> Error {
        let copy = cause.duplicate();
        // A second cause changes nothing: every caller gets the first one.
        let _ = self.cause.set(cause);
        copy
    }

    /// Returns an error if the latch is set.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Self::refusal(cause)),
        }
    }

    /// Returns the failure that set the latch.
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
