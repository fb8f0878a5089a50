//! What is sent over a connection: commands and replies.

pub mod request;
pub mod reply;
pub mod numbers;
