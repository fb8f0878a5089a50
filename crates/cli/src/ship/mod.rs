//! `ship`, and the other users of buckets: `serve --ship` and `restore URL`.

pub mod bucket;
mod command;
pub mod serving;

pub use command::{ShipArgs, run};
