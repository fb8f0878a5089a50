//! What goes over the wire: addresses, bodies, problems.

pub mod body;
pub mod form;
pub mod gate;
pub mod problem;
pub mod target;
#[cfg(feature = "sql")]
pub mod pipe;
