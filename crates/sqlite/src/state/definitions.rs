//! The tables of a database in which SQL has created nothing yet.

use crate::failure::{FULL, IOERR, Outcome, READONLY};
use pando::{Database, ReadTables};
use sqlite_format::names;

/// Creates the tables of an empty database, unless it cannot be written at the moment. What exists can be read then.
pub(super) fn ensure_unless_read_only(db: &Database) -> Outcome<()> {
    if db.is_read_only() {
        return Ok(());
    }
    match ensure_tables(db) {
        Err(failure) if [FULL, IOERR, READONLY].contains(&failure.code) => Ok(()),
        done => done,
    }
}

/// Creates the tables of an empty database.
pub(super) fn ensure_tables(db: &Database) -> Outcome<()> {
    db.ensure_table(names::META)?;
    db.ensure_table(&names::of_root(names::SCHEMA))?;
    ensure_definitions(db)
}

/// Creates the table that has the schema cookie in its name, in a database that an older version made.
fn ensure_definitions(db: &Database) -> Outcome<()> {
    fn name_of(reader: &impl ReadTables) -> pando::Result<String> {
        let Some(meta) = reader.table(names::META)? else { return Ok(names::of_cookie(0)) };
        let decode = |value: &[u8]| value.try_into().map_or(0, u32::from_be_bytes);
        Ok(names::of_cookie(reader.get_with(&meta, names::COOKIE, decode)?.unwrap_or(0)))
    }
    // A write could wait for a transaction that excludes others, and mostly there is nothing to write.
    let snapshot = db.snapshot()?;
    if snapshot.table(&name_of(&snapshot)?)?.is_some() {
        return Ok(());
    }
    Ok(db.write(|transaction| {
        let name = name_of(transaction)?;
        transaction.ensure_table(&name).map(drop)
    })?)
}
