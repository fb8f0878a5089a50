//! The server's interface to the code that ships databases to a bucket.
//!
//! The server reports when a database is opened and when it is about to be closed, and asks before each write whether
//! writes are allowed. In sync mode, it responds to a write only after its commit is in the bucket.

use pando::{Database, Error, Result};
use std::fmt::Debug;

/// A callback that is called once: with success, or with the error that keeps a commit from the bucket.
pub type Shipped = Box<dyn FnOnce(Result<()>) + Send>;

/// Ships the databases of a server.
pub trait Shipping: Debug + Send + Sync {
    /// Begins to ship a database, which was just opened under `name`.
    ///
    /// # Errors
    /// If shipping cannot begin. The database is not opened then.
    fn begin(&self, name: &str, db: &Database) -> Result<Box<dyn Ship>>;

    /// Returns whether a write gets its response only after its commit is in the bucket.
    fn is_sync(&self) -> bool;
}

/// Ships one database until it is released or dropped.
pub trait Ship: Debug + Send + Sync {
    /// Calls `shipped` when the commit with this number is in the bucket, or when it can never be.
    fn when_shipped(&self, commit: u64, shipped: Shipped);

    /// Returns the error with which shipping has ended. `None` while it goes on, and after [`Ship::release`].
    fn failure(&self) -> Option<Error>;

    /// Returns the error of the last request to the bucket, while it is repeated. `None` if shipping works.
    fn difficulty(&self) -> Option<String>;

    /// Returns why writes are refused: another writer has taken over. `None` while writes are allowed.
    fn refusal(&self) -> Option<Error>;

    /// Returns names, descriptions and values of the gauges, without the prefix `pando_ship_`.
    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)>;

    /// Ships the remaining commits, for a bounded time, and ends. Says in the bucket that this writer has ended, so
    /// that another one can take its place without asking. The server calls it before it closes the database.
    ///
    /// # Errors
    /// The error that kept the last commits from the bucket.
    fn release(&self) -> Result<()>;

    /// Ships the remaining commits, for a bounded time, and ends. Says in the bucket that the database was dropped. The
    /// server calls it before it closes the database and removes its directory.
    ///
    /// # Errors
    /// If that is not known to be in the bucket. The server keeps the database then.
    fn drop_database(&self) -> Result<()>;
}
