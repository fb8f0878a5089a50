//! The tables of a database in which SQL has created nothing yet.

use crate::failure::{FULL, IOERR, Outcome, READONLY};
use pando::any::AnyDatabase;
use pando::{ReadTables, WriteTables};
use sqlite_format::names;

/// Creates the tables of an empty database, unless it cannot be written at the moment. What exists can be read then.
pub(super) fn ensure_unless_read_only(db: &AnyDatabase) -> Outcome<()> {
    // Over a store, the first write creates them: a program that only reads writes nothing.
    if db.is_read_only() || db.native().is_none() {
        return Ok(());
    }
    match ensure_tables(db) {
        Err(failure) if [FULL, IOERR, READONLY].contains(&failure.code) => Ok(()),
        done => done,
    }
}

/// Creates the tables of an empty database, and the one that has the schema cookie in its name in a database that an
/// older version made.
pub(super) fn ensure_tables(db: &AnyDatabase) -> Outcome<()> {
    // A write could wait for a transaction that excludes others, and mostly there is nothing to write.
    if db.read(|snapshot| are_there(&snapshot))? {
        return Ok(());
    }
    db.ensure_table(names::META)?;
    db.ensure_table(&names::of_root(names::SCHEMA))?;
    Ok(db.write(|transaction| {
        let name = name_of_definitions(transaction)?;
        transaction.ensure_table(&name).map(drop)
    })?)
}

fn are_there(reader: &impl ReadTables) -> pando::Result<bool> {
    let schema = names::of_root(names::SCHEMA);
    for name in [names::META, &schema, &name_of_definitions(reader)?] {
        if reader.table(name)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the name of the table that has the schema cookie in its name.
fn name_of_definitions(reader: &impl ReadTables) -> pando::Result<String> {
    let Some(meta) = reader.table(names::META)? else { return Ok(names::of_cookie(0)) };
    let decode = |value: &[u8]| value.try_into().map_or(0, u32::from_be_bytes);
    Ok(names::of_cookie(reader.get_with(&meta, names::COOKIE, decode)?.unwrap_or(0)))
}
