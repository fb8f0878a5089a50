//! The error type of all crates: a kind that says what the caller can do, a message that says what happened, and the
//! cause.

use std::{fmt, io};

/// The result of every call that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error: what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction changed what this one has read. Nothing was written; run the transaction again.
    Conflict,
    /// The snapshot or transaction was open for so long that it has expired. Nothing was written; begin a new one.
    SnapshotTooOld,
    /// The changes after the requested commit are no longer kept. Start again at the oldest commit that the message
    /// names, from a copy of the database at that commit or a later one.
    TooOld,
    /// The disk, a quota or the memory budget is full. Nothing was written; free space or memory and try again.
    Full,
    /// The key, table or database already exists.
    Exists,
    /// The key, table, database or file does not exist.
    Missing,
    /// A call that must not wait needs a page that is not in memory. Use a call that may wait.
    WouldWait,
    /// An argument is out of range, or the object does not allow this call now. The message says what to change.
    Invalid,
    /// An option contradicts the stored one, or two databases do not belong together. The message names both.
    Mismatch,
    /// Another handle has the database, consumer or folder open, often in another process. Close it there.
    Locked,
    /// The database is read-only, and the call would write. Open it for writing.
    ReadOnly,
    /// The files are not a Pando database, belong to another one, or have a version that this program does not know.
    Foreign,
    /// Bytes differ from what was written. Restore a backup, or salvage the database.
    Corruption,
    /// A call of the operating system failed. The message names the call and the file.
    Io,
    /// An earlier failure stopped all writing; reads continue. Close the database, fix the cause, and open it again.
    Latched,
    /// The commit may or may not survive: it was written, but its sync failed. Open the database again to find out.
    Indeterminate,
    /// The database is closed. Open it again.
    Closed,
    /// The handle was inherited through a fork. Open the database in the child after the parent has closed it.
    Forked,
    /// Another writer has taken over the lineage of shipped commits. Stop writing here, and restore from the bucket.
    Fenced,
}

/// An error: its [`kind`](Error::kind), a message, and its cause. It has the size of one pointer.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error. The message states what happened, where, and what to do if that is not obvious.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), source: None }))
    }

    /// Creates an error of kind [`ErrorKind::Corruption`].
    #[cold]
    pub fn corruption(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corruption, message)
    }

    /// Creates an error of kind [`ErrorKind::Invalid`].
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, message)
    }

    /// Creates an error from what the operating system returned for `what` (as in "write 4096 bytes at 8192 of
    /// data"). A full disk, a quota and a file that is too large become [`ErrorKind::Full`]; everything else becomes
    /// [`ErrorKind::Io`].
    #[cold]
    pub fn io(what: impl fmt::Display, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ErrorKind::Full
            }
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("cannot {what}")).caused_by(source)
    }

    /// Sets the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Puts `context` before the message: "opening /data/db: ...".
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message without the causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns whether the same transaction can succeed if you run it again without any other change.
    ///
    /// ```
    /// use pando_base::{Error, ErrorKind};
    /// assert!(Error::new(ErrorKind::Conflict, "table t, key k").is_retryable());
    /// assert!(!Error::corruption("page 7").is_retryable());
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Conflict | ErrorKind::SnapshotTooOld)
    }

    /// Returns a copy of the error, for several callers that one failure affects (a group commit, a latch). The cause
    /// is copied as its text.
    pub fn duplicate(&self) -> Self {
        let copy = Error::new(self.0.kind, self.0.message.clone());
        match &self.0.source {
            Some(source) => copy.caused_by(source.to_string()),
            None => copy,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let Some(source) = &self.0.source else { return Ok(()) };
        // An error that passed through another layer has the message of its cause.
        let source = source.to_string();
        if self.0.message.ends_with(&source) { Ok(()) } else { write!(f, ": {source}") }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_written_once() {
        let of = |message: &str| Error::new(ErrorKind::Io, message.to_owned()).caused_by("it is full");
        assert_eq!(of("cannot write").to_string(), "cannot write: it is full");
        assert_eq!(of("it is full").to_string(), "it is full");
        assert_eq!(of("it is full").within("the commit").to_string(), "the commit: it is full");
    }
}
