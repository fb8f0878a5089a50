//! What is sent over the network: sockets, addresses, bodies, problems.

#[cfg(feature = "arrow")]
pub mod accept;
pub mod body;
#[cfg(feature = "compression")]
pub mod coding;
pub mod digits;
pub mod form;
pub mod gate;
pub mod problem;
pub mod response;
pub mod stream;
pub mod target;
pub mod pipe;
