//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

mod beginnings;
mod beside;
mod changes;
mod consumers;
mod dead_stretches;
mod failed_commits;
mod filters;
mod full_disk;
mod gaps;
mod large_values;
mod long_snapshot;
mod lsm;
mod many_tables;
mod merge_model;
mod merged_memory;
mod ownership;
mod recovery_budget;
mod salvage;
mod short_memory;
mod spill;
mod seed;
mod sync_commits;
mod ttl;
mod ttl_by_key;
mod value_ref;
mod write_set_model;
