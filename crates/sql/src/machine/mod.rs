//! The SQLite that runs a connection's statements.
//!
//! * `trees.rs`: the one of `pando_sqlite`, whose main database is Pando's. Its transaction is that of the connection.
//! * `loaded.rs`: that of a program that loads Pando as an extension, with the feature `loadable`. Its main database is
//!   the program's, and typed tables have a transaction of their own beside it.
//!
//! Both have the same names, those of rusqlite, so that nothing above knows which one it is.

#[cfg(feature = "loadable")]
mod loaded;
#[cfg(not(feature = "loadable"))]
mod trees;

#[cfg(feature = "loadable")]
pub(crate) use loaded::*;
#[cfg(not(feature = "loadable"))]
pub(crate) use trees::*;

/// Something that a statement does or names, as far as confined connections decide about it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named<'a> {
    /// It leaves the database.
    Outside,
    Pragma(&'a str),
    Function(&'a str),
    Other,
}

/// The limits of confined connections. SQLite's own are meant for trusted statements, on a stack of 8 MiB: each level
/// of an expression or of a nested query, and each `%` of a pattern, is a recursive call.
const MOST_ATTACHED: u32 = 0;
const MOST_DEPTH: u32 = 500;
const MOST_SELECTS: u32 = 200;
const MOST_PATTERN_BYTES: u32 = 1000;
