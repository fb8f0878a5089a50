//! The tests of the door, through a socket as clients use it.

mod client;
mod collections;
mod expiry;
mod hostile;
mod keys;
mod memory;
mod messages;
mod model;
mod revoked;
mod strings;
mod transactions;
mod waiting;
