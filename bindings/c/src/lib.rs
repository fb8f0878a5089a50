//! The C interface of Pando. `pando.h` is generated from this crate, and is its documentation.
//!
//! ```text
//!   C program ──► pando.h ──► db.rs, table.rs, snapshot.rs, tx.rs, cursor.rs ──► binding ──► pando
//!                                  memory.rs, error.rs, code.rs
//! ```
//!
//! 1. Every function has one `unsafe` block, which takes its arguments for what the header demands of them. What can
//!    be checked (NULL, alignment, the type of a handle, lengths, UTF-8) is checked by safe code afterwards.
//! 2. All work happens inside [`error::call`], which catches panics and reports failures.
//! 3. Bytes that the caller is to free come from `malloc`, so that `pando_free` is `free`.
//!
//! Reading order: `code.rs`, `memory.rs` (pointers as arguments), `error.rs`, `reads.rs` (what snapshots and
//! transactions have in common), then the functions: `db.rs`, `upkeep.rs`, `table.rs`, `snapshot.rs`, `tx.rs`,
//! `tx_reads.rs`, `hold.rs`, `expiry.rs`, `cursor.rs`, `values.rs`, `changes.rs`, `consumer.rs`, `sql.rs` and
//! `stmt.rs` (SQL).
#![allow(non_camel_case_types, reason = "the names are C's")]

pub mod code;
pub mod memory;
pub mod error;
pub mod reads;
pub mod db;
pub mod upkeep;
pub mod table;
pub mod snapshot;
pub mod tx;
pub mod tx_reads;
pub mod hold;
pub mod expiry;
pub mod cursor;
pub mod values;
pub mod changes;
pub mod consumer;
#[cfg(feature = "sql")]
pub mod sql;
#[cfg(feature = "sql")]
pub mod stmt;
