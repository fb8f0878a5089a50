//! Tests against a PostgreSQL server that they start themselves; `server` says how.

// The name that derived code uses.
extern crate rows as pando_rows;

mod server;
mod statements;
mod subject;
mod conformance;
mod catalog;
mod conflicts;
mod faults;

#[allow(dead_code)] // The tests of `pando serve` use the rest.
mod proxy;
mod random;
mod refusals;
mod round_trips;
mod rows;
mod sweep;
mod tokens;
