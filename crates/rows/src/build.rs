//! Filling an index with the existing rows, at once or while others write.
//!
//! Online:
//! 1. *Declare* the index, as being built, in a transaction of its own. As with every change of a schema, a transaction
//!    that wrote by the older one conflicts; from here on all writers maintain its entries.
//! 2. *Fill* the index, a chunk of rows in each transaction, in the order of the primary key. A chunk reads its rows,
//!    puts their entries, and records how far it came. A writer that changes one of those rows meanwhile conflicts with
//!    the chunk: under serializable isolation because of what was read, and under snapshot isolation because it writes
//!    the key of the entry that the chunk puts, even if there is no entry yet. One of the two runs again; a chunk then
//!    has half as many rows.
//! 3. When no row is left, the index is *ready*: one more version of the schema.
//!
//! A process that dies in between leaves the index declared: writers maintain it, no read uses it, and
//! [`unfinished_indexes`] lists it. [`finish_index`] continues from the last chunk.
//!
//! The callback for progress can stop the build: [`build_index`] then drops what it has declared.
//!
//! A row that the index cannot hold, for example because its values are too long, ends the build, and the index is
//! dropped. While a unique index is built, two rows with the same value are detected when the second of them is
//! entered. A writer of such a row gets an error; a chunk with such a row ends the build with the reason, and the index
//! is dropped.

use crate::catalog;
use crate::cause::Cause;
use crate::definition::IndexDefinition;
use crate::table::{DynamicTable, Entry};
use crate::value::Value;
use pando::any::{AnyDatabase, AnyTransaction};
use pando::{Error, ErrorKind, ReadTables, RecordCursor, Result, Span, WriteTables};
use std::ops::Bound;

/// The number of rows whose entries are made together.
const CHUNK_ROWS: usize = 1000;
/// The size in bytes at which a chunk ends if rows are long. It also bounds the work between two calls of the callback.
const CHUNK_BYTES: usize = 4 << 20;
/// The smallest chunk after conflicts, in rows.
const LEAST_CHUNK_ROWS: usize = 16;

/// The progress of building an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildProgress {
    /// The number of rows that this build has entered.
    pub rows: u64,
    /// The number of transactions that this build has used.
    pub chunks: u64,
    /// The number of chunks that ran again because of a conflict with a writer.
    pub conflicts: u64,
}

/// Builds an index of a table in use, while others write to it. Calls `progress` after each chunk; an error that it
/// returns stops the build. Returns a handle with the new schema.
///
/// ```
/// # use pando_rows::{build_index, Column, ColumnType, Definition, DynamicTable, IndexDefinition, Value};
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// # let definition = Definition::new("t").column(Column::new("id", ColumnType::Int)).key(["id"]);
/// # let table = db.write(|tx| DynamicTable::create(tx, &definition))?;
/// # db.write(|tx| table.insert(tx, &[Value::Int(1)]))?;
/// let table = build_index(&db, "t", IndexDefinition::new("again", ["id"]), |_| Ok(()))?;
/// assert!(!table.schema().index("again").unwrap().is_building());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Exists` with [`crate::Cause::Duplicate`] if the index is unique and two rows have the same values in it;
/// `Invalid` with a [`crate::Cause`] if a row is too long for it; any error of `progress`. After these the index is
/// dropped. After other errors it stays unfinished: see [`finish_index`].
pub fn build_index(
    db: impl Into<AnyDatabase>,
    table: &str,
    index: IndexDefinition,
    progress: impl FnMut(BuildProgress) -> Result<()>,
) -> Result<DynamicTable> {
    build_index_in_chunks(db, table, index, CHUNK_ROWS, progress)
}

/// Builds an index as [`build_index`] does, with at most `chunk_rows` rows in each transaction. Fewer rows cause fewer
/// conflicts with writers, but the build takes longer.
///
/// # Errors
/// Those of [`build_index`].
pub fn build_index_in_chunks(
    db: impl Into<AnyDatabase>,
    table: &str,
    index: IndexDefinition,
    chunk_rows: usize,
    mut progress: impl FnMut(BuildProgress) -> Result<()>,
) -> Result<DynamicTable> {
    let (db, name) = (db.into(), index.name.clone());
    db.write(|tx| DynamicTable::expect(tx, table)?.declare_index(tx, index.clone(), true))?;
    let mut is_stopped = false;
    let report = |done| progress(done).inspect_err(|_| is_stopped = true);
    let built = finish(&db, table, &name, chunk_rows.max(1), report);
    if is_stopped {
        match drop_index(&db, table, &name) {
            // Another thread or process has dropped the index already.
            Err(error) if error.kind() == ErrorKind::Missing => {}
            dropped => dropped?,
        }
    }
    built
}

fn drop_index(db: &AnyDatabase, table: &str, index: &str) -> Result<()> {
    db.write(|tx| DynamicTable::expect(tx, table)?.drop_index(tx, index).map(drop))
}

/// Continues an index whose build was interrupted. An index that is ready stays as it is. After an error of
/// `progress` the index stays unfinished, because the program that began it may still be building it.
///
/// # Errors
/// Those of [`build_index`]; `Missing` if there is no such table or index.
pub fn finish_index(
    db: impl Into<AnyDatabase>,
    table: &str,
    index: &str,
    progress: impl FnMut(BuildProgress) -> Result<()>,
) -> Result<DynamicTable> {
    finish(&db.into(), table, index, CHUNK_ROWS, progress)
}

fn finish(
    db: &AnyDatabase,
    table: &str,
    index: &str,
    chunk_rows: usize,
    mut progress: impl FnMut(BuildProgress) -> Result<()>,
) -> Result<DynamicTable> {
    let mut done = BuildProgress::default();
    loop {
        let (mut rows, mut tries) = (chunk_rows, 0);
        let step = db.write(|tx| {
            tries += 1;
            let step = step(tx, table, index, rows);
            rows = (rows / 2).max(LEAST_CHUNK_ROWS.min(chunk_rows));
            step
        });
        match step {
            Ok(Step::Filled(filled)) => {
                done.rows += filled as u64;
                done.chunks += 1;
                done.conflicts += tries - 1;
                progress(done)?;
            }
            Ok(Step::Ready(table)) => return Ok(table),
            Err(error) if is_for_good(&error) => {
                drop_index(db, table, index)?;
                return Err(error);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether an existing row can never have an entry, however often the build tries.
fn is_for_good(error: &Error) -> bool {
    let is_rows_fault =
        matches!(Cause::in_error(error), Some(Cause::TooLong { .. } | Cause::WrongType { .. }));
    is_rows_fault || error.kind() == ErrorKind::Exists
}

/// Returns the table and the name of each index whose build was interrupted or is still running.
pub fn unfinished_indexes(snapshot: &impl ReadTables) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for schema in catalog::all(snapshot)? {
        let unfinished = schema.indexes().iter().filter(|index| index.is_building());
        found.extend(unfinished.map(|index| (schema.name().to_owned(), index.name().to_owned())));
    }
    Ok(found)
}

/// The result of one transaction of a build.
enum Step {
    /// The number of rows whose entries were put.
    Filled(usize),
    /// The table with the ready index: no row was left.
    Ready(DynamicTable),
}

fn step(tx: &mut AnyTransaction, table: &str, index: &str, rows: usize) -> Result<Step> {
    let open = DynamicTable::expect(tx, table)?;
    let missing = || Error::new(ErrorKind::Missing, format!("table {table:?} has no index {index:?}"));
    let place = open.schema().indexes().iter().position(|known| known.name() == index);
    let place = place.ok_or_else(missing)?;
    let declared = open.schema().indexes()[place].clone();
    if !declared.building {
        return Ok(Step::Ready(open));
    }
    let after = catalog::built_through(tx, open.schema(), &declared)?;
    let filled = open.fill_chunk(tx, place, after.as_deref(), rows)?;
    catalog::set_built_through(tx, open.schema(), &declared, filled.last.as_deref())?;
    if filled.last.is_some() {
        return Ok(Step::Filled(filled.rows));
    }
    let ready = open.altered(tx, |_, schema| {
        schema.indexes[place].building = false;
        Ok(())
    })?;
    Ok(Step::Ready(ready))
}

/// The result of [`DynamicTable::fill_chunk`].
pub(crate) struct Filled {
    rows: usize,
    /// The key of the last row; `None`: no row was left.
    last: Option<Vec<u8>>,
}

impl DynamicTable {
    /// Makes the entries of all rows in index number `place`. Calls `go_on` after each chunk.
    pub(crate) fn fill(
        &self,
        tx: &mut impl WriteTables,
        place: usize,
        mut go_on: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut after = None;
        while let Some(last) = self.fill_chunk(tx, place, after.as_deref(), CHUNK_ROWS)?.last {
            go_on()?;
            after = Some(last);
        }
        Ok(())
    }

    /// Makes the entries of at most `most` rows after the key `after` in index number `place`.
    ///
    /// # Errors
    /// `Exists` with [`crate::Cause::Duplicate`] if a unique index has the entry for another row.
    fn fill_chunk(
        &self,
        tx: &mut impl WriteTables,
        place: usize,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Filled> {
        let entries = self.next_entries(tx, place, after, most)?;
        let open = &self.inner.indexes[place];
        for (primary, entry) in &entries {
            if entry.value.is_empty() {
                tx.put(&open.table, &entry.key, b"").map_err(|error| self.with_table(error, Some(open)))?;
                continue;
            }
            match tx.insert(&open.table, &entry.key, &entry.value) {
                // The row's own entry may exist: a write after the index was declared made one.
                Err(error) if error.kind() == ErrorKind::Exists => {
                    if tx.get(&open.table, &entry.key)?.as_deref() != Some(&entry.value[..]) {
                        let row = self.get_bytes(tx, primary, |row| self.duplicate(Some(open), &row))?;
                        return Err(row.unwrap_or(error));
                    }
                }
                done => done.map_err(|error| self.with_table(error, Some(open)))?,
            }
        }
        Ok(Filled { rows: entries.len(), last: entries.into_iter().next_back().map(|(primary, _)| primary) })
    }

    /// Returns the keys of the next rows, and their entries.
    fn next_entries(
        &self,
        tx: &impl ReadTables,
        place: usize,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Vec<(Vec<u8>, Entry)>> {
        let open = &self.inner.indexes[place];
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut cursor = tx.cursor(&self.inner.data, Span::between(from, Bound::Unbounded))?;
        let (mut entries, mut read_bytes) = (Vec::new(), 0);
        while entries.len() < most && read_bytes < CHUNK_BYTES {
            let Some((key, value)) = cursor.next()? else { break };
            read_bytes += key.len() + value.len();
            let row: Vec<Value<'_>> = self.decode(key, value)?;
            entries.push((key.to_vec(), self.entry(open, &row, key)?));
        }
        Ok(entries)
    }
}
