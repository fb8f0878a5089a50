//! Authorization.

pub mod auth;
pub mod cors;
mod rate;
pub mod reserved;
pub mod sites;
