//! Pando, floor 8: Hrana, the protocol of libSQL's clients, over the SQL of one database. It has no socket: a server
//! passes bodies of requests in and sends the replies.
//!
//! ```text
//!   body ──► Pipeline, Cursor ──► Stream ──► sql
//!            (messages)             │ │
//!                  Batons ◄── kept ─┘ └──► Reply, Lines: JSON, bounded
//! ```
//!
//! A [`Stream`] is a connection with its transaction and the texts that its client stored. Between two requests of a
//! client, [`Batons`] keeps its stream: a baton is unguessable, is used once, and belongs to one client.
//!
//! Reading order: `messages.rs` (what clients send), `value.rs` and `condition.rs` (parts of it), `stream.rs` (what is
//! done), `reply.rs` and `lines.rs` (what is sent back) over `sink.rs`, `texts.rs`, `stop.rs`, `batons.rs`, and
//! `failure.rs` (errors in the protocol's form).
#![deny(missing_docs, unsafe_code)]

mod failure;
mod value;
mod condition;
mod messages;
mod stop;
mod texts;
mod sink;
mod reply;
mod lines;
mod stream;
mod batons;

pub use batons::{Batons, Owner, Place};
pub use failure::{Failure, Outcome};
pub use lines::Lines;
pub use messages::{Batch, Cursor, Pipeline, Request};
pub use reply::Reply;
pub use stop::Stop;
pub use stream::Stream;
