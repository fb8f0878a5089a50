//! Typed documents: rows of typed tables, and of tables that SQL made, as JSON objects.
//!
//! * `/documents`: GET lists the tables, with columns, keys and indexes.
//! * `/documents/{table}`: GET with `index`, `start`, `end`, `prefix`, `reverse`, `limit`, `cursor`, `value_bytes`,
//!   `format`: a range
//!   of the primary key or of an index; POST: rows of NDJSON or CSV, all of them in one transaction.
//! * `/documents/{table}/{key}`: GET, PUT, PATCH, DELETE of one row.
//!
//! Values are written as `rows` writes them: as JSON in documents, and as text in addresses. The parts of a key follow
//! one another with slashes between them. Each request looks the table up in its own snapshot or transaction, so no
//! handle is ever stale.
//!
//! `list` lists tables, `range` reads ranges, `import` stores many rows, and `one` handles single documents.
//! `merge_patch` changes members of one, `address` parses addresses, and `described` writes them beside documents whose
//! long values are cut.

mod address;
#[cfg(feature = "arrow")]
mod columns;
mod described;
pub mod import;
pub mod list;
mod merge_patch;
pub mod one;
pub mod range;
