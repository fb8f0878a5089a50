//! A database of either kind, for programs that learn only when they run where their data is.
//!
//! [`AnyDatabase`] is a [`Database`](crate::Database) of the engine or a
//! [`RemoteDatabase`](crate::remote::RemoteDatabase). Its snapshots and transactions implement
//! [`ReadTables`](crate::ReadTables) and [`WriteTables`](crate::WriteTables), as those of both kinds do, and each call
//! looks at the kind first. A function that is generic over these traits costs less: the compiler makes a copy of it
//! for each kind. These types are for code that cannot be generic, such as SQL, whose machine is written in C.
//!
//! In the code: `cursor`, `reads` (snapshots and transactions), `database`.

mod cursor;
mod reads;
mod database;

pub use cursor::AnyCursor;
pub use database::AnyDatabase;
pub use reads::{AnySnapshot, AnyTransaction};
