//! Tests of SQL on Pando's trees. Most run the same statements on SQLite's own trees, and compare.

mod basics;
mod bounded;
mod conflicts;
mod counters;
mod damage;
mod long_keys;
mod modules;
mod orders;
mod prepared;
mod refused;
mod repeated;
mod same_as_sqlite;
mod schemas;
mod support;
mod transactions;
mod typed_definitions;
mod turns;
mod writers;
