//! SQLite's interface for virtual tables, made safe: the one room of this crate that holds `unsafe`.
//!
//! [`register`] gives a connection a module; what the module does is a [`Table`] and its [`Cursor`], both safe, and in
//! this file. `query.rs` has what SQLite asks a table to choose among, `values.rs` what it hands in, `host.rs` what a
//! table may ask of the connection that calls it, `calls.rs` the functions that C calls.
//! rusqlite has traits for the same, but none of the hooks for savepoints, without which a statement that fails
//! half-way could not be undone (`iVersion` 2 of the interface).

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

/// What to do with a row that breaks a constraint: `INSERT OR ...`.
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

    /// `CREATE TABLE x(...)`: the names, types and collations that SQLite is to know.
    fn declaration(&self) -> String;
    /// The cheapest way to answer a query.
    fn best_index(&self, query: &Query<'_>) -> Outcome<Choice>;
    /// A new cursor, which stands nowhere.
    fn open(&self) -> Self::Cursor;
    /// Carries out a change of one row. An insert answers the new row's id.
    fn update(&self, change: Change<'_>) -> Outcome<Option<i64>>;
    /// A statement is going to write, or a transaction to read.
    fn begin(&self) -> Outcome;
    /// The transaction is to be committed: the last moment to refuse.
    fn sync(&self) -> Outcome;
    /// The transaction is committed.
    fn commit(&self);
    /// The transaction is given up.
    fn rollback(&self);
    /// Savepoint `number` begins; a number that is taken already stands for several tables.
    fn savepoint(&self, number: i32) -> Outcome;
    /// Savepoint `number`, and all above, end; what was written stays.
    fn release(&self, number: i32) -> Outcome;
    /// What was written since savepoint `number` is undone; the savepoint stays.
    fn rollback_to(&self, number: i32) -> Outcome;
}

/// A scan of a table.
pub(crate) trait Cursor: 'static {
    /// Begins the scan that [`Table::best_index`] chose, at its first row.
    fn filter(&mut self, plan: i32, arguments: &Arguments<'_>) -> Outcome;
    /// Goes to the next row.
    fn next(&mut self) -> Outcome;
    /// Whether the scan is behind its last row.
    fn is_done(&self) -> bool;
    /// The current row's value in a column.
    fn column(&mut self, column: usize) -> Outcome<ValueRef<'_>>;
    /// The current row's id.
    fn row_id(&mut self) -> Outcome<i64>;
}

/// What makes tables: one a name.
pub(crate) trait Connect<T: Table>: 'static {
    /// The table, as of now.
    fn connect(&self, host: Host) -> Outcome<T>;
}
