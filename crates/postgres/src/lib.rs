//! Pando's tables in PostgreSQL, or in a distributed database that speaks its protocol.
//!
//! [`open`] returns a [`RemoteDatabase`], whose snapshots and transactions implement
//! [`ReadTables`](pando::ReadTables) and [`WriteTables`](pando::WriteTables).
//!
//! ```no_run
//! # fn main() -> pando::Result<()> {
//! let db = pando_postgres::open("postgres://app@db.example/shop")?;
//! let fruit = db.ensure_table("fruit")?;
//! db.put(&fruit, "apple", "red")?;
//! assert_eq!(db.get(&fruit, "apple")?.as_deref(), Some(&b"red"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! What it keeps in the server is a schema of three relations ([`Options::schema`], made by `migrate`): `records` holds
//! each record as (table id, key, value), `commits` the tokens of commits, `meta` the version and the id of the
//! database. It changes nothing outside of that schema.
//!
//! In the code, each module uses those before it: `options`, `failure` (what the server's errors mean), `statements`
//! (all SQL), `tls`, `connection`, `pool`, `migrate`, `tokens` (lost commits), `sweep` (expired
//! entries), `session`, `store`.
//!
//! # Panics
//! A call blocks its thread, as all of Pando's calls do. Like every call of tokio that blocks, it panics on a thread
//! that runs an asynchronous program's tasks: use `tokio::task::spawn_blocking` there.
#![deny(missing_docs, unsafe_code)]

mod options;
mod failure;
mod statements;
mod tls;
mod connection;
mod pool;
mod migrate;
mod tokens;
mod sweep;
mod session;
mod store;

pub use options::Options;
pub use pando::remote::RemoteDatabase;
pub use store::limits;

use pando::Result;

/// Opens the database at a URL such as `postgres://user:password@host:5432/name`, with default [`Options`], or creates
/// it there: the server's database must exist, and the user must be allowed to create a schema in it the first time.
/// A URL without a password takes the one in the environment variable `PGPASSWORD`.
///
/// # Errors
/// `Io` if the server cannot be reached or refuses the user; `Invalid` if the URL cannot be understood; `Foreign` if a
/// newer version of this crate made the database.
pub fn open(url: &str) -> Result<RemoteDatabase> {
    Options::default().open(url)
}

/// Compiles the example of `README.md` with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
