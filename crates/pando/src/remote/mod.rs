//! Tables in a remote store: a database in other processes, usually on several machines.
//!
//! [`RemoteDatabase`] has the calls of [`Database`](crate::Database) that such a store can serve. Its snapshots and
//! transactions implement [`ReadTables`](crate::ReadTables) and [`WriteTables`](crate::WriteTables), so functions that
//! are generic over these traits, and typed rows, work on both kinds of database. An adapter opens it: the crate
//! `pando-db-postgres` for PostgreSQL and products that speak its protocol. `docs/distributed.md` says when to move,
//! and what changes.
//!
//! In the code, each module uses those before it: `seam` (the two traits of an adapter), `capability` (what a store
//! cannot do), `fault` (why a store failed), `in_doubt` (commits whose outcome is not known), `reason` (either of the
//! last two as a value), `memory` (of writes), `reads`, `cursor`, `shared_reads`, `snapshot`, `transaction` and
//! `tables`, `database`. The reasons are in docs/decisions/0044-remote-stores-behind-two-traits.md.

mod seam;
mod capability;
mod fault;
mod in_doubt;
mod reason;
mod memory;
mod reads;
mod cursor;
mod shared_reads;
mod snapshot;
mod transaction;
mod tables;
mod database;

pub use capability::{Capability, Unsupported};
pub use cursor::RemoteCursor;
pub use database::RemoteDatabase;
pub use fault::Fault;
pub use in_doubt::InDoubt;
pub use memory::WriteMemory;
pub use reason::Reason;
pub use seam::{Commit, Failure, Limits, Mode, Most, Order, Page, Put, Session, Store, Swept, Token};
pub use snapshot::RemoteSnapshot;
pub use transaction::RemoteTransaction;
