//! Names of the engine's tables that belong to typed tables, or to tables that SQL made.
//!
//! The tables of the engine that store rows, index entries and schemas have names that begin with [`PREFIX`]
//! (`catalog.rs`), or with [`names::PREFIX`] if SQL made them (`sqlite/`). A write of a single record
//! there bypasses types, keys and indexes, and makes them inconsistent. So every part of the command and of the server
//! that writes records by the name of a table calls [`refuse_reserved`] first. The library itself lets a program write
//! what it wants.

use pando::{Error, Result};
use sqlite_format::names;

/// The prefix of the names that belong to typed tables.
pub(crate) const PREFIX: &str = "rows/";

/// The table that SQL's `AUTOINCREMENT` keeps: which ids each table has given.
pub const ROW_IDS: &str = "rows/ids";

/// Returns whether a table of the engine with this name belongs to typed tables, or to a table that SQLite made.
///
/// ```
/// assert!(pando_rows::is_reserved("rows/catalog") && pando_rows::is_reserved("sql:meta"));
/// assert!(!pando_rows::is_reserved("fruit"));
/// ```
#[inline]
pub fn is_reserved(table: &str) -> bool {
    table.starts_with(PREFIX) || table.starts_with(names::PREFIX)
}

/// Returns an error if `table` is a reserved name. Call it before you write records, or create, rename or drop a table,
/// under a name that comes from outside of the program.
///
/// # Errors
/// `Invalid`; the message explains how to write typed rows instead.
///
/// ```
/// assert!(pando_rows::refuse_reserved("rows/1.1/people").is_err());
/// ```
#[inline]
pub fn refuse_reserved(table: &str) -> Result<()> {
    if is_reserved(table) { Err(refusal(table)) } else { Ok(()) }
}

#[cold]
fn refusal(table: &str) -> Error {
    if table.starts_with(names::PREFIX) {
        let prefix = names::PREFIX;
        return Error::invalid(format!(
            "table {table:?} holds part of what SQL stores, and records written to it directly would break \
             its indexes; write rows with SQL, as documents, or with a typed import; names that begin \
             with {prefix:?} are reserved"
        ));
    }
    Error::invalid(format!(
        "table {table:?} holds part of a typed table, and records written to it directly would break its \
         indexes; write rows with SQL, with a typed import, or as documents; names that begin with \
         {PREFIX:?} are reserved"
    ))
}
