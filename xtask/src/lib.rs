//! The project's own checks, as `cargo xtask <check>`.
//!
//! * [`tidy`]: how the tree must look: sizes, layering, where `unsafe` may live, what may not be called.
//! * [`mutants`]: the durability protocol, broken on purpose, once per patch; each must be caught with a seed.
//! * [`guard`]: what operations cost in instructions, allocations and system calls, held against budgets.
//! * `counters`: what the engine's own counters cost a read.
//! * [`source`]: a Rust file split into code and comments, which the checks look at.
//!
//! Only the standard library is used, so that the checks build in a second and depend on nothing they judge.
#![deny(missing_docs)]

mod counters;
pub mod guard;
pub mod mutants;
pub mod source;
pub mod tidy;
