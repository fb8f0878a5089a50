//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.
//! What counts or changes something of the whole process has a program of its own beside this one, and so have the
//! tests of isolation, which keep all processors busy.

#[path = "../support/mod.rs"]
mod support;

mod api;
mod api_model;
mod backup;
mod backup_hostile;
mod backup_retention;
mod backup_trouble;
mod basics;
mod budget;
mod changes;
mod compressed;
mod counters;
mod displaced;
mod examples;
mod explain;
mod forged;
mod full_disk;
mod large;
mod long_readers;
mod options;
mod pacing;
mod panics;
mod pinned_space;
mod read_only;
mod resident;
mod space;
mod trouble;
mod wakers;
