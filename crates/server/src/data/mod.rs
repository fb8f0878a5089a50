//! Databases, and the transactions that clients hold.

pub mod conditions;
pub mod databases;
pub mod end;
pub mod engine;
pub mod followers;
pub mod held;
pub mod hrana_streams;
pub mod inside;
pub mod names;
mod native;
pub mod open;
pub mod places;
pub mod promotion;
#[cfg(feature = "sql")]
pub mod queried;
#[cfg(feature = "remote")]
pub mod remote;
pub mod replicas;
pub mod schedule;
pub mod served;
pub mod transactions;
pub mod unreleased;
pub mod v0;
pub mod writer;
