//! A safe form of SQLite's interface for virtual tables. This is the only module of the crate with `unsafe`.
//!
//! [`register`] gives a connection a module, which consists of a [`Table`] and its [`Cursor`]. Both are safe, and in
//! this file. `query.rs` has the query for which a table chooses a plan, `values.rs` the values that SQLite passes,
//! `host.rs` what a table can ask of its connection, and `calls.rs` the functions that C calls. rusqlite has traits for
//! the same purpose, but without the hooks for savepoints, which are necessary to undo a statement that fails after
//! some rows (`iVersion` 2 of the interface).

mod calls;
mod host;
mod query;
mod values;

use crate::failure::Outcome;
pub(crate) use calls::{register, unregister};
#[cfg(feature = "loadable")]
pub use host::loadable;
pub(crate) use host::{Host, Reserved, version_number};
pub(crate) use query::{Choice, Constraint, Operator, Query, collation_of};
use rusqlite::types::ValueRef;
pub(crate) use values::{Arguments, Change, Row};

/// The handling of a row that breaks a constraint: `INSERT OR ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnConflict {
    Rollback,
    Ignore,
    Fail,
    Abort,
    Replace,
}

/// A table's side of a connection.
pub(crate) trait Table: Sized + 'static {
    type Cursor: Cursor;

    /// Returns `CREATE TABLE x(...)` with the names, types and collations for SQLite.
    fn declaration(&self) -> String;
    /// Chooses the cheapest plan for a query.
    fn best_index(&self, query: &Query<'_>) -> Outcome<Choice>;
    /// Creates a cursor without a position.
    fn open(&self) -> Self::Cursor;
    /// Carries out a change of one row. For an insert, returns the new row's id.
    fn update(&self, change: Change<'_>) -> Outcome<Option<i64>>;
    /// Begins: a statement is going to write, or a transaction to read.
    fn begin(&self) -> Outcome;
    /// Prepares the commit, which it may still refuse.
    fn sync(&self) -> Outcome;
    /// Notes that the transaction is committed.
    fn commit(&self);
    /// Rolls back the transaction.
    fn rollback(&self);
    /// Begins savepoint `number`. It is called for several tables, so the number may already exist.
    fn savepoint(&self, number: i32) -> Outcome;
    /// Ends savepoint `number` and all above it, and keeps what was written.
    fn release(&self, number: i32) -> Outcome;
    /// Undoes what was written since savepoint `number`, which stays.
    fn rollback_to(&self, number: i32) -> Outcome;
}

/// A scan of a table.
pub(crate) trait Cursor: 'static {
    /// Begins the scan that [`Table::best_index`] chose, at its first row.
    fn filter(&mut self, plan: i32, arguments: &Arguments<'_>) -> Outcome;
    /// Goes to the next row.
    fn next(&mut self) -> Outcome;
    /// Returns whether the scan is after its last row.
    fn is_done(&self) -> bool;
    /// Returns the current row's value in a column.
    fn column(&mut self, column: usize) -> Outcome<ValueRef<'_>>;
    /// Returns the current row's id.
    fn row_id(&mut self) -> Outcome<i64>;
}

/// Creates tables, one for each name.
pub(crate) trait Connect<T: Table>: 'static {
    /// Returns the table in its current state.
    fn connect(&self, host: Host) -> Outcome<T>;
}
