//! Bounds on what requests use: threads, bodies in both directions, streams, connections.

pub mod connections;
#[cfg(feature = "compression")]
pub mod decoded;
pub mod handoff;
pub mod receive;
pub mod room;
pub mod streams;
