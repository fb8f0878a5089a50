//! Authorization.

pub mod auth;
pub mod reserved;
pub mod sites;
