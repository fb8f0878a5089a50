//! Commits: how writes get into the log and the open memtable, and how a full memtable is sealed.
//!
//! `steps` is the only path for commits, up to their flush in `acknowledge`; `apply_spilled` is its variant for writes
//! that did not fit into memory. `memory` reserves their memory. `unpublished` handles what fails from the append on.

mod steps;
mod acknowledge;
mod memory;
pub(crate) mod apply;
mod apply_spilled;
mod recent;
mod reclaim;
mod delay;
mod unpublished;

pub use steps::Applied;
pub(crate) use steps::{Repeated, Request, encode, next_stamp};
