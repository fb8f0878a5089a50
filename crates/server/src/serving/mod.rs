//! A server from its start to its end.

mod app;
mod connection;
mod lock;
pub mod promote;
pub mod serve;
mod service;
