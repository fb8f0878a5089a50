//! Pando, floor 8: databases over HTTP.
//!
//! ```text
//!   socket ──► hyper ──► find: which operation ──► memory has the answer ────────► response
//!                                   │ no
//!                                   └──► handler ──► hand_off: a thread that may wait ──► library
//!                                           └──► writer: single writes, committed together
//! ```
//!
//! The crate has wings, a folder each, whose `mod.rs` lists its files. In this order a wing uses the ones before it:
//!
//! 1. [`shipping`]: what copies commits to a bucket. [`config`]: what can be set. [`log`]: the server's log, which no
//!    request waits for.
//! 2. `wire`: what goes over the wire: addresses, bodies, problems, records as bytes, the heads of requests.
//! 3. `limits`: what requests may take: threads, the memory of bodies, the places of streams, connections.
//! 4. `watch`: what operators learn: counts and latencies, slow requests, a line for each request.
//! 5. `data`: databases that are opened and closed as needed, single writes that are committed together, interactive
//!    transactions, conditions.
//! 6. `access`: who may do what: [`auth`] (tokens), pages of other sites, reserved tables.
//! 7. `send`: records and long values as bodies of responses.
//! 8. `calls`: what an operation is, and what its handler is called with.
//! 9. `operations`: the handlers, each with its entry for the table.
//! 10. `routes`: the table, the tree that finds an operation by its path, and the OpenAPI document.
//! 11. `serving`: the way of a request, a connection, and a server from start to end.
//!
//! To add an operation, write its handler in `operations`, and its entry in the `OPERATIONS` beside it.
//!
//! The threads that read sockets never wait: not for a disk, not for a commit, not for a lock held across either.
#![deny(missing_docs, unsafe_code)]

pub mod shipping;
pub mod config;
pub mod log;
mod wire;
mod limits;
mod watch;
mod data;
mod access;
mod send;
mod calls;
mod operations;
mod routes;
mod serving;

pub use access::auth::{self, Scope, Token, TokenFile};
pub use config::{Config, Limits};
pub use data::databases::DEFAULT_DATABASE;
pub use send::changes::{Ended, change_lines};
pub use serving::serve::Server;
