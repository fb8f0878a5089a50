//! SQL for Pando databases. SQLite parses, plans and executes the statements; Pando keeps the tables.
//!
//! ```
//! use pando_sql::Sql;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = pando::Database::builder().in_memory()?; // or `Database::create("shop.pando")`
//! let connection = Sql::new(db).connect()?;
//! connection.execute("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT UNIQUE)", &[])?;
//! connection.execute("INSERT INTO fruit(name) VALUES ('apple'), ('lemon')", &[])?;
//! let rows = connection.query("SELECT id, name FROM fruit ORDER BY name", &[])?;
//! println!("{rows:?}");
//! # Ok(())
//! # }
//! ```
//!
//! [`Sql`] is a database with SQL, and a [`Connection`] runs statements; many connections can write at the same time.
//! Statements work on tables that SQL created and on typed tables, in the same transactions. They do not see tables of
//! keys and values. The [guide] lists the differences from SQLite.
//!
//! [guide]: https://github.com/pando-db/pando/blob/main/docs/sql.md

// Floor 7. SQLite's own parser, planner and executor run statements over its own tables on Pando's trees and over
// Pando's typed tables:
//
// ```text
//   sql ──► Connection ──► SQLite ──┬─► virtual tables ──► Session ──► rows ──► pando
//             ddl, dml      parse,  │    plan, table,       the connection's
//                           plan,   │    change             transaction
//                           run     └─► its own tables, by pando_sqlite ──────► pando
// ```
//
// Read the files in this order: `connection.rs`, `prepare.rs`, `statement.rs`, `answer.rs`; `machine` (the SQLite that
// runs statements); `session` and `marker.rs` (transactions); `table.rs`, `plan.rs`, `plain.rs`, `bounds.rs`,
// `cursor.rs`, `transient.rs`, `change.rs`, `row_ids.rs`, `given_ids.rs`, `of_others.rs` (one typed table);
// `column.rs`, `catalog.rs`, `tables.rs`, `others.rs` (the set of typed tables); `asking.rs`, `introspect.rs`
// (descriptions of tables); `ddl`, `dml` over `lexer.rs` (what SQLite does not do for virtual tables); `affinity.rs`;
// `sqlite_file.rs`, `sqlite_export.rs` (files of SQLite); `stop.rs`; `confine.rs` (untrusted statements); `vtab`, the
// only module with `unsafe`.
#![deny(missing_docs, unsafe_code)]

mod affinity;
mod answer;
mod asking;
mod bounds;
mod catalog;
mod change;
mod checks;
mod column;
mod confine;
mod connection;
mod cursor;
mod ddl;
mod dml;
mod error;
mod failure;
mod given_ids;
mod introspect;
mod lexer;
mod machine;
mod marker;
mod of_others;
mod others;
mod plain;
mod plan;
mod prepare;
mod read_texts;
mod row_ids;
mod session;
mod spare;
mod sqlite_export;
mod sqlite_file;
#[cfg(not(feature = "loadable"))]
mod sqlite_import;
mod statement;
mod stop;
mod table;
mod tables;
mod transient;
#[allow(unsafe_code, reason = "an interface of C's")]
mod vtab;

pub use answer::{Row, Rows, to_owned};
pub use confine::{Confines, limit_memory};
pub use connection::{Connection, Interrupt, Sql, TableSchema};
pub use error::{Conflict, Error, Result};
pub use lexer::{First, is_transaction_control, split_first};
pub use pando::remote::Reason;
pub use rusqlite::types::{Value, ValueRef};
pub use rusqlite::version as sqlite_version;
pub use sqlite_export::export_sqlite;
pub use sqlite_file::{CopyProgress, CopyReport, import_sqlite_typed};
#[cfg(not(feature = "loadable"))]
pub use sqlite_import::{SqliteFile, import_sqlite};
pub use statement::{ColumnInfo, Statement};
#[cfg(feature = "loadable")]
pub use vtab::loadable;

/// The examples of the package's page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;
