//! A server from its start to its end.

mod answering;
mod app;
mod coded;
mod connection;
mod door;
#[cfg(feature = "tls")]
mod encryption;
mod http1;
mod http2;
mod listen;
mod lock;
mod noted;
mod patience;
pub mod promote;
mod rare;
pub mod serve;
mod service;
#[cfg(feature = "remote")]
mod store;
