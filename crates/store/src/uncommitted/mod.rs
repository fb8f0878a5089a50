//! The writes of a transaction before its commit: its write set, the part of it that did not fit into memory, and large
//! values, which are written to the data file at once.

pub mod write_set;
pub(crate) mod spill;
pub mod large;
