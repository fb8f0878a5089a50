//! Functions that are called with the progress of long work, and can end it.

use base::Result;

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl Sealed for base::Result<()> {}
}

/// The result of a function that gets the progress of long work: `()`, or a `Result` whose error ends the work.
///
/// Work that is ended returns the error. A backup then leaves no file, and a restore no database; a check only reads;
/// and what a compaction has freed stays free.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// use pando::{Error, ErrorKind};
/// use std::time::{Duration, Instant};
///
/// # let db = pando::Database::builder().in_memory()?;
/// let (began, most) = (Instant::now(), Duration::from_secs(60));
/// db.compact(|_| match began.elapsed() < most {
///     true => Ok(()),
///     false => Err(Error::new(ErrorKind::Full, "the compaction takes more than a minute")),
/// })?;
/// # Ok(())
/// # }
/// ```
pub trait ProgressResult: sealed::Sealed {
    /// Returns the error that ends the work, if there is one.
    ///
    /// # Errors
    /// The error that the function returned.
    fn into_result(self) -> Result<()>;
}

impl ProgressResult for () {
    fn into_result(self) -> Result<()> {
        Ok(())
    }
}

impl ProgressResult for Result<()> {
    fn into_result(self) -> Result<()> {
        self
    }
}
