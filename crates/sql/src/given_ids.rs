//! The ids that rows of tables with `AUTOINCREMENT` were given. They are recorded, so that none is given again,
//! whatever happened to its row.
//!
//! 1. The table [`ROW_IDS`] has one record for each such table: its number (4 bytes, big-endian), and an id (8 bytes,
//!    big-endian). All ids up to that one may have been given.
//! 2. Before an id beyond it is given, a transaction of its own records an id that is [`BLOCK`] larger. The commit of
//!    the row follows it in the log, so the record survives whatever that commit survives. The connection can exclude
//!    other writers meanwhile, and then commits the record in spite of that. Nothing is locked during this commit:
//!    others who waited for it could exclude it themselves.
//! 3. After an opening, ids continue after the recorded one. So up to [`BLOCK`] ids are skipped, as SQLite allows.
//! 4. What was recorded since this was read belongs to somebody else: another [`Sql`](crate::Sql) of the database, or
//!    the primary that a replica followed before. None of these ids is given here, and the record never decreases.

use pando::any::{AnyDatabase, AnyTransaction};
use pando::{Durability, Error, ErrorKind, ReadTables, Result, TransactionOptions, WriteTables};
use rows::ROW_IDS;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    pub fn largest(&self, db: &AnyDatabase, table: u32) -> Result<i64> {
        Ok(known_or_read(&mut self.known(), db, table)?.last)
    }

    /// Notes that `id` is going to be given. If somebody else may have given it, returns the last id of which that is
    /// so: the next that can be given is after it. `commit` commits a record.
    ///
    /// # Errors
    /// Those of the commit; a conflict if others record ids of the table each time that this does.
    pub fn give(
        &self,
        db: &AnyDatabase,
        table: u32,
        id: i64,
        commit: impl Fn(AnyTransaction) -> Result<()>,
    ) -> Result<Option<i64>> {
        let mut attempt = 1;
        loop {
            let own = known_or_read(&mut self.known(), db, table)?;
            if id <= own.last {
                return Ok((id < own.first).then(|| own.first - 1));
            }
            match self.record_block(db, table, id, &commit) {
                // Most likely another connection has recorded the block that `id` is in.
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < MOST_ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    /// Records a block that begins with `id`. Returns what [`GivenIds::give`] does.
    fn record_block(
        &self,
        db: &AnyDatabase,
        table: u32,
        id: i64,
        commit: impl Fn(AnyTransaction) -> Result<()>,
    ) -> Result<Option<i64>> {
        let last = id.saturating_add(BLOCK - 1);
        let options = TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() };
        let mut tx = db.begin_with(&options)?;
        let others = recorded(&tx, table)?;
        let is_free = others < id;
        if is_free {
            record(&mut tx, table, last)?;
            commit(tx)?;
        }
        let mut known = self.known();
        let own = known_or_read(&mut known, db, table)?;
        if !is_free {
            // It may be another connection's here, which has noted it since.
            if others > own.last {
                known.insert(table, Own::after(others));
                return Ok(Some(others));
            }
            return Ok((id < own.first).then(|| own.first - 1));
        }
        // Another connection may have recorded a later block meanwhile. Then the rest of this one is not used.
        if own.last < last {
            let first = if others == own.last { own.first } else { id };
            known.insert(table, Own { first, last });
        }
        Ok(None)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u32, Own>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a record is tried at most.
const MOST_ATTEMPTS: u32 = 20;

fn known_or_read(known: &mut HashMap<u32, Own>, db: &AnyDatabase, table: u32) -> Result<Own> {
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
pub(crate) fn record(tx: &mut AnyTransaction, table: u32, last: i64) -> Result<()> {
    let ids = tx.ensure_table(ROW_IDS)?;
    tx.put(&ids, table.to_be_bytes(), last.to_be_bytes())
}

/// Removes the record of a table that is dropped.
pub(crate) fn forget(tx: &mut AnyTransaction, table: u32) -> Result<()> {
    match tx.table(ROW_IDS)? {
        Some(ids) => tx.delete(&ids, table.to_be_bytes()).map(drop),
        None => Ok(()),
    }
}
