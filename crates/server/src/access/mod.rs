//! Authorization.

pub mod auth;
mod rate;
pub mod reserved;
pub mod sites;
