//! What is sent over the network: sockets, addresses, bodies, problems.

pub mod body;
pub mod digits;
pub mod form;
pub mod gate;
pub mod problem;
pub mod response;
pub mod stream;
pub mod target;
pub mod pipe;
