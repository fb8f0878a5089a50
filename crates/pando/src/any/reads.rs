//! Snapshots and transactions of the engine or of a remote store.

use crate::any::cursor::AnyCursor;
use crate::cursor::{Beginning, Range, Span};
use crate::database::TableOptions;
use crate::remote::{RemoteSnapshot, RemoteTransaction};
use crate::snapshot::Snapshot;
use crate::traits::{ReadSnapshot, ReadTables, WriteTables};
use crate::transaction::Transaction;
use base::{Error, Result};
use store::{Savepoint, Table, ValueReader, ValueRef};
use txn::Isolation;

/// A snapshot of a database of the engine or of a remote store. Its reads are those of [`ReadTables`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // A box would be an allocation for each snapshot.
#[must_use = "a snapshot does nothing by itself"]
pub enum AnySnapshot {
    /// A snapshot of the engine.
    Native(Snapshot),
    /// A snapshot of a remote store, whose first read decides which state it sees.
    Remote(RemoteSnapshot),
}

/// A transaction of a database of the engine or of a remote store. Its methods are those of [`ReadTables`] and
/// [`WriteTables`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // A box would be an allocation for each transaction.
#[must_use = "a transaction that is dropped is rolled back; call `commit`"]
pub enum AnyTransaction {
    /// A transaction of the engine.
    Native(Transaction),
    /// A transaction of a remote store.
    Remote(RemoteTransaction),
}

/// Calls with `$inner` bound to what is in the enum `$type`, of either kind.
macro_rules! on_either {
    ($type:ident, $any:expr, $inner:ident => $call:expr) => {
        match $any {
            $type::Native($inner) => $call,
            $type::Remote($inner) => $call,
        }
    };
}

impl AnySnapshot {
    /// Returns the number of the last commit that the snapshot sees, or `None` for a remote store, which does not
    /// number its commits.
    #[must_use]
    pub fn commit_number(&self) -> Option<u64> {
        match self {
            AnySnapshot::Native(snapshot) => Some(snapshot.commit_number()),
            AnySnapshot::Remote(_) => None,
        }
    }
}

impl AnyTransaction {
    /// Commits all changes or none. Returns the number of the commit, or `None` for a remote store.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`] and [`RemoteTransaction::commit`].
    pub fn commit(self) -> Result<Option<u64>> {
        match self {
            AnyTransaction::Native(tx) => tx.commit().map(Some),
            AnyTransaction::Remote(tx) => tx.commit().map(|()| None),
        }
    }

    pub(super) fn into_native(self) -> Result<Transaction> {
        match self {
            AnyTransaction::Native(tx) => Ok(tx),
            AnyTransaction::Remote(_) => Err(replaced()),
        }
    }

    pub(super) fn into_remote(self) -> Result<RemoteTransaction> {
        match self {
            AnyTransaction::Remote(tx) => Ok(tx),
            AnyTransaction::Native(_) => Err(replaced()),
        }
    }

    /// Rolls the transaction back, as dropping it does.
    pub fn abort(self) {}

    /// Returns the number of the last commit that the transaction sees, or `None` for a remote store.
    #[must_use]
    pub fn commit_number(&self) -> Option<u64> {
        match self {
            AnyTransaction::Native(tx) => Some(tx.commit_number()),
            AnyTransaction::Remote(_) => None,
        }
    }

    /// Returns a number for the state that the transaction saw when it began. Two transactions of a database that have
    /// the same number saw the same commits. In a remote store, each transaction has another number.
    #[must_use]
    pub fn begun_at(&self) -> u64 {
        match self {
            AnyTransaction::Native(tx) => tx.commit_number(),
            AnyTransaction::Remote(tx) => tx.number(),
        }
    }

    /// Returns the last key of the table. In the engine the key does not count as read, so transactions that append do
    /// not conflict; see [`Transaction::last_key_unread`]. In a remote store it counts as read.
    ///
    /// # Errors
    /// Those of a cursor.
    pub fn last_key_unread(&self, table: &Table) -> Result<Option<Vec<u8>>> {
        match self {
            AnyTransaction::Native(tx) => tx.last_key_unread(table),
            AnyTransaction::Remote(tx) => Ok(tx.cursor(table, ..)?.prev()?.map(|(key, _)| key.to_vec())),
        }
    }

    /// Returns a cursor whose records do not count as read in the engine; see [`Transaction::cursor_untracked`]. In a
    /// remote store they count as read.
    ///
    /// # Errors
    /// Those of [`ReadTables::cursor`].
    pub fn cursor_untracked(&self, table: &Table, span: impl Into<Span>) -> Result<AnyCursor<'_>> {
        match self {
            AnyTransaction::Native(tx) => tx.cursor_untracked(table, span).map(AnyCursor::Native),
            AnyTransaction::Remote(tx) => tx.cursor(table, span).map(AnyCursor::Remote),
        }
    }
}

#[cold]
fn replaced() -> Error {
    Error::invalid("the closure replaced its transaction by one of another database; use its own")
}

macro_rules! read_tables {
    ($type:ident) => {
        impl ReadTables for $type {
            type Cursor<'a> = AnyCursor<'a>;

            fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
                on_either!($type, self, reader => reader.get(table, key))
            }

            fn get_ref(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueRef<'_>>> {
                on_either!($type, self, reader => reader.get_ref(table, key))
            }

            fn get_with<T>(
                &self,
                table: &Table,
                key: impl AsRef<[u8]>,
                with: impl FnOnce(&[u8]) -> T,
            ) -> Result<Option<T>> {
                on_either!($type, self, reader => reader.get_with(table, key, with))
            }

            fn get_beginning<T>(
                &self,
                table: &Table,
                key: impl AsRef<[u8]>,
                whole_bytes: usize,
                with: impl FnOnce(Beginning<'_>) -> T,
            ) -> Result<Option<T>> {
                on_either!($type, self, reader => reader.get_beginning(table, key, whole_bytes, with))
            }

            fn first_with_prefix<T>(
                &self,
                table: &Table,
                prefix: impl AsRef<[u8]>,
                with: impl FnOnce(&[u8], &[u8]) -> T,
            ) -> Result<Option<T>> {
                on_either!($type, self, reader => reader.first_with_prefix(table, prefix, with))
            }

            fn multi_get<K: AsRef<[u8]>>(&self, table: &Table, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
                on_either!($type, self, reader => reader.multi_get(table, keys))
            }

            fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
                on_either!($type, self, reader => reader.contains(table, key))
            }

            fn value_len(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
                on_either!($type, self, reader => reader.value_len(table, key))
            }

            fn value_reader(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
                on_either!($type, self, reader => reader.value_reader(table, key))
            }

            fn range(&self, table: &Table, span: impl Into<Span>) -> Result<Range<'_, AnyCursor<'_>>> {
                Range::new(|span| self.cursor(table, span), span.into())
            }

            fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Result<Range<'_, AnyCursor<'_>>> {
                self.range(table, Span::prefix(prefix.as_ref()))
            }

            fn cursor(&self, table: &Table, span: impl Into<Span>) -> Result<AnyCursor<'_>> {
                match self {
                    $type::Native(reader) => reader.cursor(table, span).map(AnyCursor::Native),
                    $type::Remote(reader) => reader.cursor(table, span).map(AnyCursor::Remote),
                }
            }

            fn table(&self, name: &str) -> Result<Option<Table>> {
                on_either!($type, self, reader => reader.table(name))
            }
        }
    };
}

read_tables!(AnySnapshot);
read_tables!(AnyTransaction);

impl ReadSnapshot for AnySnapshot {
    fn tables(&self) -> Result<Vec<Table>> {
        on_either!(AnySnapshot, self, snapshot => snapshot.tables())
    }

    fn last_key_bound(&self, table: &Table) -> Result<Option<Vec<u8>>> {
        on_either!(AnySnapshot, self, snapshot => ReadSnapshot::last_key_bound(snapshot, table))
    }

    fn estimated_len(&self, table: &Table) -> Result<Option<u64>> {
        on_either!(AnySnapshot, self, snapshot => snapshot.estimated_len(table))
    }
}

/// Calls with `$tx` bound to the transaction of either kind.
macro_rules! on_transaction {
    ($any:expr, $tx:ident => $call:expr) => {
        on_either!(AnyTransaction, $any, $tx => $call)
    };
}

impl WriteTables for AnyTransaction {
    fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        on_transaction!(self, tx => tx.put(table, key, value))
    }

    fn insert(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        on_transaction!(self, tx => tx.insert(table, key, value))
    }

    fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        on_transaction!(self, tx => tx.delete(table, key))
    }

    fn remove(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        on_transaction!(self, tx => tx.remove(table, key))
    }

    fn delete_range(&mut self, table: &Table, span: impl Into<Span>) -> Result<()> {
        on_transaction!(self, tx => tx.delete_range(table, span))
    }

    fn use_table(&self, table: &Table) -> Result<()> {
        on_transaction!(self, tx => tx.use_table(table))
    }

    fn require_unchanged(&self, table: &Table, span: impl Into<Span>) -> Result<()> {
        on_transaction!(self, tx => tx.require_unchanged(table, span))
    }

    fn isolation(&self) -> Isolation {
        on_transaction!(self, tx => tx.isolation())
    }

    fn savepoint(&mut self) -> Savepoint {
        on_transaction!(self, tx => tx.savepoint())
    }

    fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        on_transaction!(self, tx => tx.rollback_to(savepoint))
    }

    fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        on_transaction!(self, tx => tx.release(savepoint))
    }

    fn create_table(&mut self, name: &str, options: &TableOptions) -> Result<Table> {
        on_transaction!(self, tx => tx.create_table(name, options))
    }

    fn ensure_table(&mut self, name: &str) -> Result<Table> {
        on_transaction!(self, tx => tx.ensure_table(name))
    }

    fn drop_table(&mut self, table: &Table) -> Result<()> {
        on_transaction!(self, tx => tx.drop_table(table))
    }

    fn rename_table(&mut self, table: &Table, name: &str) -> Result<Table> {
        on_transaction!(self, tx => tx.rename_table(table, name))
    }
}
