//! Names that a typed table or its index has in common with something that SQLite made.
//!
//! SQLite looks up its own tables first, so that a typed table of the same name could not be reached, and would be
//! described as if it were the other one. A statement that makes such a name is refused after it has run, and is
//! undone. Names that were made in common without this crate do not prevent that one of the two is renamed or dropped.
//!
//! A table of SQLite's cannot have a foreign key to a typed one, which has no index that SQLite could read. That is
//! checked in the same way.

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::lexer;
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

/// Returns whether SQLite made something of this kind, an index or a trigger, and name.
pub(super) fn has_own(sqlite: &machine::Connection, kind: &str, name: &str) -> Result<bool> {
    let find = "SELECT 1 FROM main.sqlite_schema WHERE type = ? AND name = ? COLLATE NOCASE";
    let mut statement = machine::prepare_kept(sqlite, find)?;
    machine::bind(&mut statement, 1, ValueRef::Text(kind.as_bytes()))?;
    machine::bind(&mut statement, 2, ValueRef::Text(name.as_bytes()))?;
    Ok(statement.raw_query().next()?.is_some())
}

/// Returns the error of a name that is taken.
pub(super) fn taken(name: &str) -> Error {
    Error::new(format!("there is already another table or index with this name: {name}"))
}

/// The most bytes that the definitions of a database may have together if a confined connection adds to them. Every
/// connection reads all of them before its first statement, into the memory that all connections share.
const MOST_TEXT_BYTES: i64 = 1 << 20;
/// What a definition counts beside its text, also one that has none: an index of a `UNIQUE` constraint.
const BYTES_OF_EACH: i64 = 200;

/// What SQLite's definitions have in common with typed tables.
#[derive(Default)]
pub(crate) struct Common {
    /// The bytes of all of SQLite's definitions; 0 for a connection that is not confined.
    text_bytes: i64,
    /// Names, in lowercase.
    names: HashSet<String>,
    /// Foreign keys: the table of SQLite's and the typed one, both in lowercase.
    references: HashSet<(String, String)>,
}

/// Returns what is in common, as the running transaction sees it.
pub(crate) fn shared(connection: &Connection) -> Result<Common> {
    let sqlite = &connection.sqlite;
    let is_bounded = connection.is_confined && cfg!(not(feature = "loadable"));
    let text_bytes = if is_bounded { text_bytes(sqlite)? } else { 0 };
    let all = connection.session().write(|tx| Ok(DynamicTable::all_created(tx)?))?;
    if all.is_empty() {
        return Ok(Common { text_bytes, ..Common::default() });
    }
    let tables = all.iter().map(|table| table.name().to_ascii_lowercase()).collect();
    let references = references(sqlite, &tables)?;
    let mut of_sqlite = made_by_sqlite(sqlite)?;
    let mut typed = HashSet::new();
    for table in all {
        let indexes = table.schema().indexes().iter().map(rows::Index::name);
        // Those of constraints have names that only SQLite's own can have.
        let indexes = indexes.filter(|index| !index.starts_with("sqlite_"));
        typed.extend(indexes.chain([table.name()]).map(str::to_ascii_lowercase));
    }
    of_sqlite.retain(|name| typed.contains(name));
    Ok(Common { text_bytes, names: of_sqlite, references })
}

/// Returns the bytes of all of SQLite's definitions.
fn text_bytes(sqlite: &machine::Connection) -> Result<i64> {
    let sum = format!(
        "SELECT coalesce(sum({BYTES_OF_EACH} + coalesce(octet_length(sql), 0)), 0) FROM main.sqlite_schema"
    );
    let mut statement = machine::prepare_kept(sqlite, &sum)?;
    let mut rows = statement.raw_query();
    match rows.next()?.map(|row| row.get_ref(0)).transpose()? {
        Some(ValueRef::Integer(bytes)) => Ok(bytes),
        _ => Err(Error::new("sqlite_schema cannot be read")),
    }
}

/// Returns the foreign keys of SQLite's tables to those of `tables`.
fn references(sqlite: &machine::Connection, tables: &HashSet<String>) -> Result<HashSet<(String, String)>> {
    let mut references = HashSet::new();
    if cfg!(feature = "loadable") {
        return Ok(references);
    }
    let keys = "SELECT child.name, key.\"table\" FROM main.sqlite_schema AS child
        JOIN pragma_foreign_key_list(child.name, 'main') AS key
        WHERE child.type = 'table' AND child.sql LIKE '%references%'";
    let mut statement = machine::prepare_kept(sqlite, keys)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if let (ValueRef::Text(child), ValueRef::Text(parent)) = (row.get_ref(0)?, row.get_ref(1)?) {
            let [child, parent] =
                [child, parent].map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
            if tables.contains(&parent) {
                references.insert((child, parent));
            }
        }
    }
    Ok(references)
}

/// Returns the views and triggers whose text names a table.
pub(super) fn naming(sqlite: &machine::Connection, table: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if cfg!(feature = "loadable") {
        return Ok(found);
    }
    let definitions =
        "SELECT type || ' ' || name, sql FROM main.sqlite_schema WHERE type IN ('view', 'trigger')
        UNION ALL SELECT type || ' ' || name, sql FROM temp.sqlite_schema WHERE type IN ('view', 'trigger')";
    let mut statement = machine::prepare_kept(sqlite, definitions)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if let (ValueRef::Text(what), ValueRef::Text(sql)) = (row.get_ref(0)?, row.get_ref(1)?) {
            let mut tokens = lexer::tokens(std::str::from_utf8(sql).unwrap_or_default());
            let is_it = |name: String| name.eq_ignore_ascii_case(table);
            if tokens.any(|token| token.name().is_some_and(is_it)) {
                found.push(String::from_utf8_lossy(what).into_owned());
            }
        }
    }
    Ok(found)
}

/// Returns whether the running transaction sees a typed table of this name.
pub(super) fn is_typed_table(session: &Session, name: &str) -> Result<bool> {
    let all = session.write(|tx| Ok(DynamicTable::all_created(tx)?))?;
    Ok(all.iter().any(|table| table.name().eq_ignore_ascii_case(name)))
}

/// Checks that the running transaction has made nothing in common, and not too much.
pub(crate) fn check_new(connection: &Connection, before: &Common) -> Result<()> {
    let now = shared(connection)?;
    if now.text_bytes > MOST_TEXT_BYTES.max(before.text_bytes) {
        return Err(Error::new(format!(
            "the definitions of this database count {} bytes with this one, and clients can make at most \
             {MOST_TEXT_BYTES} (their texts, and {BYTES_OF_EACH} for each): drop tables, views or triggers \
             first, or shorten this one",
            now.text_bytes
        )));
    }
    if let Some(name) = now.names.difference(&before.names).next() {
        return Err(taken(name));
    }
    match now.references.difference(&before.references).next() {
        None => Ok(()),
        Some((child, parent)) => Err(Error::new(format!(
            "not supported: a foreign key of table {child} to {parent}, which was not made by CREATE TABLE; \
             leave it out"
        ))),
    }
}
