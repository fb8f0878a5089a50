//! The tables that a transaction sees. It can create, change and drop them atomically with its other changes.

use super::Transaction;
use crate::database::TableOptions;
use base::Result;
use std::time::Duration;
use store::{Compression, RequestedLayout as Layout, Table};

impl Transaction {
    /// Returns the table named `name`, as this transaction sees it, or `None` if there is none.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        self.inner.table(name)
    }

    /// Creates a table. Like every other change, it becomes visible to others when the transaction commits.
    ///
    /// # Errors
    /// `Exists` if there is already a table of this name; `Invalid` for a TTL of less than 1 ms, and for a TTL by table
    /// and by key at once.
    pub fn create_table(&mut self, name: &str, options: &TableOptions) -> Result<Table> {
        self.inner.create_table_with(name, options.layout, options.lives()?, options.compression)
    }

    /// Returns the table named `name`, and creates it with the default options if this transaction sees none. An
    /// existing table is returned as it is, whatever its options. If another transaction creates the table at the same
    /// time, one of the two has a conflict.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty or too long.
    pub fn ensure_table(&mut self, name: &str) -> Result<Table> {
        match self.table(name)? {
            Some(table) => Ok(table),
            None => self.create_table(name, &TableOptions::default()),
        }
    }

    /// Returns the table named `name`, and creates it with these options if this transaction sees none. An existing
    /// table must have exactly these options; the call never changes a table.
    ///
    /// # Errors
    /// `Mismatch` if the table exists and has other options; otherwise as for [`Transaction::create_table`].
    pub fn ensure_table_with(&mut self, name: &str, options: &TableOptions) -> Result<Table> {
        match self.table(name)? {
            Some(table) => options.check(table),
            None => self.create_table(name, options),
        }
    }

    /// Drops a table and everything in it.
    ///
    /// # Errors
    /// `Missing` if the handle is stale.
    pub fn drop_table(&mut self, table: &Table) -> Result<()> {
        self.inner.drop_table(table)
    }

    /// Renames a table and returns a handle with the new name. No data is copied. Concurrent transactions that used the
    /// table get a conflict, as with a drop. Other handles of the table return `Missing` from now on, also within this
    /// transaction, because another table may get the old name later.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let old = db.ensure_table("old")?;
    /// db.put(&old, b"k", b"v")?;
    /// let new = db.write(|tx| tx.rename_table(&old, "new"))?;
    /// assert_eq!(db.get(&new, b"k")?.as_deref(), Some(&b"v"[..]));
    /// assert_eq!(db.get(&old, b"k").unwrap_err().kind(), pando::ErrorKind::Missing);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Exists` if there is already a table of this name; `Missing` if this table does not exist.
    pub fn rename_table(&mut self, table: &Table, name: &str) -> Result<Table> {
        self.inner.rename_table(table, name)
    }

    /// Changes the layout of a table; see [`Database::set_layout`](crate::Database::set_layout). It conflicts in the
    /// same cases as [`Transaction::rename_table`]. Nothing is rewritten before the next checkpoint.
    ///
    /// # Errors
    /// `Missing` if the table does not exist.
    pub fn set_layout(&mut self, table: &Table, layout: Layout) -> Result<()> {
        self.inner.set_layout(table, layout)
    }

    /// Sets the compression of leaves that merges write for an LSM table; see
    /// [`Database::set_compression`](crate::Database::set_compression). It conflicts in the same cases as
    /// [`Transaction::rename_table`]. Nothing is rewritten.
    ///
    /// # Errors
    /// As for [`Database::set_compression`](crate::Database::set_compression).
    pub fn set_compression(&mut self, table: &Table, compression: Compression) -> Result<()> {
        self.inner.set_compression(table, compression)
    }

    /// Sets how long entries of a table live; see [`Database::set_ttl`](crate::Database::set_ttl). It conflicts in the
    /// same cases as [`Transaction::rename_table`]. Existing handles stay valid, at the cost of a look-up for each use.
    /// Only handles of a table that had no TTL when they were opened return `Missing`.
    ///
    /// # Errors
    /// As for [`Database::set_ttl`](crate::Database::set_ttl).
    pub fn set_ttl(&mut self, table: &Table, ttl: Option<Duration>) -> Result<()> {
        self.inner.set_ttl(table, ttl)
    }
}
