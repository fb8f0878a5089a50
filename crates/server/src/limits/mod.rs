//! What requests may take: threads, bodies in and out, streams, connections.

pub mod connections;
pub mod handoff;
pub mod receive;
pub mod room;
pub mod streams;
