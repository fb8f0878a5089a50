//! Pando, floor 3: when transactions may commit. No I/O, no storage, no locks.
//!
//! ```text
//!   begin ──> Clocks        which commits a transaction sees
//!   read  ──> ReadSet       what its answers depend on: keys, and ranges up to the last key returned
//!   commit ─> validate()    is all of that unchanged? asks a History, which the store implements
//! ```
//!
//! Reading order: [`isolation`] (what may be promised), [`clocks`], [`reads`], [`mod@validate`].
#![deny(missing_docs)]

pub mod clocks;
pub mod isolation;
pub mod reads;
pub mod validate;

pub use clocks::Clocks;
pub use isolation::{Durability, Isolation};
pub use reads::{RangeToken, ReadSet};
pub use validate::{Conflict, History, WrittenKey, validate};
