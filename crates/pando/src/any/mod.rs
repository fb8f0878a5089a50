//! A database of the engine or of a remote store, for programs that choose between the two at run time.
//!
//! [`AnyDatabase`] is a [`Database`](crate::Database) or a [`RemoteDatabase`](crate::remote::RemoteDatabase). Its
//! snapshots and transactions implement [`ReadTables`](crate::ReadTables) and [`WriteTables`](crate::WriteTables), as
//! those of the two types do. Each call first tests which of the two it is. A function that is generic over these
//! traits avoids the test: the compiler makes a copy of it for each type. Use the types of this module where code
//! cannot be generic, such as SQL, whose virtual machine is written in C.
//!
//! In the code: `cursor`, `reads` (snapshots and transactions), `database`.

mod cursor;
mod reads;
mod database;

pub use cursor::AnyCursor;
pub use database::AnyDatabase;
pub use reads::{AnySnapshot, AnyTransaction};
