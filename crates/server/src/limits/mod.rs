//! What requests may take: threads, bodies in, streams.

pub mod handoff;
pub mod receive;
pub mod streams;
