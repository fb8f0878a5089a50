//! Tables of Rust structs: [`Table`], over [`DynamicTable`].

use crate::cause::Cause;
use crate::columns::Columns;
use crate::definition::Definition;
use crate::ensure::fit;
use crate::field::Key;
use crate::scan::{KeyRange, Scan};
use crate::table::DynamicTable;
use crate::value::Value;
use pando::any::AnyDatabase;
use pando::{Error, ErrorKind, ReadTables, Result, WriteTables};
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A struct that is the row of a typed table. Derive it with `#[derive(Row)]`.
///
/// | attribute | of | means |
/// |---|---|---|
/// | `table = "people"` | the struct | the name of the table; default: the struct's name in lower case |
/// | `index(by_age = "age desc, name")` | the struct | an index over those columns: [`crate::IndexDefinition::on`] |
/// | `unique(by_email = "email")` | the struct | the same, unique |
/// | `key` | a field | the field is part of the primary key, in the order of the fields |
/// | `key, descending` | a field | the same, ordered from the largest value to the smallest |
/// | `default = 7` | a field | the value of rows that were written before the column was added |
/// | `name = "type"` | a field | the column's name |
/// | `crate = shop::rows` | the struct | the path of this library where it is not called `pando_rows` |
///
/// ```
/// use pando_rows::{Row, Table};
///
/// #[derive(Row, Clone, Debug, PartialEq)]
/// #[row(table = "people", unique(by_email = "email"), index(by_town = "town, name desc"))]
/// struct Person {
///     #[row(key)]
///     id: u32,
///     name: String,
///     email: Option<String>,
///     #[row(default = "Ulm")]
///     town: String,
/// }
///
/// # fn main() -> pando::Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let people = Table::<Person>::ensure(&db)?;
/// let ann = Person { id: 7, name: "Ann".into(), email: None, town: "Bonn".into() };
/// db.write(|tx| people.insert(tx, &ann))?;
/// let snapshot = db.snapshot()?;
/// assert_eq!(people.get(&snapshot, 7)?, Some(ann.clone()));
/// assert_eq!(people.range(&snapshot, 1..10)?.count(), 1);
/// assert_eq!(people.by_index(&snapshot, "by_town", "Bonn")?.next().unwrap()?, ann);
/// # Ok(())
/// # }
/// ```
pub trait Row: Columns + Sized + 'static {
    /// The type of the primary key: one value, or a tuple. Text and bytes are borrowed.
    type Key<'k>: Key
    where
        Self: 'k;
    /// The name of the table.
    const TABLE: &'static str;
    /// Returns the definition of the table.
    fn definition() -> Definition;
    /// Returns the primary key of the row.
    fn key(&self) -> Self::Key<'_>;
    /// Creates the row from the values of its columns.
    ///
    /// # Errors
    /// `Mismatch` if a value does not have its field's type.
    fn from_values(values: Vec<Value<'_>>) -> Result<Self>;
}

/// A typed table whose rows are `R`. Threads can share it.
///
/// A handle stays valid after another handle changes the schema, for example with [`crate::build_index`]. Each of its
/// calls then reads the catalog; open the table again to avoid that.
pub struct Table<R> {
    opened: DynamicTable,
    /// The newest version of the schema that a call has found.
    newest: Mutex<Option<DynamicTable>>,
    rows: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Table<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("schema", self.opened.schema()).finish_non_exhaustive()
    }
}

impl<R> Clone for Table<R> {
    fn clone(&self) -> Self {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let opened = newest.unwrap_or_else(|| self.opened.clone());
        Table { opened, newest: Mutex::new(None), rows: PhantomData }
    }
}

impl<R: Row> Table<R> {
    /// Returns the table of `R`, and creates it if it does not exist. If the table lacks columns at the end of `R`, the
    /// call adds them. If it lacks indexes, the call builds them while others can write, and returns after that.
    ///
    /// # Errors
    /// `Mismatch` with the difference if the table differs from `R`; those of [`crate::build_index`].
    pub fn ensure(db: impl Into<AnyDatabase>) -> Result<Self> {
        Self::ensure_as(db, &R::definition())
    }

    /// Returns the table of `R` as [`Table::ensure`] does, with rows that live for `ttl`; see [`Definition::ttl`].
    ///
    /// # Errors
    /// As for [`Table::ensure`]; also `Mismatch` if the table has another TTL.
    pub fn ensure_with_ttl(db: impl Into<AnyDatabase>, ttl: Duration) -> Result<Self> {
        let table = Self::ensure_as(db, &R::definition().ttl(ttl))?;
        let found = table.opened.data().ttl();
        if found != Some(ttl) {
            let message = format!("table {:?} has TTL {found:?}, not {ttl:?}", R::TABLE);
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
        Ok(table)
    }

    fn ensure_as(db: impl Into<AnyDatabase>, definition: &Definition) -> Result<Self> {
        Self::new(DynamicTable::ensure(db, definition)?)
    }

    /// Opens the table of `R` as `reader` sees it, or returns `None` if there is none. The call changes nothing.
    ///
    /// # Errors
    /// `Mismatch` with the difference if the table differs from `R`.
    pub fn open(reader: &impl ReadTables) -> Result<Option<Self>> {
        DynamicTable::open(reader, R::TABLE)?.map(Self::new).transpose()
    }

    /// Opens the table of `R` as `reader` sees it, as [`Table::open`] does; the table must exist.
    ///
    /// # Errors
    /// `Missing` if there is no such table; `Mismatch` with the difference if it differs from `R`.
    pub fn expect(reader: &impl ReadTables) -> Result<Self> {
        Self::new(DynamicTable::expect(reader, R::TABLE)?)
    }

    /// Creates the table within a transaction.
    ///
    /// # Errors
    /// `Exists` if there is already a table of this name.
    pub fn create(tx: &mut impl WriteTables) -> Result<Self> {
        Self::new(DynamicTable::create(tx, &R::definition())?)
    }

    fn new(table: DynamicTable) -> Result<Self> {
        fit(&R::definition(), table.schema())?;
        Ok(Table { opened: table, newest: Mutex::new(None), rows: PhantomData })
    }

    /// Returns the table with its schema, for operations that are not available here.
    pub fn dynamic(&self) -> &DynamicTable {
        &self.opened
    }

    /// Inserts a row whose primary key must not exist; see [`DynamicTable::insert`].
    pub fn insert(&self, tx: &mut impl WriteTables, row: &R) -> Result<()> {
        self.write(tx, |table, tx| table.insert(tx, row))
    }

    /// Puts a row, whether or not its primary key exists; see [`DynamicTable::upsert`].
    pub fn upsert(&self, tx: &mut impl WriteTables, row: &R) -> Result<()> {
        self.write(tx, |table, tx| table.upsert(tx, row))
    }

    /// Replaces the row with the same primary key. Returns whether the row existed; if not, nothing is written.
    pub fn update(&self, tx: &mut impl WriteTables, row: &R) -> Result<bool> {
        self.write(tx, |table, tx| table.update(tx, row))
    }

    /// Deletes the row at a primary key. Returns whether the row existed.
    pub fn delete(&self, tx: &mut impl WriteTables, key: R::Key<'_>) -> Result<bool> {
        self.write(tx, |table, tx| key.with(|key| table.delete(tx, key)))
    }

    /// Deletes the row at a primary key and returns it, or `None` if it did not exist.
    pub fn remove(&self, tx: &mut impl WriteTables, key: R::Key<'_>) -> Result<Option<R>> {
        let removed = self.write(tx, |table, tx| key.with(|key| table.remove(tx, key)))?;
        removed.map(R::from_values).transpose()
    }

    /// Returns the row at a primary key, or `None` if there is none.
    pub fn get(&self, reader: &impl ReadTables, key: R::Key<'_>) -> Result<Option<R>> {
        let row = self.read(reader, |table| key.with(|key| table.get_with(reader, key, R::from_values)))?;
        row.transpose()
    }

    /// Returns whether there is a row at a primary key.
    pub fn contains(&self, reader: &impl ReadTables, key: R::Key<'_>) -> Result<bool> {
        self.read(reader, |table| key.with(|key| table.contains(reader, key)))
    }

    /// Returns the rows between two primary keys, in ascending order.
    pub fn range<'r, 'k, S: ReadTables>(
        &self,
        reader: &'r S,
        keys: impl RangeBounds<R::Key<'k>>,
    ) -> Result<Rows<'r, S, R>> {
        self.between(reader, keys, false)
    }

    /// Returns the rows between two primary keys, in descending order.
    pub fn range_backwards<'r, 'k, S: ReadTables>(
        &self,
        reader: &'r S,
        keys: impl RangeBounds<R::Key<'k>>,
    ) -> Result<Rows<'r, S, R>> {
        self.between(reader, keys, true)
    }

    /// Returns the rows whose primary key begins with these values.
    pub fn prefix<'r, S: ReadTables>(&self, reader: &'r S, first: impl Key) -> Result<Rows<'r, S, R>> {
        self.scan(reader, |table| first.with(|first| table.scan(reader, &KeyRange::prefix(first))))
    }

    /// Returns the rows whose values in an index begin with `first`, in the order of the index.
    ///
    /// # Errors
    /// `Missing` if there is no such index; `Invalid` if the values do not have its types.
    pub fn by_index<'r, S: ReadTables>(
        &self,
        reader: &'r S,
        index: &str,
        first: impl Key,
    ) -> Result<Rows<'r, S, R>> {
        self.in_index(reader, index, first, false)
    }

    /// Returns the rows of [`Table::by_index`] in reverse order.
    pub fn by_index_backwards<'r, S: ReadTables>(
        &self,
        reader: &'r S,
        index: &str,
        first: impl Key,
    ) -> Result<Rows<'r, S, R>> {
        self.in_index(reader, index, first, true)
    }

    fn in_index<'r, S: ReadTables>(
        &self,
        reader: &'r S,
        index: &str,
        first: impl Key,
        backwards: bool,
    ) -> Result<Rows<'r, S, R>> {
        self.scan(reader, |table| {
            first.with(|first| {
                let range = KeyRange::prefix(first);
                table.scan_index(reader, index, &if backwards { range.backwards() } else { range })
            })
        })
    }

    fn between<'r, 'k, S: ReadTables>(
        &self,
        reader: &'r S,
        keys: impl RangeBounds<R::Key<'k>>,
        backwards: bool,
    ) -> Result<Rows<'r, S, R>> {
        let owned = |bound: Bound<&R::Key<'k>>| {
            let values =
                |values: &[Value<'_>]| values.iter().cloned().map(Value::into_owned).collect::<Vec<_>>();
            bound.map(|key| key.with(values))
        };
        let (low, high) = (owned(keys.start_bound()), owned(keys.end_bound()));
        let range = KeyRange::between(low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
        let range = if backwards { range.backwards() } else { range };
        self.scan(reader, |table| table.scan(reader, &range))
    }

    fn scan<'r, S: ReadTables>(
        &self,
        reader: &'r S,
        scan: impl Fn(&DynamicTable) -> Result<Scan<'r, S>>,
    ) -> Result<Rows<'r, S, R>> {
        Ok(Rows { scan: self.read(reader, scan)?, rows: PhantomData })
    }

    #[inline]
    fn read<T>(&self, reader: &impl ReadTables, work: impl Fn(&DynamicTable) -> Result<T>) -> Result<T> {
        match work(&self.opened) {
            Err(error) if is_changed(&error) => work(&self.renewed(reader)?),
            done => done,
        }
    }

    #[inline]
    fn write<W: WriteTables, T>(
        &self,
        tx: &mut W,
        work: impl Fn(&DynamicTable, &mut W) -> Result<T>,
    ) -> Result<T> {
        match work(&self.opened, tx) {
            Err(error) if is_changed(&error) => work(&self.renewed(tx)?, tx),
            done => done,
        }
    }

    /// Returns the table as `reader` sees it.
    #[cold]
    fn renewed(&self, reader: &impl ReadTables) -> Result<DynamicTable> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*newest
            && known.check_handle(reader).is_ok()
        {
            return Ok(known.clone());
        }
        let found = DynamicTable::expect(reader, R::TABLE)?;
        fit(&R::definition(), found.schema())?;
        *newest = Some(found.clone());
        Ok(found)
    }
}

fn is_changed(error: &Error) -> bool {
    error.kind() == ErrorKind::Missing && matches!(Cause::in_error(error), Some(Cause::SchemaChanged { .. }))
}

/// An iterator over rows of a table. It can be consumed from both ends, and ends where they meet.
#[must_use = "rows are read only as they are iterated"]
pub struct Rows<'r, S: ReadTables, R> {
    scan: Scan<'r, S>,
    rows: PhantomData<fn() -> R>,
}

impl<S: ReadTables, R> fmt::Debug for Rows<'_, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt(f)
    }
}

impl<S: ReadTables, R: Row> Iterator for Rows<'_, S, R> {
    type Item = Result<R>;

    fn next(&mut self) -> Option<Self::Item> {
        self.scan.next_with(R::from_values).and_then(Option::transpose).transpose()
    }
}

impl<S: ReadTables, R: Row> DoubleEndedIterator for Rows<'_, S, R> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.scan.next_back_with(R::from_values).and_then(Option::transpose).transpose()
    }
}

impl<S: ReadTables, R: Row> FusedIterator for Rows<'_, S, R> {}
