//! The one table of `/v0`, in the default database, which is always open.

use crate::data::engine::{Engine, Native};
use crate::data::open::Open;
use crate::data::served::Served;
use crate::wire::problem::{Answer, Problem};
use arc_swap::ArcSwap;
use axum::http::StatusCode;
use pando::{Result, Table};
use std::sync::Arc;

/// The name of the table.
const NAME: &str = "entity";

/// The table and its database.
#[derive(Debug)]
pub struct EntityTable<E: Engine = Native> {
    current: ArcSwap<Current<E>>,
}

/// What requests use: both at once, because a handle belongs to one opening of the database.
#[derive(Debug)]
struct Current<E: Engine> {
    /// The default database; `None` while a replica replaces it by a new copy.
    open: Option<Arc<Open<E>>>,
    /// `None` in a replica whose primary has no such table yet.
    table: Option<Table>,
}

impl<E: Engine> Current<E> {
    fn open(&self) -> Answer<Arc<Open<E>>> {
        let being_replaced = || Problem::busy("the database is being replaced by a new copy");
        self.open.clone().ok_or_else(being_replaced)
    }
}

impl<E: Served> EntityTable<E> {
    /// Opens the table in the default database `open`, and creates it if it does not exist.
    pub fn new(open: Arc<Open<E>>) -> Result<Self> {
        let entity = EntityTable { current: ArcSwap::from_pointee(Current { open: None, table: None }) };
        entity.attach(open)?;
        Ok(entity)
    }

    /// Uses the table in `open` from now on.
    pub fn attach(&self, open: Arc<Open<E>>) -> Result<()> {
        let table = E::entity_table(&open, NAME)?;
        self.current.store(Arc::new(Current { open: Some(open), table }));
        Ok(())
    }

    /// Releases the database, so that it can be closed.
    pub fn detach(&self) {
        self.current.store(Arc::new(Current { open: None, table: None }));
    }

    /// Returns the default database.
    ///
    /// # Errors
    /// 503 while it is being replaced.
    pub fn open(&self) -> Answer<Arc<Open<E>>> {
        self.current.load().open()
    }

    /// Runs `with` on the handle that was used last; `None` if there is none.
    #[inline]
    pub fn with_known<T>(&self, with: impl FnOnce(&Open<E>, &Table) -> T) -> Option<T> {
        let current = self.current.load();
        Some(with(current.open.as_deref()?, current.table.as_ref()?))
    }

    /// Returns the default database, and a clone of the handle that was used last.
    ///
    /// # Errors
    /// As for [`EntityTable::open`].
    pub fn known(&self) -> Answer<(Arc<Open<E>>, Option<Table>)> {
        let current = self.current.load();
        Ok((current.open()?, current.table.clone()))
    }

    /// Returns the table with its database, and creates it again if it was dropped. Waits for the disk.
    pub fn made_again(&self) -> Answer<(Arc<Open<E>>, Table)> {
        let open = self.open()?;
        let missing = || Problem::not_found(format!("there is no table {NAME:?}"));
        let table = E::entity_table(&open, NAME)?.ok_or_else(missing)?;
        self.current.store(Arc::new(Current { open: Some(Arc::clone(&open)), table: Some(table.clone()) }));
        Ok((open, table))
    }

    /// Runs `work` on the table. If the table was dropped, creates it and runs `work` on the new one.
    pub fn on_table<T>(&self, work: impl Fn(&Arc<Open<E>>, &Table) -> Answer<T>) -> Answer<T> {
        let (open, known) = self.known()?;
        if let Some(table) = known {
            match work(&open, &table) {
                Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
                done => return done,
            }
        }
        let (open, table) = self.made_again()?;
        work(&open, &table)
    }
}
