//! The definition of an operation, and the arguments of its handler.

pub mod call;
pub mod meanings;
pub mod operation;
pub mod part;
pub mod parts;
pub mod query;
pub mod target;
