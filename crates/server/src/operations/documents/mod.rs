//! Typed documents: rows of typed tables as JSON objects.
//!
//! * `/documents`: GET lists the tables, with columns, keys and indexes.
//! * `/documents/{table}`: GET with `index`, `start`, `end`, `prefix`, `reverse`, `limit`, `cursor`, `format`: a range
//!   of the primary key or of an index; POST: rows of NDJSON or CSV, all of them in one transaction.
//! * `/documents/{table}/{key}`: GET, PUT, DELETE of one row.
//!
//! Values are written as `rows` writes them: as JSON in documents, and as text in addresses. The parts of a key follow
//! one another with slashes between them. Each request looks the table up in its own snapshot or transaction, so no
//! handle is ever stale.
//!
//! `list` lists tables, `range` reads ranges, `import` stores many rows, and `one` handles single documents. `address`
//! parses addresses.

mod address;
#[cfg(feature = "arrow")]
mod columns;
pub mod import;
pub mod list;
pub mod one;
pub mod range;
