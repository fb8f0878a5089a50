//! Pando, floor 6: typed tables, indexes and documents over the engine's tables of bytes.
//!
//! ```
//! use pando_rows::{Column, ColumnType, Definition, DynamicTable, IndexDefinition, KeyRange, Value};
//! # fn main() -> pando::Result<()> {
//! let db = pando::Database::builder().in_memory()?;
//! let definition = Definition::new("people")
//!     .column(Column::new("id", ColumnType::Int))
//!     .column(Column::new("name", ColumnType::Text))
//!     .column(Column::new("town", ColumnType::Text).nullable())
//!     .key(["id"])
//!     .index(IndexDefinition::new("by_town", ["town", "name"]));
//! let people = db.write(|tx| DynamicTable::create(tx, &definition))?;
//! db.write(|tx| {
//!     people.insert(tx, &[Value::from(1), Value::from("Ann"), Value::from("Ulm")])?;
//!     people.insert(tx, &[Value::from(2), Value::from("Bob"), Value::Null])
//! })?;
//! let snapshot = db.snapshot()?;
//! let ulm = [Value::from("Ulm")];
//! for row in people.scan_index(&snapshot, "by_town", &KeyRange::prefix(&ulm))? {
//!     assert_eq!(row?[1], Value::from("Ann"));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # By struct
//! A struct that derives [`Row`](trait@Row) is a row of a [`Table`], with typed keys. [`Table::ensure`] creates and
//! extends the table according to the struct.
//!
//! # By schema
//! [`DynamicTable`] is a handle on a table with one version of its [`Schema`]. Every call takes the
//! [`pando::Transaction`], or, to read, any [`pando::ReadTables`] (a transaction or a [`pando::Snapshot`]).
//!
//! | to | call |
//! |---|---|
//! | make, open, list | [`DynamicTable::ensure`], `create`, `open`, `expect`, `all` |
//! | change the schema | [`DynamicTable::add_column`], `drop_column`, `rename_column`, `rename`, `create_index`, ... |
//! | write | [`DynamicTable::insert`], `upsert`, `update`, `replace`, `delete`, `remove`, `clear` |
//! | read | [`DynamicTable::get`], `get_with`, `contains`; `scan`, `scan_index`, `count` over a [`KeyRange`] |
//!
//! A call that changes a schema takes the handle and returns the next one. [`build_index`] builds an index of a table
//! while others write to it; [`check()`] compares each index with its table.
//!
//! A row is anything that implements [`Columns`]: a slice or vector of [`Value`]s in the order of the columns. Rows
//! that are read are `Vec<Value>`, owned or borrowed.
//!
//! A call that writes either writes the row with all of its index entries, or fails and writes nothing; the transaction
//! can then continue. An error has a [`Cause`]. A handle of an older schema version returns [`Cause::SchemaChanged`]
//! (kind `Missing`), and a transaction that has used such a handle conflicts with the change of the schema at commit,
//! at every isolation level.
//!
//! [`ChangedRows`] shows the changes of a database as rows. [`Import`] puts rows of CSV or NDJSON into a table, in one
//! transaction or in chunks; [`RowWriter`] writes rows.
//!
//! Reading order: `value.rs`, `key.rs`, `row.rs` (bytes); `definition.rs`, `schema.rs`, `codec.rs`, `catalog.rs`;
//! `sqlite/` (tables that SQLite made); `reserved.rs`, `part_position.rs`, `table.rs`, `decoding.rs`, `open.rs`,
//! `columns.rs`, `write.rs`, `scan.rs`, `batch.rs`, `alter.rs`, `build.rs`, `ensure.rs`, `check/`, `changed/`;
//! `field.rs`, `typed.rs`; `text.rs`, `files/`.
#![deny(missing_docs, unsafe_code)]

// The code that the macro generates refers to the crate by its published name, also in this crate.
extern crate self as pando_rows;

mod alter;
mod batch;
mod build;
mod catalog;
mod cause;
mod changed;
mod check;
mod codec;
mod columns;
mod decoding;
mod definition;
mod ensure;
mod field;
mod files;
mod json;
mod key;
mod open;
mod reserved;
mod row;
mod scan;
mod schema;
mod part_position;
mod sqlite;
mod table;
mod text;
mod typed;
mod value;
mod write;
mod write_sqlite;

pub use batch::{Batch, BatchScan, Bounds};
pub use build::{BuildProgress, build_index, build_index_in_chunks, finish_index, unfinished_indexes};
pub use catalog::exclude_new_tables;
pub use cause::Cause;
pub use changed::{Changed, ChangedRows, Defined, Named};
pub use check::{CheckReport, Problem, check};
pub use columns::Columns;
pub use definition::{Collation, Column, Definition, IndexDefinition, Part};
pub use field::{Field, Key, KeyPart, Timestamp};
#[doc(hidden)]
pub use field::{field_from, wrong_count};
// With these, generated code needs no other crate's name.
pub use files::{
    Import, ImportError, ImportFailure, Imported, PartialImport, Quotes, Refused, RowFormat, RowReader,
    RowSource, RowWriter, Storage, Text, check_beginning, json_problem, other_delimiter,
};
pub use json::check_json;
pub use open::names_made_by_sqlite;
#[doc(hidden)]
pub use pando::Result as EngineResult;
pub use reserved::{ROW_IDS, is_reserved, refuse_reserved};
pub use rows_derive::Row;
pub use scan::{KeyRange, Position, Scan};
pub use schema::{Index, MAX_COLUMNS, MAX_INDEXES, MAX_NAME_BYTES, Schema};
pub use table::{DynamicRow, DynamicTable};
pub use typed::{Row, Rows, Table};
pub use value::{ColumnType, Value};

/// Compiles and runs the examples of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;
