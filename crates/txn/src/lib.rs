//! Rules for when transactions may commit (floor 3). This crate has no I/O, no storage and no locks.
//!
//! ```text
//!   begin ──> Clocks        which commits a transaction sees
//!   read  ──> ReadSet       what its results depend on: keys, and ranges up to the last key returned
//!   commit ─> validate()    is all of that unchanged? asks a History, which the store implements
//! ```
//!
//! Reading order: [`isolation`] (the guarantees), [`clocks`], [`positions`] (finding a table among many), [`reads`],
//! [`mod@validate`].
#![deny(missing_docs)]

pub mod clocks;
pub mod isolation;
pub mod positions;
pub mod reads;
pub mod validate;

pub use clocks::Clocks;
pub use isolation::{Durability, Isolation};
pub use positions::Positions;
pub use reads::{RangeToken, ReadSet};
pub use validate::{Conflict, History, WrittenKey, validate};
