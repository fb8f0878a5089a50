//! The tables in which the keys of Redis' databases are.

use crate::fault::{Done, Fault};
use crate::layout::LAYOUT;
use pando::Table;

/// The number of databases that `SELECT` can choose from.
pub const DATABASES: usize = 16;
const _: () = assert!(DATABASES == 16, "docs/redis.md says so");

/// The tables of all databases.
pub type Tables = [Slot; DATABASES];

/// The table of one database.
#[derive(Clone, Debug, Default)]
pub enum Slot {
    /// The table does not exist.
    #[default]
    Absent,
    /// The table has the keys of the database.
    Keys(Table),
    /// A table with this name has other contents, or another layout. The door never writes to it.
    Foreign,
}

/// Returns the name of the table of a database.
pub fn table_name(database: usize) -> String {
    format!("redis-{database}")
}

impl Slot {
    /// Returns the slot of a table that exists. `layout` is its record about the layout.
    pub fn of(table: Table, layout: Option<&[u8]>) -> Self {
        if layout == Some(&[LAYOUT]) { Slot::Keys(table) } else { Slot::Foreign }
    }

    /// Returns the table with the keys of this database, if it exists.
    ///
    /// # Errors
    /// If a table with other contents has its name.
    pub fn keys(&self, database: usize) -> Done<Option<&Table>> {
        match self {
            Slot::Absent => Ok(None),
            Slot::Keys(table) => Ok(Some(table)),
            Slot::Foreign => Err(Fault::new(format!("ERR {}", refusal(database)))),
        }
    }

    /// Returns whether a table with other contents has the name.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Slot::Foreign)
    }
}

/// Returns why clients cannot use a database whose slot is foreign.
pub fn refusal(database: usize) -> String {
    let name = table_name(database);
    format!(
        "table {name:?} is not a database of Redis with layout {LAYOUT}: rename it, SELECT another number, \
         or choose another database with --redis-database"
    )
}
