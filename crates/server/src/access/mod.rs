//! Authorization.

pub mod auth;
pub mod cors;
mod credentials;
pub mod glance;
pub mod pass;
pub mod proxies;
mod rate;
pub mod reserved;
pub mod sites;
pub mod tokens;
