//! What a server does with the databases of its engine by name.

use crate::data::engine::Engine;
use crate::data::open::Open;
use crate::data::writer::{Change, Committed};
use crate::wire::problem::Answer;
use pando::{Durability, Result, Table};
use std::sync::Arc;

/// An engine whose databases are opened by name.
pub trait Served: Engine {
    /// Returns a handle to the database if it is open.
    fn get_open(databases: &Self::Databases, name: &str) -> Option<Arc<Open<Self>>>;

    /// Returns the database and opens it if necessary. The thread may wait.
    ///
    /// # Errors
    /// 404 if there is none of this name.
    fn open(databases: &Self::Databases, name: &str) -> Answer<Arc<Open<Self>>>;

    /// Finds the table of `/v0`, and creates it in a database that may be written to. The thread may wait.
    fn entity_table(open: &Open<Self>, name: &str) -> Result<Option<Table>>;

    /// Makes a change that does not depend on what is there. Returns its commit once it has the durability.
    fn write_one(
        open: &Arc<Open<Self>>,
        table: Table,
        key: Vec<u8>,
        change: Change,
        durability: Durability,
    ) -> impl Future<Output = Answer<Committed>> + Send;
}
