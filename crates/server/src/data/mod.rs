//! Databases, and the transactions that clients hold.

pub mod conditions;
pub mod databases;
pub mod inside;
pub mod names;
pub mod open;
pub mod transactions;
pub mod writer;
