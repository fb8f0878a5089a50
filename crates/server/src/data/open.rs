//! An open database with its tables by name and its queue of single writes.

use crate::data::engine::{Engine, Native};
use crate::data::names::Names;
use crate::data::writer::{MOST_WAITING_BYTES, Writer};
use crate::shipping::Ship;
use crate::wire::problem::{Answer, Problem};
use arc_swap::ArcSwap;
use axum::http::StatusCode;
use pando::{Database, Error, ErrorKind, ReadTables, Resident, Result, Table, TableOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A database that is open.
#[derive(Debug)]
pub struct Open<E: Engine = Native> {
    /// What it has with its engine alone. It is dropped before the database.
    pub own: E::Own,
    /// The database.
    pub db: E::Database,
    /// Handles by name of tables that requests used. The handle of a dropped table stays until it is used and found to
    /// be stale.
    tables: ArcSwap<Names<Table>>,
}

/// What a database of Pando's own engine has in addition.
#[derive(Debug)]
pub struct Own {
    /// The code that ships the database, if it is shipped.
    ship: OnceLock<Box<dyn Ship>>,
    /// Whether the log already has the reason why shipping ended.
    failure_is_logged: AtomicBool,
    /// Whether the last line in the log about shipping says that it does not work at present.
    difficulty_is_logged: AtomicBool,
    /// Whether the database is about to be dropped.
    is_leaving: AtomicBool,
    /// The queue of single writes.
    pub writer: Arc<Writer>,
    /// The SQL interface of the same database.
    #[cfg(feature = "sql")]
    pub sql: sql::Sql,
}

/// The longest time that a write waits for the bucket.
pub const SHIPPED_WITHIN: Duration = Duration::from_secs(30);

/// Returns the problem of a write that is not in the bucket in time.
#[cold]
pub fn not_shipped() -> Problem {
    let detail = "the write is stored in this database, but was not in the bucket within 30 s; it is \
                  shipped when the bucket can be reached again, and is lost if this machine is lost before";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-shipped", detail)
}

/// Returns whether shipping has ended because another copy of the database has the lineage.
pub fn is_of_another(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Fenced | ErrorKind::Mismatch)
}

/// Returns the problem of a write that is not in the bucket because shipping has ended with `error`. Whatever ended it,
/// the write is stored, and its request was valid.
#[cold]
pub fn never_shipped(error: &Error) -> Problem {
    let (kind, detail) = if is_of_another(error) {
        ("fenced", error.to_string())
    } else {
        ("not-shipped", format!("the write is stored in this database, which is not shipped: {error}"))
    };
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail)
}

/// Returns the problem of a drop that the bucket does not have, or may not have, because of `error`.
#[cold]
fn not_dropped(error: &Error) -> Problem {
    let kind = if is_of_another(error) { "fenced" } else { "not-shipped" };
    let detail = format!(
        "the database was not dropped, because the bucket to which it is shipped has to have the drop first: \
         {error}"
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail)
}

/// The number of handles that are kept. Beyond it the map starts again, empty.
const KEPT_TABLES: usize = 4096;

impl Open {
    /// Wraps an open database; `memory` is that of waiting writes, over all databases.
    pub fn new(db: Database, memory: Arc<Semaphore>, ship: Option<Box<dyn Ship>>) -> Self {
        let own = Own {
            ship: ship.map_or_else(OnceLock::new, OnceLock::from),
            failure_is_logged: AtomicBool::new(false),
            difficulty_is_logged: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            writer: Writer::new(db.clone(), memory),
            #[cfg(feature = "sql")]
            sql: sql::Sql::new(db.clone()),
        };
        Open::with_own(db, own)
    }

    /// Returns the code that ships the database, if it is shipped.
    pub fn ship(&self) -> Option<&dyn Ship> {
        self.own.ship.get().map(|ship| &**ship)
    }

    /// Waits until everything that was committed is in the bucket. The thread may wait.
    ///
    /// # Errors
    /// 503 `not-shipped` after [`SHIPPED_WITHIN`]; [`never_shipped`].
    #[cfg(feature = "sql")]
    pub fn wait_until_shipped(&self) -> Answer<()> {
        let Some(ship) = self.ship() else { return Ok(()) };
        let newest = self.db.snapshot()?.commit_number();
        let (shipped, outcome) = std::sync::mpsc::channel();
        ship.when_shipped(newest, Box::new(move |done| drop(shipped.send(done))));
        match outcome.recv_timeout(SHIPPED_WITHIN) {
            Ok(done) => done.map_err(|error| never_shipped(&error)),
            Err(_) => Err(not_shipped()),
        }
    }

    /// Sets whether the database is about to be dropped. Streams of changes then end, and none begins: they would keep
    /// it in use for as long as it is followed.
    pub fn set_leaving(&self, is_leaving: bool) {
        self.own.is_leaving.store(is_leaving, Ordering::SeqCst);
    }

    /// Returns whether the database is about to be dropped.
    pub fn is_leaving(&self) -> bool {
        self.own.is_leaving.load(Ordering::SeqCst)
    }

    /// Returns whether the database is shipped, and requests to the bucket fail at present.
    pub fn cannot_be_shipped(&self) -> bool {
        self.ship().is_some_and(|ship| ship.difficulty().is_some())
    }

    /// Begins to ship the database, which is not shipped yet.
    pub fn set_ship(&self, ship: Box<dyn Ship>) {
        // If it is shipped already, the new one ends.
        let _ = self.own.ship.set(ship);
    }

    /// Logs once why shipping ended, and each time that it begins to fail or works again.
    pub fn log_shipping(&self, name: &str) {
        let Some(ship) = self.ship() else { return };
        if let Some(error) = ship.failure() {
            if !self.own.failure_is_logged.swap(true, Ordering::SeqCst) {
                tracing::error!(%error, database = %name, "the database is no longer shipped");
            }
            return;
        }
        let difficulty = ship.difficulty();
        let was_logged = self.own.difficulty_is_logged.swap(difficulty.is_some(), Ordering::SeqCst);
        match difficulty {
            Some(error) if !was_logged => {
                tracing::warn!(%error, database = %name, "the database cannot be shipped; trying again");
            }
            // The same level, so that the end of the trouble is seen wherever its beginning was.
            None if was_logged => tracing::warn!(database = %name, "the database is shipped again"),
            _ => {}
        }
    }

    /// Ships the remaining commits, gives up the place in the bucket, and closes the database. The place is given up at
    /// each close, because at its end the server can do so only for databases that are open then.
    pub fn close(&self) -> Result<()> {
        if let Some(ship) = self.ship()
            && let Err(error) = ship.release()
        {
            tracing::error!(%error, "not everything was shipped");
        }
        self.db.close()
    }

    /// Says in the bucket that the database is dropped, if it is shipped.
    ///
    /// # Errors
    /// [`not_dropped`], if the bucket is not known to have the drop. Nothing is shipped any more in either case.
    pub fn ship_drop(&self) -> Answer<()> {
        self.ship().map_or(Ok(()), |ship| ship.drop_database().map_err(|error| not_dropped(&error)))
    }

    /// Returns the memory of waiting writes.
    pub fn memory() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MOST_WAITING_BYTES))
    }

    /// Wraps a database that is the only one.
    #[cfg(test)]
    pub fn alone(db: Database) -> Self {
        Open::new(db, Open::memory(), None)
    }

    /// Returns what memory knows about `key`: its value, that it is absent, or nothing.
    #[inline]
    pub fn resident(&self, table: &Table, key: &[u8]) -> Option<Option<Vec<u8>>> {
        match self.db.snapshot().ok()?.get_resident(table, key).ok()? {
            Resident::Found(value) => Some(Some(value)),
            Resident::Absent => Some(None),
            Resident::WouldWait => None,
        }
    }

    /// Returns the table named `name`, and creates it if it does not exist.
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
}

impl<E: Engine> Open<E> {
    /// Wraps an open database with what it has with its engine alone.
    pub fn with_own(db: E::Database, own: E::Own) -> Self {
        Open { db, own, tables: ArcSwap::default() }
    }

    /// Runs `with` on a handle that was used before. It takes no lock, allocates nothing, does not look into the
    /// database, and changes no reference count, which all threads would write to.
    #[inline]
    pub fn with_known_table<T>(&self, name: &str, with: impl FnOnce(&Table) -> T) -> Option<T> {
        self.tables.load().get(name).map(with)
    }

    /// Returns a clone of a handle that was used before.
    pub fn known_table(&self, name: &str) -> Option<Table> {
        self.with_known_table(name, Table::clone)
    }

    /// Returns the table named `name`. May read from the disk.
    pub fn table(&self, name: &str) -> Answer<Table> {
        if let Some(table) = self.known_table(name) {
            return Ok(table);
        }
        let missing = || Problem::not_found(format!("there is no table {name:?}"));
        let table = E::read(&self.db, |snapshot| Ok(snapshot.table(name)?))?.ok_or_else(missing)?;
        self.know(&table);
        Ok(table)
    }

    /// Keeps a handle for later requests.
    pub fn know(&self, table: &Table) {
        self.tables.rcu(|known| {
            let mut known = if known.len() < KEPT_TABLES { Names::clone(known) } else { Names::default() };
            known.insert(table.name().into(), table.clone());
            known
        });
    }

    /// Forgets a stale handle.
    pub fn forget(&self, name: &str) {
        self.tables.rcu(|known| {
            let mut known = Names::clone(known);
            known.remove(name);
            known
        });
    }
}
