//! Pando, floor 6: flame graphs of a running process. Where CPU time goes, who allocates, and which locks are waited
//! for, as SVG or as folded text, with the names of a release build's functions.
//!
//! ```text
//!   SIGPROF, at ticks of CPU time ──┐
//!   the allocator, every 64 KiB ────┼─► unwind ──► ring ──► drainer ──► Profile ──► svg, folded, top
//!   a lock was waited for ──────────┘  addresses only        adds up     names, at the end
//! ```
//!
//! Reading order: [`recording`] (what a user calls), `window` (the last seconds of all that time),
//! `native` (registers, unwinding, the signal: Linux on x86-64 and AArch64), `ring` (from the sampled threads to the
//! drainer), [`allocator`], `locks`, and [`folded`]; [`freed`] (what the allocator keeps).
//!
//! A source takes no lock, allocates nothing, and writes only to the ring: any instruction of the process may be
//! under it. One recording at a time; nothing is paid while there is none, but one load for each allocation where the
//! [allocator](allocator::Allocator) is installed.
//!
//! ```
//! let profile = pando_profile::cpu(std::time::Duration::from_millis(20))?;
//! assert_eq!(profile.kind(), pando_profile::Kind::Cpu);
//! assert!(profile.svg().contains("<svg"));
//! # Ok::<(), pando_profile::Error>(())
//! ```
#![deny(missing_docs)]

pub mod allocator;
pub mod folded;
pub mod freed;
mod locks;
#[cfg_attr(
    not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "elsewhere.rs"
)]
mod native;
pub mod recording;
mod ring;
mod window;

pub use allocator::Allocator;
pub use folded::Profile;
pub use recording::{Error, Kind, Recording, alloc, cpu, lock};
pub use window::Window;

/// The examples of the package's page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;
