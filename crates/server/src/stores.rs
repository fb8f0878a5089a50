//! The server's interface to a remote store that keeps its databases.
//!
//! With a store, the server keeps nothing on this machine: an adapter opens each database, which is a place in the
//! store.
//! Several servers can use one store at the same time.

use pando::Result;
use pando::remote::RemoteDatabase;
use std::fmt::Debug;
use std::time::Duration;

/// The databases of a store, by the names that addresses of the server have.
pub trait Stores: Debug + Send + Sync {
    /// Opens the database `name`; `None` if there is none. The thread waits for the store.
    ///
    /// # Errors
    /// `Io` if the store cannot be reached; `Invalid` if the store cannot have a database of this name.
    fn open(&self, name: &str) -> Result<Option<RemoteDatabase>>;

    /// Opens the database `name`, and creates it if there is none. Returns `true` if it is new. The thread waits for
    /// the store.
    ///
    /// # Errors
    /// As for [`Stores::open`].
    fn create(&self, name: &str) -> Result<(RemoteDatabase, bool)>;

    /// Returns the names of all databases of the store. The thread waits for the store.
    ///
    /// # Errors
    /// `Io` if the store cannot be reached.
    fn names(&self) -> Result<Vec<String>>;

    /// Returns the largest number of connections that each database opens to the store.
    fn connections(&self) -> usize;

    /// Returns the time after which a connection that no request uses is closed.
    fn idle(&self) -> Duration;
}
