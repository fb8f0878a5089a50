//! Pando, floor 7: Redis' protocol over the tables of a database.
//!
//! ```text
//!   Door ──► Session ──► commands ──► Space ──► a snapshot, or
//!   accepts    one thread    one function    keys as      └► Committer ──► one transaction, one flush
//!              for each      for each        records           the writes of all connections
//! ```
//!
//! Reading order, which is that of the modules: `fault` (errors), `room` (memory that connections share), `wire`
//! (commands and replies as bytes), `layout` (keys as records), `versions` (numbers and time), `tables` (where the
//! databases are), `space` (the keys that a snapshot or a transaction has), `watched` (keys of WATCH), `pubsub`
//! (channels), `commands`, [`Host`] (what the door needs from its server), `commit` (writes of all connections
//! together), `notify` (keyspace notifications), `session` (one connection), [`Door`].
//!
//! The guide, docs/redis.md, says which commands there are, what is refused, and how keys are stored, byte by byte.
#![deny(missing_docs, unsafe_code)]

mod fault;
mod room;
mod wire;
mod layout;
mod versions;
mod tables;
mod space;
mod watched;
mod glob;
mod cursors;
mod figures;
mod pubsub;
mod commands;
mod host;
mod commit;
mod notify;
mod shared;
mod session;
mod door;

pub use door::Door;
pub use host::{Host, Options, Permission};
