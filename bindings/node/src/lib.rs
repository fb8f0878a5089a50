//! The native half of the Node package `pando-db`. `lib/index.js` makes the package's classes of it.
//!
//! 1. Nothing that can wait runs on the thread of the event loop: it runs on the threads of `pool.rs`, and settles a
//!    promise. A value that memory holds is copied at once.
//! 2. Many records or writes are one packed buffer, so that a call into this library has a cost per chunk, not per
//!    record.
//! 3. No panic leaves, and an error arrives with its kind, and the table and key of a conflict (`promise.rs`).
//!
//! Reading order: `pool.rs`, `bytes.rs`, `promise.rs`, `packed.rs`, `database.rs`, `reader.rs`, `transaction.rs`,
//! `values.rs`, `changes.rs`, `sql.rs`.

mod pool;
mod bytes;
mod promise;
mod packed;
mod database;
mod reader;
mod transaction;
mod values;
mod changes;
#[cfg(feature = "sql")]
mod sql;
