//! The one table of `/v0`, in the default database, which is always open.

use crate::data::open::Open;
use crate::wire::problem::Answer;
use arc_swap::ArcSwap;
use pando::{ErrorKind, Layout, Result, Table, TableOptions};
use std::sync::Arc;

/// The name of the table.
const NAME: &str = "entity";

/// The table and its database.
#[derive(Debug)]
pub struct EntityTable {
    /// The default database.
    pub open: Arc<Open>,
    table: ArcSwap<Table>,
}

/// Returns the options with which the table is created.
fn options() -> TableOptions {
    TableOptions::with_layout(Layout::Lsm)
}

impl EntityTable {
    /// Opens the table in the default database `open`, and creates it if it does not exist.
    pub fn new(open: Arc<Open>) -> Result<Self> {
        let table = ArcSwap::from_pointee(open.table_or_create(NAME, &options())?);
        Ok(EntityTable { open, table })
    }

    /// Runs `with` on the handle that was used last.
    #[inline]
    pub fn with_known<T>(&self, with: impl FnOnce(&Open, &Table) -> T) -> T {
        with(&self.open, &self.table.load())
    }

    /// Returns a clone of the handle that was used last.
    pub fn known(&self) -> Table {
        Table::clone(&self.table.load())
    }

    /// Returns the table, and creates it again if it was dropped. Waits for the disk.
    pub fn made_again(&self) -> Answer<Table> {
        let table = self.open.table_or_create(NAME, &options())?;
        self.table.store(Arc::new(table.clone()));
        Ok(table)
    }

    /// Runs `work` on the table. If the table was dropped, creates it and runs `work` on the new one.
    pub fn on_table<T>(&self, work: impl Fn(&Arc<Open>, &Table) -> Result<T>) -> Answer<T> {
        match work(&self.open, &self.table.load()) {
            Err(error) if error.kind() == ErrorKind::Missing => Ok(work(&self.open, &self.made_again()?)?),
            done => Ok(done?),
        }
    }
}
