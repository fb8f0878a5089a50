//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

// The modules of other crates name it so.
extern crate postgres as pando_postgres;

mod affinities;
mod anomalies;
mod asking;
mod bad_input;
mod basics;
mod changed_rows;
mod changed_schemas;
mod confined;
mod connections;
mod crash;
mod hermitage;
mod keyed;
mod made_by_sql;
mod name_changes;
mod names;
mod odd_statements;
mod or_fail;
#[path = "../../../postgres/tests/it/proxy.rs"]
#[allow(dead_code)] // The tests of the adapter use the rest.
mod proxy;
mod refused_clauses;
mod row_ids;
mod rust_tables;
mod rust_values;
mod same_as_sqlite;
mod same_names;
mod scans;
#[path = "../../../postgres/tests/it/server.rs"]
#[allow(dead_code)] // The tests of the adapter use the rest.
mod server;
mod sqlite_files;
mod sqlite_imports;
mod sqlite_rows;
mod sqlite_tables;
mod sqlite_writes;
mod sqllogictest;
mod stopped;
mod stores;
mod support;
mod turns;
