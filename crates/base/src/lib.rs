//! The base crate (floor 0): the types that all other crates use, without any I/O.
//!
//! Reading order: [`ids`] and [`large`] (identifiers and references), [`op`] (what a transaction does to a table),
//! [`error`], [`limits`], [`checksum`], [`codec`] (bytes to numbers and back), [`keys`] (order-preserving encodings),
//! [`Span`], [`slots`] (active readers, and what must not be freed while they read), [`budget`], [`mod@env`] (clocks
//! and random numbers), [`mod@prefetch`], [`sync`] (the one import of locks and atomics, so that loom and shuttle can
//! replace them), [`waits`] (waits for locks), [`latency`] and [`reads`] (statistics), [`phases`] (what the engine is
//! doing), [`background`] (work that makes way for other threads), [`explain`] (an operation, step by step).
#![deny(missing_docs)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "Pando needs a target with 64-bit pointers: it keeps sizes of files, and offsets in them, as `usize`"
);

pub mod background;
pub mod budget;
pub mod checksum;
pub mod codec;
pub mod error;
pub mod explain;
mod hook;
pub mod ids;
pub mod keys;
pub mod large;
pub mod latency;
pub mod limits;
pub mod op;
pub mod phases;
pub mod prefetch;
pub mod reads;
pub mod env;
pub mod slots;
mod span;
pub mod sync;
pub mod waits;

pub use error::{Error, ErrorKind, Result};
pub use ids::{CheckpointNo, CommitTs, DatabaseId, Lsn, PagePtr, TableId};
pub use large::{Large, LargeRef, Value};
pub use span::Span;
