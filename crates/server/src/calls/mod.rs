//! What an operation is, and what its handler is called with.

pub mod call;
pub mod meanings;
pub mod operation;
pub mod parts;
pub mod query;
pub mod target;
