//! Which operations there are, and what each needs.

pub mod bodies;
pub mod fast;
pub mod need;
pub mod openapi;
pub mod query;
pub mod table;
