//! An open database, with what requests need at hand: its tables by name, its queue of single writes.

use crate::data::names::Names;
use crate::data::writer::{MOST_WAITING_BYTES, Writer};
use crate::shipping::Ship;
use crate::wire::problem::{Answer, Problem};
use arc_swap::ArcSwap;
use pando::{Database, Resident, Result, Table, TableOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;

/// A database that is open.
#[derive(Debug)]
pub struct Open {
    /// What ships it, if anything does.
    pub ship: Option<Box<dyn Ship>>,
    /// Whether the log has why shipping ended.
    failure_is_logged: AtomicBool,
    /// The database.
    pub db: Database,
    /// Single writes.
    pub writer: Arc<Writer>,
    /// The same database, as SQL sees it.
    #[cfg(feature = "sql")]
    pub sql: sql::Sql,
    /// Handles by name, of tables that somebody asked for. One that was dropped stays until it is used, and found out.
    tables: ArcSwap<Names<Table>>,
}

/// So many handles are kept; beyond that the map is begun anew.
const KEPT_TABLES: usize = 4096;

impl Open {
    /// Over an open database; `memory` is for the writes that wait, of all databases.
    pub fn new(db: Database, memory: Arc<Semaphore>, ship: Option<Box<dyn Ship>>) -> Self {
        Open {
            ship,
            failure_is_logged: AtomicBool::new(false),
            writer: Writer::new(db.clone(), memory),
            #[cfg(feature = "sql")]
            sql: sql::Sql::new(db.clone()),
            db,
            tables: ArcSwap::default(),
        }
    }

    /// Logs, once, why shipping ended.
    pub fn log_failure_of_shipping(&self, name: &str) {
        let failure = self.ship.as_ref().and_then(|ship| ship.failure());
        if let Some(error) = failure
            && !self.failure_is_logged.swap(true, Ordering::SeqCst)
        {
            tracing::error!(%error, database = %name, "the database is no longer shipped");
        }
    }

    /// Ships what is left, and closes the database.
    pub fn close(&self) -> Result<()> {
        if let Some(ship) = &self.ship
            && let Err(error) = ship.end()
        {
            tracing::error!(%error, "not everything was shipped");
        }
        self.db.close()
    }

    /// Memory for the writes that wait.
    pub fn memory() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MOST_WAITING_BYTES))
    }

    /// Over a database that is the only one.
    #[cfg(test)]
    pub fn alone(db: Database) -> Self {
        Open::new(db, Open::memory(), None)
    }

    /// Runs `with` on a handle that was used before. No lock, no allocation, no look into the database, and no count
    /// of handles, which all threads would write to.
    #[inline]
    pub fn with_known_table<T>(&self, name: &str, with: impl FnOnce(&Table) -> T) -> Option<T> {
        self.tables.load().get(name).map(with)
    }

    /// A handle that was used before, to be kept.
    pub fn known_table(&self, name: &str) -> Option<Table> {
        self.with_known_table(name, Table::clone)
    }

    /// What memory knows of `key`: a value, that it is absent, or nothing.
    #[inline]
    pub fn resident(&self, table: &Table, key: &[u8]) -> Option<Option<Vec<u8>>> {
        match self.db.snapshot().ok()?.get_resident(table, key).ok()? {
            Resident::Found(value) => Some(Some(value)),
            Resident::Absent => Some(None),
            Resident::WouldWait => None,
        }
    }

    /// The table named `name`. May read from the disk.
    pub fn table(&self, name: &str) -> Answer<Table> {
        if let Some(table) = self.known_table(name) {
            return Ok(table);
        }
        let missing = || Problem::not_found(format!("there is no table {name:?}"));
        let table = self.db.snapshot()?.table(name)?.ok_or_else(missing)?;
        self.know(&table);
        Ok(table)
    }

    /// The table named `name`, made if it does not exist.
    pub fn table_or_create(&self, name: &str, options: &TableOptions) -> Result<Table> {
        let found = self.db.snapshot()?.table(name)?;
        let table = match found {
            Some(table) => table,
            None => self.db.write(|tx| match tx.table(name)? {
                Some(table) => Ok(table),
                None => tx.create_table(name, options),
            })?,
        };
        self.know(&table);
        Ok(table)
    }

    /// Keeps a handle for the next request.
    pub fn know(&self, table: &Table) {
        self.tables.rcu(|known| {
            let mut known = if known.len() < KEPT_TABLES { Names::clone(known) } else { Names::default() };
            known.insert(table.name().into(), table.clone());
            known
        });
    }

    /// Forgets a handle that was found to be no good any more.
    pub fn forget(&self, name: &str) {
        self.tables.rcu(|known| {
            let mut known = Names::clone(known);
            known.remove(name);
            known
        });
    }
}
