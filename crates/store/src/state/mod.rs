//! The parts of an open database: the contents of its files, what readers see of it, and what it may use.
//!
//! The first files here describe data and the parts of a store, and do not know the store. `store` joins them, and the
//! files after it are the functions of a whole store that the other wings call.

// These are on the disk.
pub mod catalog;
pub mod superblock;
pub mod tables;
pub mod stack;
pub(crate) mod roots;
pub mod attach;
pub mod ttl;
pub(crate) mod board;
pub(crate) mod seats;
// These are in memory.
pub mod options;
pub mod latch;
pub mod view;
pub mod pacing;
pub(crate) mod stretches;
pub(crate) mod requested;
pub(crate) mod committer;
pub(crate) mod pins;
pub(crate) mod checkpoints;
pub(crate) mod upkeep;
pub(crate) mod changes;
pub(crate) mod early;
pub(crate) mod processes;
pub(crate) mod names;
pub(crate) mod feeds;
pub(crate) mod consumers;
pub mod store;
// These are functions of a store.
pub(crate) mod closing;
pub mod expiry;
pub(crate) mod cached_slot;
pub mod memory;
pub(crate) mod ownership;
pub(crate) mod paid_reads;
pub(crate) mod reserve;
pub mod time;
