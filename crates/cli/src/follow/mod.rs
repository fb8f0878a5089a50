//! Replicas: `serve --follow` and `promote`.
//!
//! [`http`]: another server as the source. [`bucket`]: a bucket as the source. [`source`]: the source at an address.
//! [`serving`]: the options of `serve`. [`promote`]: the command.

#[cfg(feature = "ship")]
mod bucket;
mod http;
pub mod promote;
pub mod serving;
pub mod source;

#[cfg(feature = "ship")]
pub use http::is_server;
