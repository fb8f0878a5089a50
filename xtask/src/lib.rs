//! The project's own checks, as `cargo xtask <check>`.
//!
//! The modules, in this order. A module uses those before it; only `guard` and `counters` use each other.
//!
//! 1. [`source`]: a Rust file split into code and comments, which the checks look at.
//! 2. [`tidy`]: how the tree must look: sizes, layering, where `unsafe` may live, what may not be called.
//! 3. [`mutants`]: the durability protocol, broken on purpose, once per patch; each must be caught with a seed.
//! 4. [`guard`]: what operations cost in instructions, allocations and system calls, held against budgets;
//!    `counters`: what the engine's own counters cost a read.
//!
//! Only the standard library is used, so that the checks build in a second and depend on nothing they judge.
#![deny(missing_docs)]

pub mod source;
pub mod tidy;
pub mod mutants;
pub mod guard;
mod counters;
