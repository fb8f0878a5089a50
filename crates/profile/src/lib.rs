//! Pando, floor 6: flame graphs of a running process. They show where CPU time is spent, who allocates, and which locks
//! are waited for, as SVG or as folded text, with the function names of a release build.
//!
//! ```text
//!   SIGPROF, at ticks of CPU time ──┐
//!   the allocator, every 64 KiB ────┼─► unwind ──► ring ──► drainer ──► Profile ──► svg, folded, top
//!   a lock was waited for ──────────┘  addresses only        adds up     names, at the end
//! ```
//!
//! The modules are listed in their order. Each uses only those before it:
//!
//! 1. [`kind`]: the kinds of recordings. `ring`: the channel from the sampled threads to the drainer.
//! 2. `native`: registers, unwinding and the signal, on Linux with x86-64 and AArch64.
//! 3. [`allocator`] and `locks`: the other two sources.
//! 4. [`folded`]: names, text and pictures.
//! 5. [`recording`]: the user's interface. `window`: a continuous recording of the last seconds.
//! 6. [`freed`]: free memory that the allocator keeps.
//!
//! A source takes no lock, allocates nothing, and writes only to the ring, because it can interrupt any instruction of
//! the process. Only one recording runs at a time. Without a recording the only cost is one load for each allocation
//! where the [allocator](allocator::Allocator) is installed.
//!
//! ```
//! let profile = pando_profile::cpu(std::time::Duration::from_millis(20))?;
//! assert_eq!(profile.kind(), pando_profile::Kind::Cpu);
//! assert!(profile.svg().contains("<svg"));
//! # Ok::<(), pando_profile::Error>(())
//! ```
#![deny(missing_docs)]

pub mod kind;
mod ring;
#[cfg_attr(
    not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "elsewhere.rs"
)]
mod native;
pub mod allocator;
mod locks;
pub mod folded;
pub mod recording;
mod window;
pub mod freed;

pub use allocator::Allocator;
pub use folded::Profile;
pub use kind::{Error, Kind};
pub use recording::{Recording, alloc, cpu, lock};
pub use window::Window;

/// The examples of the package's page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;
