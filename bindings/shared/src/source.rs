//! Where records are read: in the database itself, in a snapshot, or in a transaction.

use crate::failure::Outcome;
use crate::handle::{Begun, Handle, Held};
use pando::{Cursor, Expiry, Result, Snapshot, Span, Table, Transaction, ValueReader};
use std::sync::Arc;

/// What snapshots and transactions have in common, without type parameters.
pub trait Reads {
    /// Calls `with` with the value of `key`, if it exists. Returns whether it does.
    fn get_with(&self, table: &Table, key: &[u8], with: &mut dyn FnMut(&[u8])) -> Result<bool>;
    /// Whether `key` exists.
    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool>;
    /// When the entry of `key` expires; `None` if the key does not exist.
    fn expiry(&self, table: &Table, key: &[u8]) -> Result<Option<Expiry>>;
    /// A reader of the value of `key`, if it exists.
    fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>>;
    /// A cursor over `span`.
    fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>>;
}

impl Reads for Snapshot {
    fn get_with(&self, table: &Table, key: &[u8], with: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(Snapshot::get_with(self, table, key, with)?.is_some())
    }
    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        Snapshot::contains(self, table, key)
    }
    fn expiry(&self, table: &Table, key: &[u8]) -> Result<Option<Expiry>> {
        Snapshot::expiry(self, table, key)
    }
    fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        Snapshot::value_reader(self, table, key)
    }
    fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        Snapshot::cursor(self, table, span)
    }
}

impl Reads for Transaction {
    fn get_with(&self, table: &Table, key: &[u8], with: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(Transaction::get_with(self, table, key, with)?.is_some())
    }
    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        Transaction::contains(self, table, key)
    }
    fn expiry(&self, table: &Table, key: &[u8]) -> Result<Option<Expiry>> {
        Transaction::expiry(self, table, key)
    }
    fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        Transaction::value_reader(self, table, key)
    }
    fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        Transaction::cursor(self, table, span)
    }
}

/// A source of reads.
#[derive(Clone, Debug)]
pub enum Source {
    /// Each read sees the newest state.
    Database(Arc<Handle>),
    /// Reads see one moment.
    Snapshot(Arc<Held>),
    /// Reads see the transaction's beginning and its own writes.
    Transaction(Arc<Begun>),
}

impl Source {
    /// Fails if what is read has ended, for uses of records that were read ahead.
    pub fn check(&self) -> Outcome<()> {
        match self {
            Source::Database(handle) => handle.open().map(drop),
            Source::Snapshot(held) => held.check(),
            Source::Transaction(begun) => begun.check(),
        }
    }

    /// Runs `read` on what is read.
    pub fn read<T>(&self, read: impl FnOnce(&dyn Reads) -> Result<T>) -> Outcome<T> {
        match self {
            Source::Database(handle) => Ok(read(&handle.open()?.snapshot()?)?),
            Source::Snapshot(held) => held.read(|snapshot| read(snapshot)),
            Source::Transaction(begun) => begun.read(|transaction| read(transaction)),
        }
    }

    /// The database.
    pub fn handle(&self) -> &Arc<Handle> {
        match self {
            Source::Database(handle) => handle,
            Source::Snapshot(held) => held.handle(),
            Source::Transaction(begun) => begun.handle(),
        }
    }

    /// The same source at one moment, for reads that belong together.
    pub fn at_one_moment(&self) -> Outcome<Source> {
        match self {
            Source::Database(handle) => Held::take(handle).map(Source::Snapshot),
            other => Ok(other.clone()),
        }
    }

    /// A number that changes when something is written to what is read.
    pub fn changes(&self) -> u64 {
        match self {
            Source::Transaction(begun) => begun.changes(),
            Source::Database(_) | Source::Snapshot(_) => 0,
        }
    }
}
