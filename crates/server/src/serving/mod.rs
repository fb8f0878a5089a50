//! A server from its start to its end.

pub mod app;
pub mod connection;
pub mod lock;
pub mod serve;
