//! Pando's crash explorer. It runs seeded workloads on a simulated disk and examines every image that a crash could
//! leave.
//!
//! ```text
//!   workload ──scripts──► schedule ──disk history, promises──► explore ──images──► verify
//!   (clients)             (turns, faults)  └── model (oracle) ──────┴───────────────┘ └► report
//! ```
//! Read the modules in this order: [`workload`], [`model`], [`perform`], [`phase`], [`history`], [`schedule`],
//! [`explore`], [`verify`], [`report`]. [`copying`] takes backups meanwhile, [`beside`] is a reader in another process,
//! and [`consuming`] a consumer of changes. [`faults`] makes every single call fail in turn, and [`rot`] flips single
//! bytes.
#![deny(missing_docs)]

pub mod beside;
pub mod consuming;
pub mod copying;
pub mod explore;
pub mod faults;
pub mod history;
pub mod model;
pub mod perform;
pub mod phase;
pub mod report;
pub mod rot;
pub mod schedule;
pub mod verify;
pub mod workload;
