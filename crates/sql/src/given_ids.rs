//! The ids that rows of tables with `AUTOINCREMENT` were given. They are recorded, so that none is given again,
//! whatever happened to its row.
//!
//! 1. The table [`ROW_IDS`] has one record for each such table: its number (4 bytes, big-endian), and an id (8 bytes,
//!    big-endian). All ids up to that one may have been given.
//! 2. Before an id beyond it is given, a transaction of its own records an id that is [`BLOCK`] larger. The commit of
//!    the row follows it in the log, so the record survives whatever that commit survives.
//! 3. After an opening, ids continue after the recorded one. So up to [`BLOCK`] ids are skipped, as SQLite allows.

use pando::{Database, Durability, Error, Result, Snapshot, Transaction, TransactionOptions};
use rows::ROW_IDS;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The number of ids that are recorded at once.
const BLOCK: i64 = 1000;

/// The recorded ids by table, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct GivenIds(Mutex<HashMap<u32, i64>>);

impl GivenIds {
    /// Returns the largest id of table `table` that may have been given; 0 if there is none.
    pub fn largest(&self, db: &Database, table: u32) -> Result<i64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known_or_read(&mut known, db, table)
    }

    /// Notes that `id` is going to be given.
    pub fn give(&self, db: &Database, table: u32, id: i64) -> Result<()> {
        // Other connections wait here for the record, once for each block.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if id <= known_or_read(&mut known, db, table)? {
            return Ok(());
        }
        let last = id.saturating_add(BLOCK - 1);
        let options = TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() };
        db.write_with(&options, |tx| record(tx, table, last))?;
        known.insert(table, last);
        Ok(())
    }
}

fn known_or_read(known: &mut HashMap<u32, i64>, db: &Database, table: u32) -> Result<i64> {
    if let Some(last) = known.get(&table) {
        return Ok(*last);
    }
    let last = recorded(&db.snapshot()?, table)?;
    known.insert(table, last);
    Ok(last)
}

/// Returns the largest id that is recorded of table `table`; 0 if none is.
pub(crate) fn recorded(snapshot: &Snapshot, table: u32) -> Result<i64> {
    let Some(ids) = snapshot.table(ROW_IDS)? else { return Ok(0) };
    let Some(bytes) = snapshot.get(&ids, table.to_be_bytes())? else { return Ok(0) };
    let damaged =
        |_| Error::corruption(format!("{ROW_IDS}: the record of table {table} does not have 8 bytes"));
    Ok(i64::from_be_bytes(bytes[..].try_into().map_err(damaged)?))
}

/// Records that ids up to `last` may have been given.
pub(crate) fn record(tx: &mut Transaction, table: u32, last: i64) -> Result<()> {
    let ids = tx.ensure_table(ROW_IDS)?;
    tx.put(&ids, table.to_be_bytes(), last.to_be_bytes())
}

/// Removes the record of a table that is dropped.
pub(crate) fn forget(tx: &mut Transaction, table: u32) -> Result<()> {
    match tx.table(ROW_IDS)? {
        Some(ids) => tx.delete(&ids, table.to_be_bytes()).map(drop),
        None => Ok(()),
    }
}
