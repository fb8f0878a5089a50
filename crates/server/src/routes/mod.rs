//! Which operations there are, and what each needs.

pub mod bodies;
pub mod fast;
pub mod tree;
pub mod openapi;
pub mod parameters;
pub mod table;
