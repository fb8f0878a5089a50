//! Scans that read a batch at a time and hold nothing of the database between batches. SQL is built on them.
//!
//! A scan goes through the primary key or an index, from one end of its bounds to the other. It stores the key that it
//! reached, not a cursor, so rows may be written, and transactions may begin and end, between two batches. Each batch
//! is read from one snapshot or transaction, index entries and their rows together.

use crate::key::{Parts, Shape};
use crate::table::{DynamicTable, OpenIndex};
use crate::value::Value;
use pando::{Error, ReadSnapshot, ReadTables, RecordCursor, Result, Span};
use std::borrow::Cow;
use std::ops::Bound;

/// Bounds on the parts of the primary key or of an index: the first parts are equal to values, and the next part lies
/// between two values.
#[derive(Clone, Debug)]
pub struct Bounds<'v> {
    /// The values of the first parts.
    pub equal: Vec<Value<'v>>,
    /// The smallest value of the next part, in an ascending and in a descending part.
    pub lower: Bound<Value<'v>>,
    /// The largest value of the next part, in an ascending and in a descending part.
    pub upper: Bound<Value<'v>>,
}

impl Default for Bounds<'_> {
    fn default() -> Self {
        Bounds { equal: Vec::new(), lower: Bound::Unbounded, upper: Bound::Unbounded }
    }
}

/// The size in bytes at which a batch takes no more rows.
const BATCH_BYTES: usize = 256 << 10;

/// A scan of a table in batches.
#[derive(Debug)]
#[must_use = "a scan reads rows only as it fills batches"]
pub struct BatchScan {
    table: DynamicTable,
    /// The place of the index among the table's indexes; `None`: the primary key.
    index: Option<usize>,
    /// The first key that is still to be read, and the key before which the scan ends.
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    backwards: bool,
    /// Whether only entries are read, not their rows; for the primary key, keys without values.
    keys_only: bool,
    is_done: bool,
    /// Whether the handle is known not to be stale.
    is_checked: bool,
    /// Whether `start` is a whole key with at most one row, which is read with a get and not with a cursor.
    is_point: bool,
}

/// The rows that a scan has read.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    rows: Vec<Stretch>,
    /// The starts of values of the row that was looked at last: see [`Layout::value`](crate::row::Layout::value).
    starts: Vec<usize>,
    /// The row that was looked at last.
    looked_at: usize,
}

/// The position of a row in a batch: its primary key, or the index's entry if only that was read, followed by its
/// value.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: usize,
    middle: usize,
    end: usize,
}

impl Batch {
    /// Returns the number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row whose key is `front` followed by `rest`.
    #[inline]
    fn push(&mut self, front: &[u8], rest: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.reserve(front.len() + rest.len() + value.len());
        self.bytes.extend_from_slice(front);
        self.bytes.extend_from_slice(rest);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.rows.push(Stretch { start, middle, end: self.bytes.len() });
    }

    /// Returns a row's key and value, and the known positions of its values.
    #[inline]
    fn look_at(&mut self, row: usize) -> (&[u8], &[u8], &mut Vec<usize>) {
        let Batch { bytes, rows, starts, looked_at } = self;
        if *looked_at != row {
            *looked_at = row;
            starts.clear();
        }
        let Stretch { start, middle, end } = rows[row];
        (&bytes[start..middle], &bytes[middle..end], starts)
    }

    /// Removes the rows, but keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.starts.clear();
    }

    /// Returns the number of bytes of rows that fit before more memory is allocated.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    #[inline]
    fn value(&self, row: usize) -> &[u8] {
        let Stretch { middle, end, .. } = self.rows[row];
        &self.bytes[middle..end]
    }
}

impl BatchScan {
    /// Creates a scan in the order of the primary key, or of the index with this name, ascending or descending. With
    /// `keys_only` it reads no rows: [`BatchScan::value`] then returns only values that are in the entries of the
    /// index, or in the primary keys.
    ///
    /// # Errors
    /// `Missing` if there is no such index; `Invalid` if the index is still being built, or if the bounds do not fit
    /// its parts.
    pub fn new(
        table: &DynamicTable,
        index: Option<&str>,
        bounds: &Bounds<'_>,
        backwards: bool,
        keys_only: bool,
    ) -> Result<Self> {
        let open = index.map(|name| table.open_index(name)).transpose()?;
        let prefix = table.prefix_bytes(open, &bounds.equal)?;
        let shape = shape(table, open, bounds.equal.len());
        // All entries of an index of SQLite's end with the primary key, and so do those of others with a null in them.
        let is_whole = shape.is_none() && open.is_none_or(|open| open.index.unique && open.sqlite.is_none());
        let is_point = is_whole && !bounds.equal.iter().any(Value::is_null);
        let span = match shape {
            Some(shape) => {
                let number = bounds.equal.len();
                let push =
                    |key: &mut Vec<u8>, value: &Value<'_>| table.push_part(key, open, number, shape, value);
                within(&prefix, shape.descending, push, &bounds.lower, &bounds.upper)?
            }
            None if is_point => Some((prefix, None)),
            None => {
                let end = pando::keys::prefix_end(&prefix);
                Some((prefix, end))
            }
        };
        let is_done = span.is_none();
        let (start, end) = span.unwrap_or_default();
        let at = |open: &OpenIndex| table.inner.indexes.iter().position(|known| std::ptr::eq(known, open));
        let (index, table) = (open.and_then(at), table.clone());
        let is_checked = false;
        // What SQLite's keys and entries contain is in its rows, too, and there in its own type.
        let reads_rows = index.is_some() || !table.has_decodable_keys();
        let keys_only = keys_only && !(table.inner.sqlite.is_some() && reads_rows);
        Ok(BatchScan { table, index, start, end, backwards, keys_only, is_done, is_checked, is_point })
    }

    /// Returns whether all rows were read.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the table.
    pub fn table(&self) -> &DynamicTable {
        &self.table
    }

    #[inline]
    fn open(&self) -> Option<&OpenIndex> {
        self.index.map(|index| &self.table.inner.indexes[index])
    }

    /// Reads the next rows, at most `most`, and replaces the contents of `batch` with them. An empty batch means that
    /// the scan has ended.
    ///
    /// # Errors
    /// [`crate::Cause::SchemaChanged`] if the table was altered after the handle was opened.
    pub fn fill(&mut self, reader: &impl ReadTables, most: usize, batch: &mut Batch) -> Result<()> {
        batch.clear();
        if self.is_done {
            return Ok(());
        }
        self.table.check_cookie(reader)?;
        // An index has no version in its name: only the table of the rows shows whether the handle is stale. A scan
        // that reads a row has checked it.
        let is_unsure = self.index.is_some() && !self.is_checked;
        if is_unsure && self.keys_only {
            self.table.check_handle(reader)?;
        }
        if self.is_point {
            self.get(reader, batch)?;
            self.is_done = true;
        } else {
            self.fill_range(reader, most, batch)?;
        }
        if is_unsure && !self.keys_only && batch.is_empty() {
            self.table.check_handle(reader)?;
        }
        self.is_checked = true;
        Ok(())
    }

    /// Reads the only row that can exist.
    fn get(&self, reader: &impl ReadTables, batch: &mut Batch) -> Result<()> {
        let open = self.open();
        let entries = open.map_or(self.table.data(), |open| &open.table);
        let is_value_asked = open.is_some() || !self.keys_only;
        let push = |value: &[u8]| batch.push(&self.start, &[], if is_value_asked { value } else { &[] });
        let found = reader.get_with(entries, &self.start, push);
        if found.map_err(|error| self.table.with_table(error, open))?.is_none() {
            return Ok(());
        }
        match open {
            Some(open) if !self.keys_only => {
                let primary = batch.value(0).to_vec();
                batch.clear();
                self.push_row(reader, open, &self.start, &primary, batch)
            }
            _ => Ok(()),
        }
    }

    /// Reads the rows at these keys, as [`BatchScan::key`] returns them, and replaces the contents of `batch` with
    /// them. The position of the scan does not matter. Keys without a row are skipped.
    ///
    /// # Errors
    /// [`crate::Cause::SchemaChanged`] if the table was altered after the handle was opened.
    pub fn fill_keys<'k>(
        &self,
        reader: &impl ReadTables,
        keys: impl Iterator<Item = &'k [u8]>,
        batch: &mut Batch,
    ) -> Result<()> {
        batch.clear();
        self.table.check_cookie(reader)?;
        for key in keys {
            let found = reader.get_with(self.table.data(), key, |value| batch.push(key, &[], value));
            found.map_err(|error| self.table.with_table(error, None))?;
        }
        Ok(())
    }

    /// Reads the next rows of a range.
    fn fill_range(&mut self, reader: &impl ReadTables, most: usize, batch: &mut Batch) -> Result<()> {
        let open = self.open();
        let entries = open.map_or(self.table.data(), |open| &open.table);
        let end = self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let cursor = reader.cursor(entries, Span::between(Bound::Included(&self.start), end));
        let mut cursor = cursor.map_err(|error| self.table.with_table(error, open))?;
        let is_unread = open.is_none() && self.keys_only;
        let runs_on = !self.backwards && (open.is_none() || self.keys_only);
        while batch.len() < most && batch.bytes.len() < BATCH_BYTES {
            let entry = self.step(&mut cursor, is_unread);
            let Some((key, value)) = entry.map_err(|error| self.table.with_table(error, open))? else {
                self.is_done = true;
                break;
            };
            match open {
                Some(open) if !self.keys_only => self.push_row(reader, open, key, value, batch)?,
                _ => batch.push(key, &[], value),
            }
            if runs_on {
                let left = most - batch.len();
                let push = |front: &[u8], rest: &[u8], value: &[u8]| {
                    batch.push(front, rest, if is_unread { &[] } else { value });
                };
                cursor.run_on(left, push)?;
            }
        }
        let mut last = cursor.key().unwrap_or_default().to_vec();
        drop(cursor);
        if self.backwards {
            self.end = Some(last);
        } else {
            // The scan continues at the next possible key.
            last.push(0);
            self.start = last;
        }
        Ok(())
    }

    /// Moves to the next record. Its value is read only if it is needed.
    #[inline]
    fn step<'c>(
        &self,
        cursor: &'c mut impl RecordCursor,
        is_unread: bool,
    ) -> Result<Option<(&'c [u8], &'c [u8])>> {
        if is_unread {
            let is_there = if self.backwards { cursor.retreat()? } else { cursor.advance()? };
            return Ok(cursor.key().filter(|_| is_there).map(|key| (key, &[][..])));
        }
        if self.backwards { cursor.prev() } else { cursor.next() }
    }

    /// Adds the row that an entry leads to.
    fn push_row(
        &self,
        reader: &impl ReadTables,
        open: &OpenIndex,
        key: &[u8],
        value: &[u8],
        batch: &mut Batch,
    ) -> Result<()> {
        let primary = &self.table.primary_of(open, key, value)?[..];
        let found = reader.get_with(self.table.data(), primary, |row| batch.push(primary, &[], row));
        match found.map_err(|error| self.table.with_table(error, Some(open)))? {
            Some(()) => Ok(()),
            None => Err(self.table.bad_entry(open, key, "leads to no row")),
        }
    }

    /// Returns the value that [`BatchScan::value`] returns, if it is an integer that can be decoded quickly, as most
    /// integers can. After `None`, call [`BatchScan::value`].
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn integer(&self, batch: &mut Batch, row: usize, place: usize) -> Option<i64> {
        let (key, bytes, starts) = batch.look_at(row);
        match self.open() {
            Some(open) if self.keys_only => open.positions[place].as_ref()?.integer(key),
            _ => self.table.integer_at(key, bytes, place, starts),
        }
    }

    /// Returns the encoded primary key of a row of the batch, which [`DynamicTable::delete_at`] takes. It also returns
    /// the key of an entry whose row was not read.
    ///
    /// # Errors
    /// `Corruption` if the entry cannot be decoded.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn key<'b>(&self, batch: &'b mut Batch, row: usize) -> Result<&'b [u8]> {
        let (key, bytes, _) = batch.look_at(row);
        match self.open() {
            Some(open) if self.keys_only => match self.table.primary_of(open, key, bytes)? {
                Cow::Borrowed(primary) => Ok(primary),
                // Of SQLite's indexes, the rows are read.
                Cow::Owned(_) => Err(self.table.bad_entry(open, key, "has no primary key")),
            },
            _ => Ok(key),
        }
    }

    /// Returns the value of a row of the batch at `place` among the columns. If only an entry or a key was read, the
    /// value must be one that it contains. It is fastest to read the values of a row in the order of the columns; in
    /// any order, no byte is decoded twice.
    ///
    /// # Errors
    /// `Corruption` if the bytes that were decoded are not those of a row.
    ///
    /// # Panics
    /// If there is no such row, or if the value is not among those that were read.
    #[inline]
    pub fn value<'b>(&'b self, batch: &'b mut Batch, row: usize, place: usize) -> Result<Value<'b>> {
        let (key, bytes, starts) = batch.look_at(row);
        match self.open() {
            Some(open) if self.keys_only => self.value_of_entry(open, key, bytes, place),
            _ => self.table.value_at(key, bytes, place, starts),
        }
    }

    fn value_of_entry<'b>(
        &'b self,
        open: &'b OpenIndex,
        entry: &'b [u8],
        primary: &'b [u8],
        place: usize,
    ) -> Result<Value<'b>> {
        let inner = &*self.table.inner;
        let key_shapes = || inner.key.iter().map(|(_, shape)| *shape);
        let value = if let Some(position) = &open.positions[place] {
            position.read(entry, open.shapes.iter().copied())
        } else {
            let position = inner.positions[place].as_ref().expect("an entry is asked for what it gives back");
            if primary.is_empty() {
                let mut parts = Parts::new(entry);
                parts
                    .skip(open.shapes.iter().copied())
                    .and_then(|()| position.read(parts.rest(), key_shapes()))
            } else {
                position.read(primary, key_shapes())
            }
        };
        value.ok_or_else(|| self.table.bad_entry(open, entry, "cannot be decoded"))
    }
}

/// Returns the part numbered `number` of the primary key or of an index.
fn shape(table: &DynamicTable, open: Option<&OpenIndex>, number: usize) -> Option<Shape> {
    let parts = open.map_or(&table.inner.key, |open| &open.parts);
    parts.get(number).map(|(_, shape)| *shape)
}

impl DynamicTable {
    /// Returns the values of a primary key that is at or after the key of every row. It is the key of the last row, or
    /// of a deleted row that is not purged yet ([`ReadSnapshot::last_key_bound`]). O(log n).
    ///
    /// # Errors
    /// `Invalid` if a part of the key cannot be decoded into its value: one of type any, or text with a collation
    /// other than [`Collation::Binary`](crate::Collation::Binary). `Corruption` if the key that was found is not
    /// valid.
    pub fn last_key_bound(&self, snapshot: &impl ReadSnapshot) -> Result<Option<Vec<Value<'static>>>> {
        self.check_cookie(snapshot)?;
        if !self.has_decodable_keys() {
            let name = self.name();
            return Err(Error::invalid(format!(
                "table {name:?}: the values of its keys cannot be read back from the keys"
            )));
        }
        let bound = snapshot.last_key_bound(self.data()).map_err(|error| self.with_table(error, None))?;
        let Some(key) = bound else { return Ok(None) };
        let values = self.read_key(&key).ok_or_else(|| self.damaged_key(&key))?;
        Ok(Some(values.into_iter().map(Value::into_owned).collect()))
    }

    /// Returns whether the values of a key can be decoded from it.
    fn has_decodable_keys(&self) -> bool {
        let inner = &*self.inner;
        inner.sqlite.as_ref().is_none_or(|storage| storage.has_rowid())
            && inner.key.iter().all(|(_, shape)| shape.is_recoverable())
    }

    /// Decodes an encoded primary key, for messages. Returns `None` if the key is not valid, or if its values cannot be
    /// decoded from it.
    pub fn read_key<'k>(&self, key: &'k [u8]) -> Option<Vec<Value<'k>>> {
        if self.inner.sqlite.is_some() && !self.has_decodable_keys() {
            return None;
        }
        let mut parts = Parts::new(key);
        let values: Option<Vec<_>> = self.inner.key.iter().map(|(_, shape)| parts.next(*shape)).collect();
        values.filter(|_| parts.rest().is_empty())
    }
}

/// The first key of a range, and the key before which it ends.
type Keys = (Vec<u8>, Option<Vec<u8>>);

/// Returns the keys that begin with `prefix` followed by a part within bounds, or `None` if there can be none. `push`
/// appends the part.
fn within(
    prefix: &[u8],
    descending: bool,
    push: impl Fn(&mut Vec<u8>, &Value<'_>) -> Result<()>,
    lower: &Bound<Value<'_>>,
    upper: &Bound<Value<'_>>,
) -> Result<Option<Keys>> {
    let with = |value: &Value<'_>| {
        let mut key = prefix.to_vec();
        push(&mut key, value).map(|()| key)
    };
    let after = |key: Vec<u8>| pando::keys::prefix_end(&key);
    let (first, last) = if descending { (upper, lower) } else { (lower, upper) };
    // All keys with one value of the part begin with the same bytes.
    let start = match first {
        Bound::Unbounded => Some(prefix.to_vec()),
        Bound::Included(value) => Some(with(value)?),
        Bound::Excluded(value) => after(with(value)?),
    };
    let Some(start) = start else { return Ok(None) };
    let end = match last {
        Bound::Unbounded => after(prefix.to_vec()),
        Bound::Included(value) => after(with(value)?),
        Bound::Excluded(value) => Some(with(value)?),
    };
    let is_empty = end.as_ref().is_some_and(|end| *end <= start);
    Ok((!is_empty).then_some((start, end)))
}
