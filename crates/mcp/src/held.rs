//! What a call works with.

use crate::Options;
use pando::Database;
use sql::Sql;
use std::sync::Arc;

/// What a call works with.
pub struct Held {
    /// The database.
    pub db: Database,
    /// The handle of the database for SQL.
    pub sql: Sql,
    /// What the agent may do.
    pub options: Options,
    /// Whether the client has cancelled the call.
    pub cancelled: Cancelled,
}

/// Whether the client has cancelled a call.
#[derive(Clone)]
pub struct Cancelled(Arc<dyn Fn() -> bool + Send + Sync>);

impl Cancelled {
    /// Asks `is_cancelled` each time.
    pub fn new(is_cancelled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Cancelled(Arc::new(is_cancelled))
    }

    /// Returns whether the client has cancelled the call.
    pub fn is_cancelled(&self) -> bool {
        (self.0)()
    }
}

impl Held {
    /// Returns whether there are tools that write.
    pub fn may_write(&self) -> bool {
        self.options.allows_writes && !self.db.is_read_only()
    }
}
