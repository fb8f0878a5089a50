//! Names that a typed table or its index has in common with something that SQLite made.
//!
//! SQLite looks up its own tables first, so that a typed table of the same name could not be reached, and would be
//! described as if it were the other one. A statement that makes such a name is refused after it has run, and is
//! undone. Names that were made in common without this crate do not prevent that one of the two is renamed or dropped.

use crate::error::{Error, Result};
use crate::machine;
use crate::session::Session;
use rows::DynamicTable;
use rusqlite::types::ValueRef;
use std::collections::HashSet;

/// Returns the names of tables, views and indexes that SQLite made, in lowercase. In the SQLite of another program they
/// are that program's.
pub(super) fn made_by_sqlite(sqlite: &machine::Connection) -> Result<HashSet<String>> {
    let mut of_sqlite = HashSet::new();
    if cfg!(feature = "loadable") {
        return Ok(of_sqlite);
    }
    let names = "SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view', 'index')";
    let mut statement = machine::prepare_kept(sqlite, names)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if let ValueRef::Text(name) = row.get_ref(0)? {
            of_sqlite.insert(String::from_utf8_lossy(name).to_ascii_lowercase());
        }
    }
    Ok(of_sqlite)
}

/// Returns the error of a name that is taken.
pub(super) fn taken(name: &str) -> Error {
    Error::new(format!("there is already another table or index with this name: {name}"))
}

/// Returns the names in common, in lowercase, as the running transaction sees them.
pub(super) fn shared(sqlite: &machine::Connection, session: &Session) -> Result<HashSet<String>> {
    let all = session.write(|tx| Ok(DynamicTable::all_created(tx)?))?;
    if all.is_empty() {
        return Ok(HashSet::new());
    }
    let mut of_sqlite = made_by_sqlite(sqlite)?;
    let mut typed = HashSet::new();
    for table in all {
        let indexes = table.schema().indexes().iter().map(rows::Index::name);
        // Those of constraints have names that only SQLite's own can have.
        let indexes = indexes.filter(|index| !index.starts_with("sqlite_"));
        typed.extend(indexes.chain([table.name()]).map(str::to_ascii_lowercase));
    }
    of_sqlite.retain(|name| typed.contains(name));
    Ok(of_sqlite)
}

/// Returns whether the running transaction sees a typed table of this name.
pub(super) fn is_typed_table(session: &Session, name: &str) -> Result<bool> {
    let all = session.write(|tx| Ok(DynamicTable::all_created(tx)?))?;
    Ok(all.iter().any(|table| table.name().eq_ignore_ascii_case(name)))
}

/// Checks that the running transaction has made no name in common.
pub(super) fn check_new(
    sqlite: &machine::Connection,
    session: &Session,
    before: &HashSet<String>,
) -> Result<()> {
    match shared(sqlite, session)?.difference(before).next() {
        None => Ok(()),
        Some(name) => Err(taken(name)),
    }
}
