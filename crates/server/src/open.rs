//! An open database, with what requests need at hand: its queue of single writes.

use crate::writer::Writer;
use pando::{Database, Result, Table, TableOptions};
use std::sync::Arc;

/// A database that is open.
#[derive(Debug)]
pub struct Open {
    /// The database.
    pub db: Database,
    /// Single writes.
    pub writer: Arc<Writer>,
}

impl Open {
    /// Over an open database.
    pub fn new(db: Database) -> Self {
        Open { writer: Writer::new(db.clone()), db }
    }

    /// The table named `name`, made if it does not exist.
    pub fn table_or_create(&self, name: &str, options: &TableOptions) -> Result<Table> {
        let found = self.db.snapshot()?.table(name)?;
        match found {
            Some(table) => Ok(table),
            None => self.db.write(|tx| match tx.table(name)? {
                Some(table) => Ok(table),
                None => tx.create_table(name, options),
            }),
        }
    }
}
