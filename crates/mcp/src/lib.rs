//! Pando, floor 8: a server of the Model Context Protocol, which gives an agent the tables of one database as tools.
//!
//! ```text
//!   serve ──► Server ──► tools ──► records, statements, describe ──► pando, rows, sql
//!             protocol    names,    one function each
//!             (rmcp)      schemas
//! ```
//!
//! Reading order: [`Options`] and [`serve`]; `server.rs` (the protocol), `tools.rs` (which tools there are),
//! `statements.rs`, `records.rs`, `describe.rs` (what they do), over `held.rs` (what a call works with),
//! `arguments.rs` (what it asks for), `shown.rs` (bytes as JSON) and `failure.rs`.
#![deny(missing_docs, unsafe_code)]

mod failure;
mod shown;
mod arguments;
mod held;
mod describe;
mod records;
mod statements;
mod tools;
mod server;

pub use server::serve;

use std::time::Duration;

/// What an agent may do, and how much of the database a single call may show.
///
/// ```
/// let options = pando_mcp::Options { allows_writes: true, ..pando_mcp::Options::default() };
/// assert_eq!(options.statement_time.as_secs(), 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether there are tools that write. Without them, no call changes the database.
    pub allows_writes: bool,
    /// How long one SQL statement may run.
    pub statement_time: Duration,
    /// How many bytes of records or rows one result may have. A longer result ends early and says how to go on.
    pub result_bytes: usize,
}

impl Default for Options {
    /// Returns options that allow only reads, for at most 30 seconds each, with at most 256 KiB in a result.
    fn default() -> Self {
        Options { allows_writes: false, statement_time: Duration::from_secs(30), result_bytes: 256 << 10 }
    }
}
