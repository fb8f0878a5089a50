//! The handlers, each with its entry for the table of operations.
//!
//! `v0`: the contract of one table. `entries`: single records; `expiry`: when they expire. `ranges`: many records, and
//! `upload`: imports. `batch`, `transaction`, `documents`, `statements` and `sql`, `hrana`, `tables`, `databases`,
//! `readers`, `maintenance`, `backup` and `backups`, `changes`, `consumers`, `explain`, `advise`, `promote`, `tokens`,
//! `settings`: the operations of that name. `store`: those of a server over a remote store. `health`, `history`,
//! `metrics` and `debug`: for operators. `pages`: fixed pages. `dashboard`: the dashboard's files.
//!
//! A handler finds a database and a table that are already open with one map look-up each, and hands everything else to
//! threads that may wait.

pub mod advise;
pub mod backup;
pub mod backups;
pub mod batch;
pub mod changes;
pub mod consumers;
pub mod dashboard;
pub mod databases;
pub mod debug;
pub mod documents;
pub mod entries;
pub mod expiry;
pub mod explain;
pub mod health;
pub mod history;
pub mod hrana;
pub mod maintenance;
mod metrics;
pub mod outcome;
pub mod pages;
pub mod promote;
pub mod ranges;
pub mod readers;
pub mod settings;
#[cfg_attr(not(feature = "sql"), path = "sql_absent.rs")]
mod sql;
pub mod statements;
#[cfg(feature = "remote")]
mod store;
pub mod tables;
pub mod tokens;
pub mod transaction;
mod upload;
pub mod v0;
