//! A remote store as the engine of a server. `databases`: the databases by name; `engine`: reads and writes.
//!
//! Each call waits for the store, so each runs on a thread that may wait, and none on a thread that serves sockets.

pub mod databases;
mod engine;
