//! The ids that rows of tables with `AUTOINCREMENT` were given. They are recorded, so that none is given again,
//! whatever happened to its row.
//!
//! 1. The table [`ROW_IDS`] has one record for each such table: its number (4 bytes, big-endian), and an id (8 bytes,
//!    big-endian). All ids up to that one may have been given.
//! 2. Before an id beyond it is given, a transaction of its own records an id that is [`BLOCK`] larger. The commit of
//!    the row follows it in the log, so the record survives whatever that commit survives.
//! 3. After an opening, ids continue after the recorded one. So up to [`BLOCK`] ids are skipped, as SQLite allows.
//! 4. What was recorded since this was read belongs to somebody else: another [`Sql`](crate::Sql) of the database, or
//!    the primary that a replica followed before. None of these ids is given here, and the record never decreases.

use pando::{Database, Durability, Error, ReadTables, Result, Transaction, TransactionOptions};
use rows::ROW_IDS;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The number of ids that are recorded at once.
const BLOCK: i64 = 1000;

/// What is known of the record of each table.
#[derive(Debug, Default)]
pub(crate) struct GivenIds(Mutex<HashMap<u32, Own>>);

/// The ids from `first` to `last`, which are given here alone; all ids before `first` belong to somebody else.
#[derive(Clone, Copy, Debug)]
struct Own {
    first: i64,
    last: i64,
}

impl Own {
    /// No id yet: all up to `last` belong to somebody else.
    fn after(last: i64) -> Self {
        Own { first: last.saturating_add(1), last }
    }
}

impl GivenIds {
    /// Returns the largest id of table `table` that may have been given; 0 if there is none.
    pub fn largest(&self, db: &Database, table: u32) -> Result<i64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known_or_read(&mut known, db, table)?.last)
    }

    /// Notes that `id` is going to be given. If somebody else may have given it, returns the last id of which that is
    /// so: the next that can be given is after it.
    pub fn give(&self, db: &Database, table: u32, id: i64) -> Result<Option<i64>> {
        // Other connections wait here for the record, once for each block.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known_or_read(&mut known, db, table)?;
        if id <= own.last {
            return Ok((id < own.first).then(|| own.first - 1));
        }
        let last = id.saturating_add(BLOCK - 1);
        let options = TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() };
        let others = db.write_with(&options, |tx| {
            let others = recorded(tx, table)?;
            if others < id {
                record(tx, table, last)?;
            }
            Ok(others)
        })?;
        if others >= id {
            known.insert(table, Own::after(others));
            return Ok(Some(others));
        }
        let first = if others == own.last { own.first } else { id };
        known.insert(table, Own { first, last });
        Ok(None)
    }
}

fn known_or_read(known: &mut HashMap<u32, Own>, db: &Database, table: u32) -> Result<Own> {
    if let Some(own) = known.get(&table) {
        return Ok(*own);
    }
    let own = Own::after(recorded(&db.snapshot()?, table)?);
    known.insert(table, own);
    Ok(own)
}

/// Returns the largest id that is recorded of table `table`; 0 if none is.
pub(crate) fn recorded(reader: &impl ReadTables, table: u32) -> Result<i64> {
    let Some(ids) = reader.table(ROW_IDS)? else { return Ok(0) };
    let Some(bytes) = reader.get(&ids, table.to_be_bytes())? else { return Ok(0) };
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
