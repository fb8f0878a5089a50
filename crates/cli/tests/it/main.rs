//! The integration tests of this crate, in one program: there is one to link, and they share their fixtures.

// The names that derived code and the shared fixtures use.
#[cfg(feature = "postgres")]
extern crate postgres as pando_postgres;
extern crate rows as pando_rows;

mod advice;
mod advise;
mod backup;
mod beside;
mod common;
mod compact;
mod compression;
mod copy;
#[cfg(feature = "postgres")]
mod copy_postgres;
mod doctor;
mod drops;
mod exit_codes;
mod explain;
#[path = "../../../server/tests/it/http.rs"]
mod http;
#[cfg(feature = "tls")]
mod http2;
mod kill;
mod layout;
#[cfg(feature = "mcp")]
mod mcp;
mod options;
mod pages;
mod profile;
#[cfg(feature = "postgres")]
#[path = "../../../postgres/tests/it/proxy.rs"]
#[allow(dead_code)] // The tests of the adapter use the rest.
mod proxy;
mod read_only;
#[cfg(feature = "redis")]
mod redis;
mod records;
mod replica;
mod replica_identity;
mod reserved;
mod salvage;
#[cfg(feature = "postgres")]
#[path = "../../../postgres/tests/it/server.rs"]
#[allow(dead_code)] // The tests of the adapter use the rest.
mod server;
mod serve_activation;
mod serve_administration;
mod serve_anomalies;
mod serve_backups;
mod serve_bench;
#[cfg(feature = "compression")]
mod serve_coded;
mod serve_dashboard;
mod serve_docs;
mod serve_hostile;
mod serve_hrana;
#[cfg(feature = "tls")]
mod serve_http2;
#[cfg(feature = "tls")]
mod serve_http2_hostile;
mod serve_metrics;
mod serve_operators;
mod serve_pages;
mod serve_parts;
mod serve_reload;
mod serve_remote;
mod serve_sql;
#[cfg(feature = "sql")]
mod serve_sqlite_tables;
#[cfg(feature = "postgres")]
mod serve_store;
#[cfg(feature = "postgres")]
mod serve_store_anomalies;
#[cfg(feature = "postgres")]
mod serve_store_bounds;
#[cfg(feature = "postgres")]
mod serve_store_failures;
#[cfg(feature = "postgres")]
mod serve_store_load;
#[cfg(feature = "postgres")]
mod serve_store_outcomes;
#[cfg(feature = "postgres")]
mod serve_store_tls;
mod serve_streams;
#[cfg(feature = "tls")]
mod serve_tls;
#[cfg(feature = "otlp")]
mod serve_traces;
mod serve_typed;
mod serve_unix_socket;
mod serve_v0;
mod serve_v1;
mod serve_without_sql;
mod serving;
mod ship;
mod ship_places;
mod sql;
mod sql_commands;
#[cfg(feature = "ship")]
mod takeover;
mod transfer;
mod ttl;
mod typed;
mod watch;
