//! What a transaction writes before its commit: its write set, the part of it that did not fit into memory, and
//! large values, which go to the data file at once.

pub mod write_set;
pub(crate) mod spill;
pub mod large;
