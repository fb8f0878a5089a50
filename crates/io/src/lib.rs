//! Files and directories behind traits (floor 1), with a simulated disk that loses, reorders and tears writes.
//!
//! All other crates reach the disk through [`Dir`] and [`File`] alone. So the engine that is tested is the engine that
//! ships: a test needs no hook and no flag, only another [`Dir`].
//!
//! ```text
//!   log, space, pool, store
//!            │  Dir, File, LogMap, Lock
//!   ┌────────┼─────────────┐
//!  OsDir   MemDir   sim::SimDisk ──> Image: one of the states that a power loss may leave
//! ```
//!
//! Reading order: [`Dir`] and [`File`] define the contract. `os` implements it with Linux (and macOS) calls, `map.rs`
//! maps log segments, and `bus.rs` turns a SIGBUS in them into an error. `mem.rs` is the shortest implementation.
//! [`ReadOnlyDir`] rejects all writes. [`memory`] maps buffers, which go back to the system when they are dropped.
//! [`sim`] simulates power losses and failures. [`precise_sleep`] and [`ShortTimeSlice`] request from the scheduler
//! what background work and servers need.
#![deny(missing_docs)]

#[cfg(not(unix))]
compile_error!(
    "Pando runs on Linux and macOS; other systems are refused until their durability rules are implemented"
);

#[cfg(target_os = "linux")]
mod bus;
mod dir;
mod file;
mod fork;
mod holders;
#[cfg(target_os = "linux")]
mod map;
mod mem;
pub mod memory;
mod os;
mod read_only;
mod sched;
pub mod sim;
#[cfg(target_os = "linux")]
mod writeback;

pub use dir::{Dir, Lock};
pub use file::{File, FileId, LogMap};
pub use fork::Origin;
pub use mem::MemDir;
pub use os::OsDir;
pub use read_only::ReadOnlyDir;
pub use sched::{ShortTimeSlice, precise_sleep};
