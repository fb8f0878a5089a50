//! Pando: an embedded, transactional storage engine. A database is one directory with ordered tables.
//!
//! ```
//! # fn main() -> pando::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path();
//! let db = pando::Database::create(path)?;
//! let fruit = db.ensure_table("fruit")?;
//! db.write(|tx| {
//!     tx.put(&fruit, b"apple", b"red")?;
//!     tx.put(&fruit, b"lemon", b"yellow")
//! })?;
//! let snapshot = db.snapshot()?;
//! assert_eq!(snapshot.get(&fruit, b"apple")?.as_deref(), Some(&b"red"[..]));
//! for record in snapshot.range(&fruit, "a".."b")? {
//!     let (key, value) = record?;
//!     assert_eq!((&key[..], &value[..]), (&b"apple"[..], &b"red"[..]));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The [`Durability`] of a commit states which failures it survives; the [`Isolation`] of a transaction states which
//! effects of others it is protected from. The defaults are the strongest of both: serializable, and on the disk when
//! the call returns.
//!
//! The guides: [choosing] settings, [transactions], [durability], [all options], [changes to follow], [backups],
//! [asynchronous programs][async]. Typed rows are in the package `pando-db-rows`, SQL in `pando-db-sql`.
//!
//! What to read first: [`Database`] (open, tables, retries), [`Snapshot`] (reads), [`Transaction`] (reads and writes),
//! [`ReadTables`] and [`WriteTables`] (traits for functions that take these), [`ValueRef`] (a value without a copy),
//! [`ValueReader`] and [`ValueWriter`] (values of gigabytes), [`Cursor`] and [`Range`] (in order), [`Builder`]
//! (options; all of them in [`options`]), [`Database::backup`] and [`restore`], [`Database::changes`] (every commit as
//! it comes), [`Error`] and [`ErrorKind`].
//!
//! [choosing]: https://github.com/pando-db/pando/blob/main/docs/choosing.md
//! [transactions]: https://github.com/pando-db/pando/blob/main/docs/transactions.md
//! [durability]: https://github.com/pando-db/pando/blob/main/docs/durability.md
//! [all options]: https://github.com/pando-db/pando/blob/main/docs/options.md
//! [changes to follow]: https://github.com/pando-db/pando/blob/main/docs/changes.md
//! [backups]: https://github.com/pando-db/pando/blob/main/docs/backup.md
//! [async]: https://github.com/pando-db/pando/blob/main/docs/async.md

// In the code, each module uses those before it; only `database` and `transaction` use each other:
//
// 1. `available` (memory of the machine), `options`, `builder`: the options with which a database is opened.
// 2. `pacer` (delays writers) and `workers` (the two threads, and their throttle).
// 3. `cursor` and `snapshot`: reads. `database` and `transaction`: handles, retries and writes. `traits`: the methods
//    that these share. `remote` and `any`: the same handles for stores that are not the engine, and for either.
// 4. `backup`, `compact`, `explain`, `prometheus`, `salvage`, `changes`: other operations on a database.
// 5. `aio`: the same for asynchronous programs, with the feature of that name.
#![deny(missing_docs, unsafe_code)]

mod available;
pub mod options;
mod pacer;
mod workers;
mod builder;
#[cfg(feature = "tracing")]
mod trace;
mod cursor;
mod snapshot;
mod database;
mod transaction;
pub mod remote;
mod traits;
pub mod any;
mod backup;
mod compact;
pub mod explain;
mod progress;
mod prometheus;
pub mod salvage;
pub mod changes;
#[cfg(feature = "aio")]
pub mod aio;

pub use backup::{
    BackupEntry, BackupInfo, BackupOptions, BackupProgress, BackupReport, Backups, RestoreProgress,
    RestoreReport, Retention, restore, restore_files, restore_stream, restore_with,
};
#[doc(hidden)]
pub use backup::{restore_in, restore_stream_in};
pub use base::budget::{Budget, Held, MemoryCategory};
pub use base::env::Clock;
pub use base::latency::{Cause as WaitCause, Latency};
pub use base::{Error, ErrorKind, Result, keys, limits};
pub use builder::Builder;
pub use changes::{Applied, Change, Changes, ChangesOptions, Consumer, Operation};
pub use compact::Compacted;
pub use cursor::{Beginning, Cursor, LentRun, Range, RecordCursor, Span};
pub use database::{CommitHold, Database, Identity, TableOptions};
pub use progress::ProgressResult;
pub use prometheus::{prometheus, prometheus_label, prometheus_of_top_tables};
pub use snapshot::Snapshot;
pub use store::Compression;
pub use store::RequestedLayout as Layout;
pub use store::advice::{Advice, Costs, Operations};
pub use store::check::{Findings as CheckFindings, Report as CheckReport};
pub use store::figures::Figure;
pub use store::memory::MemoryStats;
pub use store::pacing::{Cause as DelayCause, Delays, PacingStats};
pub use store::stats::{Stats, TableStats, Waits};
pub use store::ttl::Expiry;
pub use store::{
    OpenReader, OwnedValueWriter, ReaderId, Resident, Savepoint, Table, TransactionOptions, ValueReader,
    ValueRef, ValueWriter, is_database_file,
};
pub use traits::{ReadSnapshot, ReadTables, WriteTables};
pub use transaction::Transaction;
pub use txn::{Conflict, Durability, Isolation};

/// Compiles the example of `docs/async.md`.
#[cfg(all(doctest, feature = "aio"))]
#[doc = include_str!("../../../docs/async.md")]
struct Async;

/// Compiles the example of `docs/transactions.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/transactions.md")]
struct Transactions;

/// Compiles the example of `README.md` with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
