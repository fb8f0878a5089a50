//! Pando, floor 4: views, catalog, commit, checkpoint and recovery as resumable steps.

pub mod merge;
pub mod write_set;
