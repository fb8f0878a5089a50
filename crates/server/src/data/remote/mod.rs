//! A remote store as the engine of a server. `failures`: what requests are responded when the store fails; `databases`:
//! the databases by name; `engine`: reads and writes.
//!
//! Each call waits for the store, so each runs on a thread that may wait, and none on a thread that serves sockets.

pub mod failures;
pub mod databases;
mod engine;
