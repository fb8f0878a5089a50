//! Which operations there are, and which one a request asks for.

mod bodies;
pub mod openapi;
mod parameters;
mod table;
pub mod tree;
