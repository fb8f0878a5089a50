//! Shipping of databases to a bucket, as the server sees it: somebody else does it.
//!
//! The server says when a database is open and when it is about to close, asks before a write whether writes are
//! welcome, and, in sync mode, answers a write only when its commit is in the bucket.

use pando::{Database, Error, Result};
use std::fmt::Debug;

/// Called once: with success, or with the error that keeps a commit from the bucket.
pub type Shipped = Box<dyn FnOnce(Result<()>) + Send>;

/// Ships the databases of a server.
pub trait Shipping: Debug + Send + Sync {
    /// Begins to ship a database, which was just opened under `name`.
    ///
    /// # Errors
    /// The database is not opened then.
    fn begin(&self, name: &str, db: &Database) -> Result<Box<dyn Ship>>;

    /// Returns whether writes are answered only when their commit is in the bucket.
    fn is_sync(&self) -> bool;
}

/// Ships one database, until it is ended or dropped.
pub trait Ship: Debug + Send + Sync {
    /// Calls `shipped` when the commit with this number is in the bucket, or never will be.
    fn when_shipped(&self, commit: u64, shipped: Shipped);

    /// Returns the error with which shipping has ended. `None` while it goes on, and after [`Ship::end`].
    fn failure(&self) -> Option<Error>;

    /// Returns why writes are refused: another writer has taken over. `None` while they are welcome.
    fn refusal(&self) -> Option<Error>;

    /// Returns names, descriptions and values of what is counted, as gauges without the prefix `pando_ship_`.
    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)>;

    /// Ships what is left, for a bounded time, and ends.
    ///
    /// # Errors
    /// What kept the last commits from the bucket.
    fn end(&self) -> Result<()>;
}
