//! Transactions: private reads and writes until the commit, changes of whole tables, and bulk writes.

pub mod transaction;
mod gap;
pub(crate) mod scratch;
mod table_changes;
pub(crate) mod scan_mut;
pub(crate) mod value_writer;
pub mod repeat;
mod bulk_load;
