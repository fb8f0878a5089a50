//! Pando, floor 8: databases over HTTP.
//!
//! ```text
//!   socket ──► hyper ──► fast: a get that memory can answer ──────────────────► response
//!                          │ no
//!                          └──► routes ──► hand_off: a thread that may wait ──► library
//!                                     └──► writer: single writes, committed together
//! ```
//!
//! Reading order: [`config`] (what can be set), `serve` (a server from start to end), `app` (the way of a request),
//! `fast`, `v0` and `v1` (the paths); what they use: `target` (addresses), `receive` (bodies in), `body`, `records`,
//! `long_record`, `long_value` and `pipe` (bodies out), `streams` (their places), `gate` (heads of requests),
//! `writer` (commits), `databases`, `inside`, `open` and `names`, `transactions`, `problem` (errors), `lock`; for
//! operators: [`auth`], `need` and `sites` (who may do what), `health`, [`log`], `metrics`, `observe` and `slow`,
//! `trace`, `openapi` with `operations` and `bodies`, `dashboard`, `debug` (profiles).
//!
//! The threads that read sockets never wait: not for a disk, not for a commit, not for a lock held across either.
#![deny(missing_docs, unsafe_code)]

mod app;
pub mod auth;
mod bodies;
mod body;
pub mod config;
mod connection;
mod dashboard;
mod databases;
mod debug;
mod fast;
mod form;
mod gate;
mod handoff;
mod health;
mod inside;
mod lock;
pub mod log;
mod long_record;
mod long_value;
mod metrics;
mod names;
mod need;
mod observe;
mod open;
mod openapi;
mod operations;
#[cfg(feature = "sql")]
mod pipe;
mod problem;
mod query;
mod receive;
mod records;
mod serve;
mod sites;
mod slow;
mod streams;
mod target;
mod trace;
mod transactions;
mod v0;
mod v1;
mod writer;

pub use auth::{Scope, Token, TokenFile};
pub use config::{Config, Limits};
pub use databases::DEFAULT_DATABASE;
pub use serve::Server;
