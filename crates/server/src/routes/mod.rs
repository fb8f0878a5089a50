//! The operations, and the search for the one that a request names.

mod bodies;
pub mod openapi;
mod parameters;
mod table;
pub mod tree;
