//! SQLite on Pando: SQLite's parser, planner and executor, complete and unchanged, on the tables of a Pando database.
//!
//! ```
//! # #[cfg(not(feature = "drop-in"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pando_sqlite::{Connection, Value};
//!
//! let db = pando::Database::builder().in_memory()?;
//! let connection = Connection::open(&db)?;
//! connection.execute("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT)")?;
//! connection.execute("INSERT INTO fruit(name) VALUES ('apple'), ('lemon')")?;
//! let rows = connection.query("SELECT name FROM fruit WHERE id = 2")?;
//! assert_eq!(rows, [[Value::Text("lemon".into())]]);
//! # Ok(())
//! # }
//! # #[cfg(feature = "drop-in")]
//! # fn main() {}
//! ```
//!
//! Programs should use `pando-db-sql`, which builds on this package and adds typed tables. Every table and every index
//! is a table of Pando. Each connection's transaction is a transaction of Pando, so several connections can write at
//! once. The [guide] lists the differences from SQLite; the [decision] says how it works, what it costs, and what is
//! not supported.
//!
//! [guide]: https://github.com/pando-db/pando/blob/main/docs/sql.md
//! [decision]: https://github.com/pando-db/pando/blob/main/docs/decisions/0042-pando-below-sqlite.md

// SQLite's layers meet at one private interface: above it are SQL, schemas, triggers, foreign keys, FTS5; below it are
// B-trees, pages and the WAL. Here Pando is below it:
//
// ```text
//   SQL ──► SQLite (parser, planner, executor)
//              │ sqlite3Btree…, defined in c/glue.c
//              ├──► TEMP, :memory:, attached files: SQLite's own B-trees
//              └──► calls ──► cursor ──► state ──► pando
// ```
// SQLite's interface for backups copies pages, of which there are none: `c/backup.c` goes through a temporary file.
//
// Reading order: the crate `sqlite-format` (bytes), `paging`, `memory`, `counters`, `writers`, `state` (transactions
// and trees), `cursor` (moves and changes), `calls` (what C calls), `connection` (what a program calls), `ffi` (what a
// program's own tables call).
#![deny(missing_docs)]

mod calls;
#[cfg(not(feature = "drop-in"))]
mod connection;
mod counters;
mod cursor;
mod failure;
#[cfg(not(feature = "drop-in"))]
pub mod ffi;
mod files;
mod memory;
mod paging;
mod registry;
mod state;
mod sys;
mod writers;

#[cfg(not(feature = "drop-in"))]
pub use connection::{
    Access, Action, Bound, Connection, Decision, Error, Interrupt, Limit, Rows, Running, Statement, Value,
    ValueRef, count_memory, limit_memory,
};
pub use registry::Offer;
pub use state::Conflict;
