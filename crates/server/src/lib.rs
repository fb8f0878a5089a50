//! Pando, floor 8: databases over HTTP.
//!
//! ```text
//!   socket ──► hyper ──► fast: a get that memory can answer ──────────────────► response
//!                          │ no
//!                          └──► routes ──► hand_off: a thread that may wait ──► library
//!                                     └──► writer: single writes, committed together
//! ```
//!
//! The crate has wings, a folder each: `wire` (what goes over the wire), `limits` (what requests may take), `watch`
//! (what operators learn), `data` (databases), `access` (who may do what), `send` (bodies of responses), `operations`,
//! `routes` (which operations there are), and `serving` (a server from start to end). [`config`] has what can be set.
//!
//! The threads that read sockets never wait: not for a disk, not for a commit, not for a lock held across either.
#![deny(missing_docs, unsafe_code)]

mod access;
pub mod config;
mod data;
mod limits;
pub mod log;
mod operations;
mod routes;
mod send;
mod serving;
mod watch;
mod wire;

pub use access::auth::{self, Scope, Token, TokenFile};
pub use config::{Config, Limits};
pub use data::databases::DEFAULT_DATABASE;
pub use serving::serve::Server;
