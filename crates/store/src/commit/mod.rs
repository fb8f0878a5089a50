//! Commits: how writes get into the log and into the open memtable, and what becomes of a memtable that is full.
//!
//! `steps` is the one path in; `apply_spilled` is its variant for writes that did not fit into memory.

mod steps;
pub(crate) mod apply;
mod apply_spilled;
mod recent;
mod reclaim;
mod delay;

pub use steps::Applied;
pub(crate) use steps::{Repeated, Request, encode, next_stamp};
