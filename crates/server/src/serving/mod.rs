//! A server from its start to its end.

mod app;
mod connection;
#[cfg(feature = "tls")]
mod encryption;
mod listen;
mod lock;
pub mod promote;
pub mod serve;
mod service;
