//! What is shipped, and what it is restored into: a narrow view of a database.

use base::Result;
use pando::Identity;
use std::io::{Read, Write};
use std::time::Duration;

/// The lineage from which a database was restored, and its newest commit then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub lineage: u64,
    pub commit: u64,
    /// Whether the database had been dropped before it was restored.
    pub after_drop: bool,
}

/// Which commit a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub commit: u64,
    pub time_ms: u64,
}

/// A database that is shipped.
pub(crate) trait Source: Send + Sync {
    fn identity(&self) -> Result<Identity>;

    /// Returns where the database was restored from, if it was restored from a lineage.
    fn origin(&self) -> Result<Option<Origin>>;

    /// Returns the newest commit that readers see.
    fn newest(&self) -> Result<u64>;

    /// Returns the time of the database in milliseconds since 1970. No commit that readers see has a later one.
    fn time_ms(&self) -> u64;

    /// Makes every commit so far durable here. What is in the bucket must never be lost here.
    fn sync(&self) -> Result<()>;

    /// Follows the commits after `after`.
    ///
    /// # Errors
    /// `TooOld` if the database no longer has them.
    fn follow(&self, after: u64) -> Result<Box<dyn Follow>>;

    /// Writes a backup of everything that is visible now. Returns its commit.
    fn backup(&self, out: &mut dyn Write) -> Result<u64>;
}

/// Follows a database's commits.
pub(crate) trait Follow: Send {
    /// Writes the next change to `out`; `None` if there is none within `wait`.
    fn next(&mut self, wait: Duration, out: &mut dyn Write) -> Result<Option<Stamp>>;
}

/// A database that is being restored.
pub(crate) trait Target {
    /// Restores a backup in place of everything that is there. Returns its commit.
    fn base(&mut self, backup: &mut dyn Read) -> Result<u64>;

    /// Applies the changes that `changes` yields, one after the other.
    fn apply(&mut self, changes: &mut dyn Read) -> Result<()>;
}
