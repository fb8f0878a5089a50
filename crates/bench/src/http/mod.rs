//! A server and its clients, for `http-kv`.
//!
//! * [`server`]: `pando serve` in a process of its own, as users run it.
//! * [`connection`]: a non-blocking connection that understands this server's responses.
//! * [`load`]: requests over many connections from one thread, as fast as possible or at a rate.
//! * [`crowd`]: clients that only occupy the server: idle ones, slow ones, bodies without an end.
//! * [`disk`]: the latency of a flush of the disk alone.

pub mod connection;
pub mod crowd;
pub mod disk;
pub mod load;
pub mod server;
