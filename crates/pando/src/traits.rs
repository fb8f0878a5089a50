//! The methods that snapshots and transactions share, as traits: a function that takes `&impl ReadTables` reads from a
//! snapshot or from a transaction.
//!
//! The names say what is read and written. The plain names `Read` and `Write` would hide those of [`std::io`] wherever
//! this crate's items are imported together, and `put_reader` needs `std::io::Read` beside them.
//!
//! Each method only calls the method of the same name of its type, so that a call through a trait costs nothing: calls
//! are dispatched statically, and no trait object of these traits is possible. The traits are sealed, so that methods
//! can be added to them.
//!
//! A snapshot of the engine and one of a remote store have different cursors. So the cursor is a type of the trait
//! rather than one type with two cases: a step over a record of the engine is then the same code as without the trait.

use crate::cursor::{Beginning, Cursor, Range, RecordCursor, Span};
use crate::database::TableOptions;
use crate::remote::{RemoteCursor, RemoteSnapshot, RemoteTransaction};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use base::Result;
use store::{Savepoint, Table, ValueReader, ValueRef};
use txn::Isolation;

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::snapshot::Snapshot {}
    impl Sealed for crate::transaction::Transaction {}
    impl Sealed for crate::remote::RemoteSnapshot {}
    impl Sealed for crate::remote::RemoteTransaction {}
    impl Sealed for crate::any::AnySnapshot {}
    impl Sealed for crate::any::AnyTransaction {}
}

/// A source of reads from tables: a [`Snapshot`] or a [`Transaction`], of the engine or of a [remote](crate::remote)
/// store. A transaction sees its own writes, too.
///
/// Take `&impl ReadTables` in functions that read. The methods are those of the types, at the same cost. No type
/// outside of this crate can implement the trait.
///
/// ```
/// use pando::{ReadTables, Result, Table};
///
/// fn total(reader: &impl ReadTables, accounts: &Table) -> Result<u64> {
///     let mut total = 0;
///     for record in reader.range(accounts, ..)? {
///         total += u64::from(record?.1[0]);
///     }
///     Ok(total)
/// }
///
/// # fn main() -> Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let accounts = db.ensure_table("accounts")?;
/// db.put(&accounts, "ann", [7])?;
/// assert_eq!(total(&db.snapshot()?, &accounts)?, 7);
/// db.write(|tx| {
///     tx.put(&accounts, "bob", [3])?;
///     assert_eq!(total(tx, &accounts)?, 10);
///     Ok(())
/// })
/// # }
/// ```
pub trait ReadTables: sealed::Sealed {
    /// The cursor over records.
    type Cursor<'a>: RecordCursor
    where
        Self: 'a;

    /// Returns a copy of the value of `key`, or `None` if the key does not exist; see [`Snapshot::get`].
    fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>>;

    /// Returns the value of `key` in place, without a copy; see [`Snapshot::get_ref`].
    fn get_ref(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueRef<'_>>>;

    /// Calls `with` on the value of `key` in place, without a copy; see [`Snapshot::get_with`].
    fn get_with<T>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>>;

    /// Calls `with` on the beginning of the value of `key`; see [`Snapshot::get_beginning`]. For a remote store it is
    /// the whole value.
    fn get_beginning<T>(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        whole_bytes: usize,
        with: impl FnOnce(Beginning<'_>) -> T,
    ) -> Result<Option<T>>;

    /// Calls `with` on the first record whose key begins with `prefix`: on the rest of the key, and on the value; see
    /// [`Snapshot::first_with_prefix`].
    fn first_with_prefix<T>(
        &self,
        table: &Table,
        prefix: impl AsRef<[u8]>,
        with: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>>;

    /// Returns the values of many keys, in the order of `keys`.
    fn multi_get<K: AsRef<[u8]>>(&self, table: &Table, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Returns whether `key` exists.
    fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool>;

    /// Returns the length of the value of `key` in bytes. The engine does not read a long value for it.
    fn value_len(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<u64>>;

    /// Returns a reader of the value of `key`, for values of any length; see [`Snapshot::value_reader`].
    fn value_reader(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>>;

    /// Returns copies of the records of `span`, which you can iterate from both ends; see [`Snapshot::range`].
    fn range(&self, table: &Table, span: impl Into<Span>) -> Result<Range<'_, Self::Cursor<'_>>>;

    /// Returns the records whose keys begin with `prefix`, in key order.
    fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Result<Range<'_, Self::Cursor<'_>>>;

    /// Returns a cursor over `span`, positioned before its first record.
    fn cursor(&self, table: &Table, span: impl Into<Span>) -> Result<Self::Cursor<'_>>;

    /// Returns the table named `name`, or `None` if there is none.
    fn table(&self, name: &str) -> Result<Option<Table>>;
}

/// A snapshot, of the engine ([`Snapshot`]) or of a [remote](crate::remote) store: reads that all see one state of the
/// commits.
///
/// Take it in functions that read a whole database. No type outside of this crate can implement it.
///
/// ```
/// use pando::{ReadSnapshot, Result};
///
/// fn names(snapshot: &impl ReadSnapshot) -> Result<Vec<String>> {
///     Ok(snapshot.tables()?.iter().map(|table| table.name().to_owned()).collect())
/// }
///
/// # fn main() -> Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// db.ensure_table("fruit")?;
/// assert_eq!(names(&db.snapshot()?)?, ["fruit"]);
/// # Ok(())
/// # }
/// ```
pub trait ReadSnapshot: ReadTables {
    /// Returns all tables, ordered by name.
    fn tables(&self) -> Result<Vec<Table>>;

    /// Returns a key that is at or after every key of the table; see [`Snapshot::last_key_bound`]. In a remote store it
    /// is the last key.
    fn last_key_bound(&self, table: &Table) -> Result<Option<Vec<u8>>>;

    /// Returns approximately how many records the table has; see [`Snapshot::approximate_len`]. It returns `None` for a
    /// remote store, which would have to count them.
    fn estimated_len(&self, table: &Table) -> Result<Option<u64>>;
}

impl ReadSnapshot for Snapshot {
    fn tables(&self) -> Result<Vec<Table>> {
        Snapshot::tables(self)
    }

    fn last_key_bound(&self, table: &Table) -> Result<Option<Vec<u8>>> {
        Snapshot::last_key_bound(self, table)
    }

    fn estimated_len(&self, table: &Table) -> Result<Option<u64>> {
        self.approximate_len(table).map(Some)
    }
}

impl ReadSnapshot for RemoteSnapshot {
    fn tables(&self) -> Result<Vec<Table>> {
        RemoteSnapshot::tables(self)
    }

    fn last_key_bound(&self, table: &Table) -> Result<Option<Vec<u8>>> {
        Ok(self.cursor(table, ..)?.prev()?.map(|(key, _)| key.to_vec()))
    }

    fn estimated_len(&self, _: &Table) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// A read-write transaction, of the engine ([`Transaction`]) or of a [remote](crate::remote) store.
///
/// Take `&mut impl WriteTables` in functions that change records or tables. The trait has no methods that begin or
/// commit: that, and the retries, are up to the caller. No type outside of this crate can implement it.
///
/// ```
/// use pando::{Result, Table, WriteTables};
///
/// fn rename(writer: &mut impl WriteTables, table: &Table, from: &str, to: &str) -> Result<bool> {
///     let Some(value) = writer.remove(table, from)? else { return Ok(false) };
///     writer.put(table, to, value)?;
///     Ok(true)
/// }
///
/// # fn main() -> Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let fruit = db.ensure_table("fruit")?;
/// db.put(&fruit, "aple", "red")?;
/// assert!(db.write(|tx| rename(tx, &fruit, "aple", "apple"))?);
/// assert!(db.snapshot()?.contains(&fruit, "apple")?);
/// # Ok(())
/// # }
/// ```
pub trait WriteTables: ReadTables {
    /// Sets `key` to `value`; see [`Transaction::put`].
    fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Sets `key` to `value` if the key does not exist; see [`Transaction::insert`].
    fn insert(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Deletes `key`. It is not an error if the key does not exist.
    fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<()>;

    /// Deletes `key` and returns its value.
    fn remove(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>>;

    /// Deletes all records of `span`; see [`Transaction::delete_range`].
    fn delete_range(&mut self, table: &Table, span: impl Into<Span>) -> Result<()>;

    /// Makes the commit fail with a conflict if another transaction renames or drops the table; see
    /// [`Transaction::use_table`].
    fn use_table(&self, table: &Table) -> Result<()>;

    /// Makes the commit fail with a conflict if another transaction changes a key of `span`; see
    /// [`Transaction::require_unchanged`].
    fn require_unchanged(&self, table: &Table, span: impl Into<Span>) -> Result<()>;

    /// Returns the isolation of the transaction.
    fn isolation(&self) -> Isolation;

    /// Returns a point that the transaction can be rolled back to; see [`Transaction::savepoint`].
    fn savepoint(&mut self) -> Savepoint;

    /// Undoes everything that was written after `savepoint`; see [`Transaction::rollback_to`].
    fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()>;

    /// Releases a savepoint, and keeps the writes after it; see [`Transaction::release`].
    fn release(&mut self, savepoint: &Savepoint) -> Result<()>;

    /// Creates a table; see [`Transaction::create_table`].
    fn create_table(&mut self, name: &str, options: &TableOptions) -> Result<Table>;

    /// Returns the table named `name`, and creates it if it does not exist; see [`Transaction::ensure_table`].
    fn ensure_table(&mut self, name: &str) -> Result<Table>;

    /// Drops a table and everything in it.
    fn drop_table(&mut self, table: &Table) -> Result<()>;

    /// Renames a table and returns a handle with the new name; see [`Transaction::rename_table`].
    fn rename_table(&mut self, table: &Table, name: &str) -> Result<Table>;
}

/// The reads call the type's own methods by path, so that none can call itself.
macro_rules! read_tables {
    ($type:ty, $cursor:ident) => {
        impl ReadTables for $type {
            type Cursor<'a> = $cursor<'a>;

            #[inline]
            fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
                <$type>::get(self, table, key)
            }

            #[inline]
            fn get_ref(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueRef<'_>>> {
                <$type>::get_ref(self, table, key)
            }

            #[inline]
            fn get_with<T>(
                &self,
                table: &Table,
                key: impl AsRef<[u8]>,
                with: impl FnOnce(&[u8]) -> T,
            ) -> Result<Option<T>> {
                <$type>::get_with(self, table, key, with)
            }

            #[inline]
            fn get_beginning<T>(
                &self,
                table: &Table,
                key: impl AsRef<[u8]>,
                whole_bytes: usize,
                with: impl FnOnce(Beginning<'_>) -> T,
            ) -> Result<Option<T>> {
                <$type>::get_beginning(self, table, key, whole_bytes, with)
            }

            #[inline]
            fn first_with_prefix<T>(
                &self,
                table: &Table,
                prefix: impl AsRef<[u8]>,
                with: impl FnOnce(&[u8], &[u8]) -> T,
            ) -> Result<Option<T>> {
                <$type>::first_with_prefix(self, table, prefix, with)
            }

            #[inline]
            fn multi_get<K: AsRef<[u8]>>(&self, table: &Table, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
                <$type>::multi_get(self, table, keys)
            }

            #[inline]
            fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
                <$type>::contains(self, table, key)
            }

            #[inline]
            fn value_len(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
                <$type>::value_len(self, table, key)
            }

            #[inline]
            fn value_reader(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
                <$type>::value_reader(self, table, key)
            }

            #[inline]
            fn range(&self, table: &Table, span: impl Into<Span>) -> Result<Range<'_, $cursor<'_>>> {
                <$type>::range(self, table, span)
            }

            #[inline]
            fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Result<Range<'_, $cursor<'_>>> {
                <$type>::prefix(self, table, prefix)
            }

            #[inline]
            fn cursor(&self, table: &Table, span: impl Into<Span>) -> Result<$cursor<'_>> {
                <$type>::cursor(self, table, span)
            }

            #[inline]
            fn table(&self, name: &str) -> Result<Option<Table>> {
                <$type>::table(self, name)
            }
        }
    };
}

read_tables!(Snapshot, Cursor);
read_tables!(Transaction, Cursor);
read_tables!(RemoteSnapshot, RemoteCursor);
read_tables!(RemoteTransaction, RemoteCursor);

macro_rules! write_tables {
    ($type:ty) => {
        impl WriteTables for $type {
            #[inline]
            fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
                <$type>::put(self, table, key, value)
            }

            #[inline]
            fn insert(
                &mut self,
                table: &Table,
                key: impl AsRef<[u8]>,
                value: impl AsRef<[u8]>,
            ) -> Result<()> {
                <$type>::insert(self, table, key, value)
            }

            #[inline]
            fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
                <$type>::delete(self, table, key)
            }

            #[inline]
            fn remove(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
                <$type>::remove(self, table, key)
            }

            #[inline]
            fn delete_range(&mut self, table: &Table, span: impl Into<Span>) -> Result<()> {
                <$type>::delete_range(self, table, span)
            }

            fn use_table(&self, table: &Table) -> Result<()> {
                <$type>::use_table(self, table)
            }

            fn require_unchanged(&self, table: &Table, span: impl Into<Span>) -> Result<()> {
                <$type>::require_unchanged(self, table, span)
            }

            fn isolation(&self) -> Isolation {
                <$type>::isolation(self)
            }

            fn savepoint(&mut self) -> Savepoint {
                <$type>::savepoint(self)
            }

            fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
                <$type>::rollback_to(self, savepoint)
            }

            fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
                <$type>::release(self, savepoint)
            }

            fn create_table(&mut self, name: &str, options: &TableOptions) -> Result<Table> {
                <$type>::create_table(self, name, options)
            }

            fn ensure_table(&mut self, name: &str) -> Result<Table> {
                <$type>::ensure_table(self, name)
            }

            fn drop_table(&mut self, table: &Table) -> Result<()> {
                <$type>::drop_table(self, table)
            }

            fn rename_table(&mut self, table: &Table, name: &str) -> Result<Table> {
                <$type>::rename_table(self, table, name)
            }
        }
    };
}

write_tables!(Transaction);
write_tables!(RemoteTransaction);
