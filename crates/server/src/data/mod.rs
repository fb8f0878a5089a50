//! Databases, and the transactions that clients hold.

pub mod conditions;
pub mod databases;
pub mod end;
pub mod followers;
pub mod held;
pub mod hrana_streams;
pub mod inside;
pub mod names;
pub mod open;
pub mod places;
pub mod replicas;
pub mod schedule;
pub mod transactions;
pub mod v0;
pub mod writer;
