//! The HTTP server of Pando: serves the databases in a directory, with SQL, documents, tokens, metrics and a dashboard.
//!
//! ```no_run
//! # fn main() -> pando::Result<()> {
//! let server = pando_server::Server::start(pando_server::Config::new("data"))?;
//! println!("http://{}", server.address().expect("it listens on an address"));
//! server.run()?; // returns after SIGTERM or Ctrl-C
//! # Ok(())
//! # }
//! ```
//!
//! `pando serve` of the package `pando-db-cli` runs it. The [guide] describes every request, and its bounds.
//!
//! [guide]: https://github.com/pando-db/pando/blob/main/docs/http.md

// Floor 9: databases over HTTP.
//
// ```text
//   socket ──► hyper ──► find: which operation ──► memory has the answer ────────► response
//                                   │ no
//                                   └──► handler ──► hand_off: a thread that may wait ──► library
//                                           └──► writer: single writes, committed together
// ```
//
// The crate has one folder for each part, and the `mod.rs` of a folder lists its files. A part uses only the parts
// before it in this list:
//
// 1. `shipping`: the interface to the code that copies commits to a bucket. `stores`: the interface to the code that
//    opens databases in a remote store, with the feature `remote`. `following`: the interface to the code with which
//    a replica follows another server. `spans`: the interface to the code that exports requests to a collector of
//    traces. `config`: the configuration. `log`: the server's log, which no request waits for.
// 2. `wire`: what is sent over the network: sockets, addresses, bodies, problems, records as bytes, the heads of
//    requests, zstd and gzip.
// 3. `limits`: bounds on what requests use: threads, memory for bodies, encoders and decoders, places of streams,
//    connections.
// 4. `watch`: what operators can observe: counts and latencies, the figures of the last hour, refusals, slow requests,
//    a log line for each request, work that takes long, the disk and the process.
// 5. `data`: databases that are opened and closed as needed, single writes that are committed together, interactive
//    transactions, conditions, the threads of a replica, scheduled backups.
// 6. `access`: authorization: tokens and their rates, requests from pages of other sites, reserved tables; the
//    addresses of clients.
// 7. `send`: records and long values as bodies of responses, compressed if the client asks for it.
// 8. `calls`: the definition of an operation, and the arguments of its handler.
// 9. `operations`: the handlers, each with its entry for the table. One of them sends the files of the dashboard,
//    which are in the folder `dashboard`.
// 10. `routes`: the table, the tree that finds an operation by its path, and the OpenAPI document.
// 11. `redis`: the door for clients of Redis, with the feature of this name.
// 12. `serving`: the steps of a request, a connection of HTTP/1 or HTTP/2, and a server from start to end.
//
// A server is over Pando's own engine, or over a remote store (`data::engine`): handlers of both are generic.
//
// To add an operation, write its handler in `operations`, and add its entry to the `OPERATIONS` beside it.
//
// The threads that read sockets never wait for a disk, for a commit, or for a lock that is held across either.
#![deny(missing_docs, unsafe_code)]

pub mod shipping;
#[cfg(feature = "remote")]
pub mod stores;
pub mod following;
pub mod spans;
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
#[cfg(feature = "redis")]
mod redis;
mod serving;

pub use access::tokens::{NewToken, Scope, Token, TokenFile};
#[cfg(feature = "tls")]
pub use config::Certificate;
#[cfg(feature = "redis")]
pub use config::Redis;
pub use config::{BackupPlan, Config, Effect, Limits, Reload, Renewed, Setting, Socket, TrustedProxies};
pub use data::databases::DEFAULT_DATABASE;
pub use data::followers::{followed_by, mark};
pub use send::changed_rows::RowLines;
pub use send::changes::{Ended, change_lines};
pub use serving::promote::promote;
pub use serving::serve::Server;
pub use watch::machine::{Disk, Process};
