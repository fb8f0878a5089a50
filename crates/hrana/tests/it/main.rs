//! The integration tests of this crate, in one program.

mod results;
mod support;
mod transactions;
