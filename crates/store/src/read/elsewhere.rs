//! Handles and values for a store that is not this engine: `pando::remote` keeps the same catalog rows, and returns
//! the same types.
//!
//! Nothing here is meant for other crates, so it is hidden from the documentation.

use crate::read::handle::Table;
use crate::read::value_reader::ValueReader;
use crate::read::value_ref::ValueRef;
use crate::state::catalog::TableRow;
use base::{DatabaseId, Result};

#[doc(hidden)]
impl Table {
    /// Returns a handle of a table whose catalog row is `row` in the store with this id.
    pub fn elsewhere(database: DatabaseId, name: &str, row: TableRow) -> Table {
        Table::made(database, name, row)
    }

    /// Checks the handle against the row that its name has in the store with this id, and returns that row.
    ///
    /// # Errors
    /// `Invalid` if the handle belongs to another database; `Missing` if it is stale.
    pub fn check_elsewhere(&self, database: DatabaseId, row: Option<&[u8]>) -> Result<TableRow> {
        self.check_database_id(database)?;
        self.check_row(row)
    }

    /// Checks only that the handle belongs to the store with this id, and returns its own row.
    ///
    /// # Errors
    /// `Invalid` if it belongs to another one; `Missing` if its creation was rolled back.
    pub fn own_row(&self, database: DatabaseId) -> Result<TableRow> {
        let row = self.row();
        self.check_elsewhere(database, Some(&row.encode()))
    }

    /// Returns the catalog row that the handle has.
    pub fn handle_row(&self) -> TableRow {
        self.row()
    }

    /// Marks the handle as undone: the transaction that made it was rolled back.
    pub fn undo_elsewhere(&self) {
        self.undo();
    }
}

#[doc(hidden)]
impl ValueRef<'_> {
    /// Returns a value that owns its bytes.
    pub fn of(bytes: Vec<u8>) -> Self {
        ValueRef::owned(bytes)
    }
}

#[doc(hidden)]
impl ValueReader {
    /// Returns a reader of bytes that are in memory.
    pub fn of(bytes: Vec<u8>) -> Self {
        ValueReader::in_memory(bytes)
    }
}
