//! A server and its clients: what `http-kv` is made of.
//!
//! * [`server`]: `pando serve` in a process of its own, as a user has it.
//! * [`connection`]: one connection that never blocks, and understands what this server answers.
//! * [`load`]: requests over many connections from one thread, as fast as they go or each at its time.
//! * [`crowd`]: clients that only take room: idle ones, slow ones, bodies without an end.
//! * [`disk`]: what the disk alone takes for a flush.

pub mod connection;
pub mod crowd;
pub mod disk;
pub mod load;
pub mod server;
