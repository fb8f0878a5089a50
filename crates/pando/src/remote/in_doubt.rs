//! A commit whose outcome is not known: the cause of an `Indeterminate` error.

use crate::remote::seam::Token;
use base::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// A commit with an unknown outcome: its database, and the token that was sent with it. [`InDoubt::in_error`] finds it
/// in an error, and [`RemoteDatabase::resolve`](crate::remote::RemoteDatabase::resolve) returns the outcome.
///
/// As text it has 48 hexadecimal digits: the id of the database, and the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InDoubt {
    /// The id of the database.
    pub database: u64,
    /// The token of the commit.
    pub token: Token,
}

impl InDoubt {
    /// Returns the commit in doubt that `error` reports, or `None` for every other error.
    #[must_use]
    pub fn in_error(error: &Error) -> Option<InDoubt> {
        let cause: &Cause = std::error::Error::source(error)?.downcast_ref()?;
        Some(cause.commit)
    }

    /// Returns the error of a commit that could not be resolved for this reason.
    #[cold]
    pub(super) fn because_of(self, reason: Error) -> Error {
        let message = format!(
            "the connection was lost during a commit, and the store could not be asked whether it happened; \
             ask later with the token {}",
            self.token
        );
        Error::new(ErrorKind::Indeterminate, message).caused_by(Cause { commit: self, reason })
    }
}

impl fmt::Display for InDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{}", self.database, self.token)
    }
}

impl FromStr for InDoubt {
    type Err = Error;

    /// ```
    /// use pando::remote::InDoubt;
    /// let text = "00000000000000ff000102030405060708090a0b0c0d0e0f";
    /// let commit: InDoubt = text.parse()?;
    /// assert_eq!((commit.database, commit.to_string().as_str()), (255, text));
    /// assert!("00".parse::<InDoubt>().is_err());
    /// # pando::Result::Ok(())
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("a commit is named by 48 hexadecimal digits, not {text:?}"));
        if text.len() != 48 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let (database, token) = text.split_at(16);
        let database = u64::from_str_radix(database, 16).map_err(|_| bad())?;
        Ok(InDoubt { database, token: token.parse()? })
    }
}

/// The cause of the error: the commit, and why it could not be resolved.
#[derive(Debug)]
struct Cause {
    commit: InDoubt,
    reason: Error,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}
