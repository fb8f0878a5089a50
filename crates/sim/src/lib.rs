//! Pando's crash explorer: seeded workloads on the simulated disk, every image a crash could leave.
//!
//! ```text
//!   workload ──scripts──► schedule ──disk history, promises──► explore ──images──► verify
//!   (clients)             (turns, faults)  └── model (oracle) ──────┴───────────────┘ └► report
//! ```
//! Reading order: [`workload`], [`model`], [`perform`], [`phase`], [`history`], [`schedule`], [`explore`], [`verify`],
//! [`report`]; [`copying`], backups taken meanwhile; [`beside`], readers in another process; [`consuming`], a
//! consumer of changes; also [`faults`], which
//! makes every single call fail in turn, and [`rot`], which flips single bytes.
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
