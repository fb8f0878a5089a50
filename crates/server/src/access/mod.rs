//! Who may do what.

pub mod auth;
pub mod sites;
