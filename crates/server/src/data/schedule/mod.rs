//! Scheduled backups: each database is backed up at an interval into a folder of its own.
//!
//! 1. [`plan`] decides without side effects: when a backup is due, and whether it begins a chain.
//! 2. [`take`] takes one backup into a folder: incremental if the chain allows it, read back before its file gets its
//!    name, and followed by the removal of what the retention no longer selects.
//! 3. [`worker`] is the one thread that takes them, one after the other, and the results that operators see.
//!
//! When a backup is due follows from what the folder holds, so a restart neither repeats nor skips one.

pub mod plan;
pub mod take;
pub mod worker;
