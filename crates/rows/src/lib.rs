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
//! A struct that derives [`Row`](trait@Row) is a row of a [`Table`], with typed keys; the table is made, and extended,
//! as the struct says.
//!
//! # By schema
//! [`DynamicTable`] is a handle on a table as one version of its [`Schema`] has it, and holds nothing else: every
//! call is given the [`pando::Transaction`], or, to read, any
//! [`pando::ReadTables`] (a transaction or a [`pando::Snapshot`]).
//!
//! | to | call |
//! |---|---|
//! | make, open, list | [`DynamicTable::create`], `open`, `expect`, `all` |
//! | change the schema | [`DynamicTable::add_column`], `drop_column`, `rename_column`, `rename`, `create_index`, ... |
//! | write | [`DynamicTable::insert`], `upsert`, `update`, `replace`, `delete`, `remove`, `clear` |
//! | read | [`DynamicTable::get`], `get_with`, `contains`; `scan`, `scan_index`, `count` over a [`KeyRange`] |
//!
//! What changes a schema takes the handle and returns the next one. [`build_index`] makes an index of a table in use,
//! beside its writers; [`check()`] compares each index with its table.
//!
//! A row is anything that is [`Columns`]: a slice or vector of [`Value`]s in the order of the columns. What is read
//! comes as `Vec<Value>`, owned or lent. A call that writes does all of it or nothing, index entries included, and
//! the transaction goes on; an error has a [`Cause`]. A handle of an older version answers [`Cause::SchemaChanged`]
//! (kind `Missing`), and a transaction that has used one conflicts with the change at commit, under every isolation.
//!
//! [`Import`] puts rows of CSV or NDJSON into a table, all or none; [`RowWriter`] writes them down.
//!
//! Reading order: `value.rs`, `key.rs`, `row.rs` (bytes); `definition.rs`, `schema.rs`, `codec.rs`, `catalog.rs`;
//! `reserved.rs`, `spot.rs`, `table.rs`, `columns.rs`, `write.rs`, `scan.rs`, `batch.rs`, `alter.rs`, `build.rs`,
//! `check/`;
//! `field.rs`, `typed.rs`; `text.rs`, `files/`.
#![deny(missing_docs, unsafe_code)]

// What the macro writes calls the crate by its published name, here too.
extern crate self as pando_rows;

mod alter;
mod batch;
mod build;
mod catalog;
mod cause;
mod check;
mod codec;
mod columns;
mod definition;
mod field;
mod files;
mod json;
mod key;
mod reserved;
mod row;
mod scan;
mod schema;
mod spot;
mod table;
mod text;
mod typed;
mod value;
mod write;

pub use batch::{Batch, BatchScan, Bounds};
pub use build::{BuildProgress, build_index, build_index_in_chunks, finish_index, unfinished_indexes};
pub use cause::Cause;
pub use check::{CheckReport, Problem, check};
pub use columns::Columns;
pub use definition::{Collation, Column, Definition, IndexDefinition, Part};
pub use field::{Field, Key, KeyPart, Timestamp};
#[doc(hidden)]
pub use field::{field_from, wrong_count};
// So that what the macro writes needs no name but this crate's.
pub use files::{
    Import, ImportError, ImportFailure, Imported, Kept, Quotes, Refused, RowFormat, RowReader, RowWriter,
    Storage, Text, check_beginning, json_problem, other_delimiter,
};
#[doc(hidden)]
pub use pando::Result as EngineResult;
pub use reserved::{is_reserved, refuse_reserved};
pub use rows_derive::Row;
pub use scan::{KeyRange, Position, Scan};
pub use schema::{Index, MAX_COLUMNS, MAX_INDEXES, MAX_NAME_BYTES, Schema};
pub use table::{DynamicRow, DynamicTable};
pub use typed::{Row, Rows, Table};
pub use value::{ColumnType, Value};

/// The examples of the package's page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;
