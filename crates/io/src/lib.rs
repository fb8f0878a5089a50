//! Pando, floor 1: files and directories behind traits, with a simulated disk that loses, reorders and tears.
//!
//! Everything above reaches the disk through [`Dir`] and [`File`] and through nothing else, so that the engine
//! which is tested is the engine that ships: no hook, no flag, only another [`Dir`].
//!
//! ```text
//!   log, space, pool, store
//!            │  Dir, File, LogMap, Lock
//!   ┌────────┼─────────────┐
//!  OsDir   MemDir   sim::SimDisk ──> Image: one of the states that a power loss may leave
//! ```
//!
//! Reading order: [`Dir`] and [`File`] say what may be relied upon; `os` keeps it with Linux (and macOS) calls,
//! `map.rs` maps log segments, and `bus.rs` makes an error of what would kill the process there; `mem.rs` is the
//! shortest implementation; [`ReadOnlyDir`]
//! refuses to write; [`sim`] is the adversary. [`precise_sleep`] and
//! [`ShortTimeSlice`] ask the scheduler for what background work and servers need.
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
