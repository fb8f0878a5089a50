//! Tests of SQL on Pando's trees. Most run the same statements on SQLite's own trees, and compare.

// The modules of other crates name it so.
extern crate postgres as pando_postgres;

mod basics;
mod bounded;
mod conflicts;
mod cookies;
mod counters;
mod damage;
mod joined;
mod keys;
mod long_keys;
mod long_records;
mod in_place;
mod modules;
mod orders;
mod pragmas;
mod prepared;
mod refused;
mod repeated;
mod returning;
mod same_as_sqlite;
mod schemas;
mod seeks;
#[path = "../../../postgres/tests/it/server.rs"]
#[allow(dead_code)] // The tests of the adapter use the rest.
mod server;
mod support;
mod transactions;
mod typed_definitions;
mod turns;
mod versions;
mod writers;
