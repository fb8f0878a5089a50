//! The error of a pool in which every page is in use.

use base::{Error, ErrorKind};
use std::fmt;

/// The cause of an error of the kind `Full` that is about the pool, and not about the disk.
#[derive(Debug)]
struct Exhausted {
    /// The number of frames, and of those in which a page is.
    frames: usize,
    pages: usize,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames are pinned, {} of them with a page", self.frames, self.pages)
    }
}

impl std::error::Error for Exhausted {}

/// Creates the error of a pool whose `frames` are all pinned.
#[cold]
pub(crate) fn exhausted(frames: usize, pages: usize) -> Error {
    let message = "the page cache has no free page: its pages are held by open cursors and reads, or its \
                   memory is used by transactions and memtables; close cursors that are not needed, or raise \
                   memory_bytes (on the command line --memory)";
    Error::new(ErrorKind::Full, message).caused_by(Exhausted { frames, pages })
}

/// Returns whether `error` says that every page of a pool was in use. Other errors of the kind `Full` are about the
/// disk or the budget.
///
/// ```
/// assert!(!pando_pool::is_exhausted(&base::Error::new(base::ErrorKind::Full, "the disk is full")));
/// ```
pub fn is_exhausted(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Exhausted>())
}
