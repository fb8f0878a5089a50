//! Pando, floor 1: SQLite's records, keys and definitions, as tables of Pando store them. The crate reads bytes and
//! text, and does no I/O; it contains no SQLite.
//!
//! `pando-db-sqlite` runs SQLite on tables in this format, and `pando-db-rows` reads them as typed tables.
//!
//! Reading order: [`record`], [`number`], [`key`] (bytes); [`names`] (which table of Pando is which of SQLite's trees);
//! [`token`], [`definition`] (the text of `CREATE TABLE` and `CREATE INDEX`).
#![deny(missing_docs, unsafe_code)]

pub mod definition;
pub mod key;
pub mod names;
pub mod number;
pub mod record;
pub mod token;
