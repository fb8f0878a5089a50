//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

mod affinities;
mod anomalies;
mod asking;
mod bad_input;
mod basics;
mod changed_schemas;
mod confined;
mod connections;
mod crash;
mod keyed;
mod made_by_sql;
mod names;
mod odd_statements;
mod refused_clauses;
mod row_ids;
mod rust_tables;
mod same_as_sqlite;
mod scans;
mod sqlite_files;
mod sqlite_rows;
mod sqlite_tables;
mod sqlite_writes;
mod sqllogictest;
mod stopped;
mod support;
mod turns;
