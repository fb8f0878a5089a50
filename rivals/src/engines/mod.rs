//! The engines, each configured as its own documentation recommends for this work; the head of each file says how,
//! and what its durability levels are.

#[cfg(feature = "canopydb")]
mod canopydb;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
mod pando;
mod pando_rows;
mod pando_sql;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite_tables;
#[cfg(feature = "turso")]
mod turso;
#[cfg(feature = "turso")]
mod turso_tables;

use crate::engine::{Config, Engine, Outcome};
use crate::tables::Base;

/// Opens or creates a database.
pub type Open<T> = fn(&Config) -> Outcome<Box<T>>;

/// An engine by name.
pub struct Entry {
    /// How it is called on the command line and in tables.
    pub name: &'static str,
    /// Version and configuration in a line.
    pub about: &'static str,
    /// Opens or creates a table of bytes.
    pub open: Option<Open<dyn Engine>>,
    /// Opens or creates a database of tables.
    pub open_tables: Option<Open<dyn Base>>,
}

/// Every engine that was built in, Pando first.
pub fn all() -> Vec<Entry> {
    vec![
        pando::ENTRY,
        pando::LSM_ENTRY,
        pando_sql::ENTRY,
        pando_rows::ENTRY,
        #[cfg(feature = "lmdb")]
        lmdb::ENTRY,
        #[cfg(feature = "lmdb")]
        lmdb::WRITE_MAP_ENTRY,
        #[cfg(feature = "redb")]
        redb::ENTRY,
        #[cfg(feature = "sqlite")]
        sqlite::ENTRY,
        #[cfg(feature = "fjall")]
        fjall::ENTRY,
        #[cfg(feature = "canopydb")]
        canopydb::ENTRY,
        #[cfg(feature = "rocksdb")]
        rocksdb::ENTRY,
        #[cfg(feature = "rocksdb")]
        rocksdb::BUDGET_ENTRY,
        #[cfg(feature = "turso")]
        turso::ENTRY,
    ]
}

/// The engine of this name.
pub fn named(name: &str) -> Option<Entry> {
    all().into_iter().find(|entry| entry.name == name)
}
