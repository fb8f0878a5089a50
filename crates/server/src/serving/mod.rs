//! A server from its start to its end.

pub mod service;
pub mod connection;
pub mod lock;
pub mod serve;
