//! What the bindings for C and Node have in common: objects that can be closed before they are freed, errors with a
//! name for each kind, options by name, and steps over records that keep no borrow between two calls. The binding for
//! Python shares [`Reads`] and [`Walk`]; its objects release the interpreter's lock, and check for a fork before they
//! take any lock.
//!
//! 1. No call waits for another call, but for a close of the database: an object that another one uses gives
//!    [`Kind::InUse`]. A child of a fork can therefore call everything, and gets the engine's `Forked`.
//! 2. No panic leaves [`guard`].
//! 3. Objects hold what they depend on, so that they can be freed in any order.
//!
//! Reading order: `failure.rs`, `handle.rs`, `source.rs`, `steps.rs` (records in order), `values.rs` (values a piece at
//! a time), `upkeep.rs` (long work and its progress), `options.rs`, `sql`.
#![deny(missing_docs, unsafe_code)]

mod failure;
mod handle;
pub mod options;
mod source;
#[cfg(feature = "sql")]
pub mod sql;
mod steps;
pub mod upkeep;
mod values;

pub use failure::{Failure, Kind, Outcome, guard};
pub use handle::{Begun, Handle, Held, Hold};
pub use source::{Reads, Source};
pub use steps::{Direction, Fill, Steps, Walk};
pub use values::{ReadValue, WrittenValue};
