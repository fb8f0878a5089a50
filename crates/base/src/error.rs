//! One error type for all floors: a kind that says what the caller can do, a sentence that says what happened,
//! and the source.

use std::{fmt, io};

/// The result of everything that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction got in between. Nothing was written: run the transaction again.
    Conflict,
    /// The snapshot or transaction was open for so long that what it saw is gone. Nothing was written: take a new one
    /// and run it again.
    SnapshotTooOld,
    /// The disk, the quota or the memory budget is full. Nothing was written: make room and try again.
    Full,
    /// The key, table or database exists already.
    Exists,
    /// The table or database does not exist.
    Missing,
    /// The call was not to wait, and what it asked for is not in memory. Ask again with a call that may.
    WouldWait,
    /// An argument is out of its limits, or a call does not fit its object.
    Invalid,
    /// The options given contradict those stored.
    Mismatch,
    /// Another process has the database open.
    Locked,
    /// The database was opened read-only, and the call would write. Open it for writing.
    ReadOnly,
    /// The files are not a Pando database, belong to another one, or have a version this program does not know.
    Foreign,
    /// Bytes are not what was written. Restore from a backup, or salvage.
    Corruption,
    /// The operating system refused a call.
    Io,
    /// An earlier failure stopped all writing; reads go on. Close, mend the cause, and open again.
    Latched,
    /// The commit may or may not survive: it was written, but its sync failed. Open again to find out.
    Indeterminate,
    /// The database was closed.
    Closed,
    /// The handle was inherited through a fork. Open the database in the child, once its parent has closed it.
    Forked,
}

/// An error: [`kind`](Error::kind), a message, and what caused it. One pointer in size.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`. The message says what happened, to what, and what to do where that is not plain.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), source: None }))
    }

    /// [`ErrorKind::Corruption`].
    #[cold]
    pub fn corruption(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corruption, message)
    }

    /// [`ErrorKind::Invalid`].
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, message)
    }

    /// What the operating system answered to `what` (as in "write 4096 bytes at 8192 of data"). A full disk, a
    /// quota and a file too large become [`ErrorKind::Full`], the rest [`ErrorKind::Io`].
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

    /// The same error with `source` as its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error with `context` before its message: "opening /data/db: ...".
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message, without the causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether running the same transaction again can succeed without anybody changing anything.
    ///
    /// ```
    /// use pando_base::{Error, ErrorKind};
    /// assert!(Error::new(ErrorKind::Conflict, "table t, key k").is_retryable());
    /// assert!(!Error::corruption("page 7").is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Conflict | ErrorKind::SnapshotTooOld)
    }

    /// The same error once more, for several callers that one failure struck (a group commit, a latch). The cause
    /// is kept as its text.
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
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
