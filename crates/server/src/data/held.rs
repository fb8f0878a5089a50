//! The data that requests work on: the databases of a server, their tables, and the transactions that clients hold.

use crate::data::engine::{Engine, Native};
use crate::data::open::Open;
use crate::data::served::Served;
use crate::data::transactions::Transactions;
use crate::limits::handoff::hand_off;
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;
use pando::{Durability, ReadTables, Table};
use std::sync::Arc;

/// All data of a server.
#[derive(Debug)]
pub struct Data<E: Engine = Native> {
    /// All databases.
    pub databases: E::Databases,
    /// The transactions that clients hold.
    pub transactions: Arc<Transactions<E>>,
    /// The durability of a write whose request does not set one.
    pub durability: Durability,
}

impl<E: Served> Data<E> {
    /// Returns the database and opens it if necessary.
    pub async fn database(self: &Arc<Self>, name: &str) -> Answer<Arc<Open<E>>> {
        if let Some(open) = E::get_open(&self.databases, name) {
            return Ok(open);
        }
        let (this, name) = (Arc::clone(self), name.to_owned());
        hand_off(move || E::open(&this.databases, &name)).await
    }

    /// Returns the database and a table of it.
    pub async fn table(self: &Arc<Self>, database: &str, name: &str) -> Answer<(Arc<Open<E>>, Table)> {
        let open = self.database(database).await?;
        if let Some(table) = open.known_table(name) {
            return Ok((open, table));
        }
        let name = name.to_owned();
        hand_off(move || open.table(&name).map(|table| (open, table))).await
    }
}

/// Returns the table as the transaction sees it.
pub fn table_in(tx: &impl ReadTables, name: &str) -> Answer<Table> {
    tx.table(name)?.ok_or_else(|| Problem::not_found(format!("there is no table {name:?}")))
}

/// Runs `work` on a table. If the handle is stale because the table was dropped, renamed or given a TTL, it runs `work`
/// again on the table that has the name now.
pub fn on_table<E: Engine, T>(
    open: &Open<E>,
    table: Table,
    mut work: impl FnMut(&Table) -> Answer<T>,
) -> Answer<T> {
    match work(&table) {
        Err(problem) if problem.status == StatusCode::NOT_FOUND => {
            open.forget(table.name());
            work(&open.table(table.name())?)
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando::Database;

    #[test]
    fn a_handle_that_is_no_good_any_more_is_looked_up_again() {
        let open = Open::alone(Database::builder().in_memory().unwrap());
        let old = open.db.ensure_table("t").unwrap();
        open.know(&old);
        let get = |table: Table| on_table(&open, table, |table| Ok(open.db.snapshot()?.get(table, b"k")?));
        assert_eq!(get(old.clone()).unwrap(), None);
        // The table is dropped and created again, while a request that looked it up before keeps the old handle.
        open.db.drop_table("t").unwrap();
        open.db.put(&open.db.ensure_table("t").unwrap(), b"k", b"v").unwrap();
        open.know(&old);
        assert_eq!(get(old.clone()).unwrap(), Some(b"v".to_vec()));
        assert_ne!(open.known_table("t").unwrap().id(), old.id());
        open.db.drop_table("t").unwrap();
        assert_eq!(get(old).unwrap_err().status, StatusCode::NOT_FOUND);
    }
}
