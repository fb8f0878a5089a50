//! Checkpoints: sealed memtables become runs in the data file, and the log before them is dropped.
//!
//! `steps` is the whole of a checkpoint. Its optional parts have a file each: the work of LSM tables (`lsm`), making
//! the data file shorter (`relocate`), and removing expired entries (`sweep`).

mod steps;
mod begin;
mod absorb;
mod besides;
mod tables;
mod dropped;
pub mod lsm;
pub mod relocate;
pub(crate) mod sweep;
pub(crate) mod amplification;

pub(crate) use steps::PROGRESS_RECORDS;
pub use steps::{Checkpoint, Step};
