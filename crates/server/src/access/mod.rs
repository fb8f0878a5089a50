//! Authorization.

pub mod auth;
pub mod cors;
mod credentials;
mod rate;
pub mod reserved;
pub mod sites;
pub mod tokens;
