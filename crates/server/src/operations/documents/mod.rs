//! Typed documents: rows of typed tables as JSON objects.
//!
//! * `/documents`: GET lists the tables, with columns, keys and indexes.
//! * `/documents/{table}`: GET with `index`, `start`, `end`, `prefix`, `reverse`, `limit`, `cursor`, `format`: a range
//!   of the primary key or of an index; POST: rows of NDJSON or CSV, all of them in one transaction.
//! * `/documents/{table}/{key}`: GET, PUT, DELETE of one row.
//!
//! Values are written as `rows` writes them, as JSON in documents and as text in addresses; the parts of a key stand
//! behind one another with slashes between. A table is looked up in each request's own snapshot or transaction, so that
//! no handle is ever out of date.
//!
//! Tables are listed in `list`, ranges read in `range`, many rows stored in `import`, and single documents handled in
//! `one`. `address` takes addresses apart.

mod address;
pub mod import;
pub mod list;
pub mod one;
pub mod range;
