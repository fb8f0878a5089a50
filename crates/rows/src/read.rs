//! What rows are read from: a snapshot, or a transaction with its own writes.

use pando::{Cursor, Result, Snapshot, Span, Table, Transaction};

mod sealed {
    pub trait Sealed {}
    impl Sealed for pando::Snapshot {}
    impl Sealed for pando::Transaction {}
}

/// A snapshot or a transaction: everything that can read rows.
pub trait Read: sealed::Sealed {
    /// Calls `with` on the value of `key` in place.
    fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>>;
    /// Returns a cursor over `span`.
    fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>>;
    /// Returns the engine's table of this name.
    fn table(&self, name: &str) -> Result<Option<Table>>;
}

impl Read for Snapshot {
    #[inline]
    fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Snapshot::get_with(self, table, key, with)
    }

    fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        Snapshot::cursor(self, table, span)
    }

    fn table(&self, name: &str) -> Result<Option<Table>> {
        Snapshot::table(self, name)
    }
}

impl Read for Transaction {
    #[inline]
    fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Transaction::get_with(self, table, key, with)
    }

    fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        Transaction::cursor(self, table, span)
    }

    fn table(&self, name: &str) -> Result<Option<Table>> {
        Transaction::table(self, name)
    }
}
