//! Writing to tables that SQLite made: what SQLite's own `INSERT`, `UPDATE` and `DELETE` would store.
//!
//! 1. A write begins at [`DynamicTable::storage_for`], which uses the table with the schema cookie in its name. So the
//!    commit conflicts with a change of a definition, and a stale handle is an error.
//! 2. Uniqueness is a range of an index without an entry. SQLite's connections read that range, and are serializable;
//!    here it is required unchanged, so that two transactions conflict at snapshot isolation, too.
//! 3. An entry that should be there and is not is damage, as it is for SQLite.
//!
//! The callers in `write.rs` undo a call that fails.

use crate::cause::Cause;
use crate::columns::Columns;
use crate::sqlite::{Entry, Fields, Problem, Storage};
use crate::table::{DynamicTable, OpenIndex};
use crate::value::Value;
use pando::{Error, ErrorKind, ReadTables, RecordCursor, Result, Span, WriteTables};
use sqlite_format::key;

/// A row in the form in which SQLite stores it.
pub(crate) struct StoredRow<'v> {
    pub key: Vec<u8>,
    record: Vec<u8>,
    fields: Fields<'v>,
}

impl DynamicTable {
    /// Returns how the rows are stored if SQLite made the table; `None`: it did not.
    ///
    /// # Errors
    /// [`Cause::MadeBySqlite`] if only SQL can write; [`Cause::SchemaChanged`].
    #[inline]
    pub(crate) fn storage_for(&self, writer: &impl WriteTables) -> Result<Option<&Storage>> {
        match &self.inner.sqlite {
            None => Ok(None),
            Some(storage) => self.use_definitions(writer, storage).map(|()| Some(&**storage)),
        }
    }

    fn use_definitions(&self, writer: &impl WriteTables, storage: &Storage) -> Result<()> {
        let definitions = storage.writing().map_err(|why| self.made_by_sqlite(why))?;
        writer.use_table(definitions).map_err(|error| self.with_table(error, None))
    }

    #[cold]
    pub(crate) fn made_by_sqlite(&self, why: &str) -> Error {
        let table = self.name().to_owned();
        let message = format!("table {table:?} was made by SQL, and can only be read here: {why}");
        Cause::MadeBySqlite { table, reason: why.to_owned() }.error(message)
    }

    #[cold]
    pub(crate) fn not_defined_here(&self) -> Error {
        let (table, reason) = (self.name().to_owned(), "its definition is changed with SQL".to_owned());
        let message = format!("table {table:?} was made by SQL: {reason}");
        Cause::MadeBySqlite { table, reason }.error(message)
    }

    /// Returns the rowid that a new row without a rowid gets: the last rowid plus 1. Only tables that SQLite made and
    /// that are stored by the rowid have such numbers. O(log n).
    ///
    /// # Errors
    /// `Invalid` if the table has no rowid, or if the last row has the largest one; [`Cause::SchemaChanged`].
    pub fn next_row_id(&self, reader: &impl ReadTables) -> Result<i64> {
        let storage = self.inner.sqlite.as_ref().filter(|storage| storage.has_rowid());
        if storage.is_none() {
            return Err(Error::invalid(format!("table {:?} is not stored by SQLite's rowid", self.name())));
        }
        self.check_cookie(reader)?;
        let cursor = reader.cursor(&self.inner.data, Span::all());
        let mut cursor = cursor.map_err(|error| self.with_table(error, None))?;
        if !cursor.retreat()? {
            return Ok(1);
        }
        let last = cursor.key().unwrap_or_default();
        let last = key::rowid_of(last, &[]).ok_or_else(|| self.problem(Problem::Key, None, last))?;
        last.checked_add(1).ok_or_else(|| {
            let table = self.name();
            Error::invalid(format!("table {table:?} has a row with the largest rowid; give the row a rowid"))
        })
    }

    /// Checks a row and returns its values. If `may_number` and its rowid is null, the row gets one.
    pub(crate) fn checked_values<'v>(
        &self,
        reader: &impl ReadTables,
        storage: &Storage,
        row: &'v (impl Columns + ?Sized),
        may_number: bool,
    ) -> Result<Vec<Value<'v>>> {
        let rowid = storage.rowid_place().filter(|&place| may_number && place < row.count());
        let missing = rowid.filter(|&place| row.look_at(place, |value| value.is_null()));
        self.check_row_but(row, missing)?;
        let mut values: Vec<_> = (0..row.count()).map(|place| row.value(place)).collect();
        if let Some(place) = missing {
            values[place] = Value::Int(self.next_row_id(reader)?);
        }
        Ok(values)
    }

    /// Returns a row as it is stored.
    pub(crate) fn stored_row<'v>(&self, storage: &Storage, row: &'v [Value<'_>]) -> Result<StoredRow<'v>> {
        let stored = storage.fields_of(row).and_then(|fields| {
            Ok(StoredRow { key: storage.key_of(&fields)?, record: storage.record_of(&fields)?, fields })
        });
        stored.map_err(|problem| self.problem(problem, None, &[]))
    }

    /// Inserts a row. `values` are for messages.
    pub(crate) fn insert_stored(
        &self,
        tx: &mut impl WriteTables,
        row: &StoredRow<'_>,
        values: &[Value<'_>],
    ) -> Result<()> {
        let inserted = tx.insert(&self.inner.data, &row.key, &row.record);
        inserted.map_err(|error| match error.kind() {
            ErrorKind::Exists => self.duplicate(None, values),
            _ => self.with_table(error, None),
        })?;
        for open in &self.inner.indexes {
            let entry = self.entry_of(open, &row.fields, &row.key)?;
            self.enter_stored(tx, open, &entry, values)?;
        }
        Ok(())
    }

    /// Replaces the row at the same key. Returns whether there was one.
    pub(crate) fn overwrite_stored(
        &self,
        tx: &mut impl WriteTables,
        storage: &Storage,
        row: &StoredRow<'_>,
        values: &[Value<'_>],
    ) -> Result<bool> {
        let data = &self.inner.data;
        let Some(old) = tx.get(data, &row.key).map_err(|error| self.with_table(error, None))? else {
            return Ok(false);
        };
        tx.put(data, &row.key, &row.record).map_err(|error| self.with_table(error, None))?;
        if self.inner.indexes.is_empty() {
            return Ok(true);
        }
        let old = self.fields_at(storage, &row.key, &old)?;
        for open in &self.inner.indexes {
            let before = self.entry_of(open, &old, &row.key)?;
            let after = self.entry_of(open, &row.fields, &row.key)?;
            if before.key != after.key {
                self.leave_stored(tx, open, &before)?;
                self.enter_stored(tx, open, &after, values)?;
            } else if before.record != after.record {
                // They are equal in the order of the index, as texts in another case are, and both are of this row.
                tx.put(&open.table, key::stored(&after.key), &after.record)?;
            }
        }
        Ok(true)
    }

    /// Removes the entries of a row that was removed.
    pub(crate) fn leave_all_stored(
        &self,
        tx: &mut impl WriteTables,
        storage: &Storage,
        key: &[u8],
        record: &[u8],
    ) -> Result<()> {
        let fields = self.fields_at(storage, key, record)?;
        for open in &self.inner.indexes {
            let entry = self.entry_of(open, &fields, key)?;
            self.leave_stored(tx, open, &entry)?;
        }
        Ok(())
    }

    fn fields_at<'r>(&'r self, storage: &'r Storage, key: &[u8], record: &'r [u8]) -> Result<Fields<'r>> {
        storage.fields_at(key, record).map_err(|problem| self.problem(problem, None, key))
    }

    fn entry_of(&self, open: &OpenIndex, fields: &Fields<'_>, key: &[u8]) -> Result<Entry> {
        let storage = open.sqlite.as_ref().expect("an index of SQLite's table is SQLite's");
        let entry = storage.entry(fields, open.index.unique);
        entry.map_err(|problem| self.problem(problem, None, key))
    }

    fn leave_stored(&self, tx: &mut impl WriteTables, open: &OpenIndex, entry: &Entry) -> Result<()> {
        match tx.remove(&open.table, key::stored(&entry.key))? {
            Some(_) => Ok(()),
            None => Err(self.bad_entry(open, &entry.key, "of a row is missing")),
        }
    }

    /// Puts an entry. If it has to be unique, no other may begin with the same values.
    fn enter_stored(
        &self,
        tx: &mut impl WriteTables,
        open: &OpenIndex,
        entry: &Entry,
        values: &[Value<'_>],
    ) -> Result<()> {
        if key::is_cut(entry.key.len()) {
            return Err(self.problem(Problem::TooLong, Some(open), &entry.key));
        }
        if let Some(bytes) = entry.unique_bytes {
            let span = Span::prefix(&entry.key[..bytes]);
            tx.require_unchanged(&open.table, span.clone())?;
            if tx.cursor(&open.table, span)?.advance()? {
                return Err(self.duplicate(Some(open), values));
            }
        }
        tx.put(&open.table, &entry.key, &entry.record).map_err(|error| self.with_table(error, Some(open)))
    }
}
