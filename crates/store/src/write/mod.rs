//! Transactions: reads and writes of one's own until the commit, changes of whole tables, and ways to write much.

pub mod transaction;
mod gap;
pub(crate) mod gathered;
mod table_changes;
pub(crate) mod scan_mut;
pub(crate) mod value_writer;
pub mod repeat;
mod bulk_load;
