//! Who may do what.

pub mod auth;
pub mod reserved;
pub mod sites;
