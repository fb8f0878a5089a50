//! Names of Pando's tables that hold SQLite's trees, and the meta values of a database.
//!
//! SQLite knows a table's rows, and an index's entries, by the number of their first page, the root. Here it is a
//! number that is never used again, and the name of a table of Pando: `sql:7`. Root 1 is `sqlite_schema`. The table
//! `sql:meta` has the values that SQLite keeps in the header of a file: the key is their number, one byte, and the
//! value 4 bytes, big-endian.
//!
//! One empty table has the schema cookie in its name: `sql:schema-5`. Each change of a definition renames it, and so
//! conflicts with every transaction that has used it, whatever that transaction's isolation.

/// The prefix of all names.
pub const PREFIX: &str = "sql:";
/// The table of the meta values.
pub const META: &str = "sql:meta";
/// The root of `sqlite_schema`.
pub const SCHEMA: u32 = 1;
/// The key of the schema cookie among the meta values. It changes with each change of a definition.
pub const COOKIE: [u8; 1] = [1];
/// The key of the file format among the meta values. Before format 4, `DESC` in an index has no effect.
pub const FILE_FORMAT: [u8; 1] = [2];

/// Returns the name of the table of a root.
///
/// ```
/// assert_eq!(pando_sqlite_format::names::of_root(7), "sql:7");
/// ```
pub fn of_root(root: u32) -> String {
    format!("{PREFIX}{root}")
}

/// Returns the name of the empty table that stands for the definitions at a schema cookie.
///
/// ```
/// assert_eq!(pando_sqlite_format::names::of_cookie(5), "sql:schema-5");
/// ```
pub fn of_cookie(cookie: u32) -> String {
    format!("{PREFIX}schema-{cookie}")
}

/// Returns the root of a table of Pando; `None` for a table that is none of SQLite's. The meta values, and the table
/// that has the cookie in its name, belong to the schema.
///
/// ```
/// use pando_sqlite_format::names::{META, SCHEMA, of_cookie, of_root, root_of};
/// assert_eq!(root_of(&of_root(7)), Some(7));
/// assert_eq!((root_of(META), root_of(&of_cookie(5))), (Some(SCHEMA), Some(SCHEMA)));
/// assert_eq!(root_of("fruit"), None);
/// ```
pub fn root_of(table: &str) -> Option<u32> {
    let rest = table.strip_prefix(PREFIX)?;
    if table == META || rest.starts_with("schema-") { Some(SCHEMA) } else { rest.parse().ok() }
}
