//! Reading rows: by key, in the order of the primary key, or in the order of an index.

use crate::sqlite::Storage;
use crate::table::{DynamicRow, DynamicTable, OpenIndex};
use crate::value::Value;
use pando::{Error, ErrorKind, ReadTables, RecordCursor, Result, Span};
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;

/// A range of the primary key or of an index, and the direction in which it is read.
///
/// A bound is the values of some first parts, in the order of the key: in a descending part, larger values come
/// first. An included bound contains all keys that begin with its values; an excluded one contains none of them.
///
/// ```
/// use pando_rows::{KeyRange, Value};
/// use std::ops::Bound;
/// let town = [Value::from("Ulm")];
/// let of_a_town = KeyRange::prefix(&town);
/// let (adults, all) = ([Value::from("Ulm"), Value::from(18)], [Value::from("Ulm")]);
/// let oldest_first = KeyRange::between(Bound::Included(&adults), Bound::Included(&all)).backwards();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct KeyRange<'a> {
    low: Bound<&'a [Value<'a>]>,
    high: Bound<&'a [Value<'a>]>,
    backwards: bool,
    beyond: Option<Position>,
}

/// The position of a scan: the key of the last row or index entry that it returned. It is valid until the schema
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position(Vec<u8>);

impl Position {
    /// Returns the position as bytes, which you can store outside of the program.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Creates a position from the bytes of [`Position::as_bytes`]. Other bytes are harmless: they make a position
    /// between rows.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Position(bytes)
    }
}

impl<'a> KeyRange<'a> {
    /// Returns the range of all rows.
    pub fn all() -> Self {
        Self::between(Bound::Unbounded, Bound::Unbounded)
    }

    /// Returns the range of rows whose key begins with these values.
    pub fn prefix(values: &'a [Value<'a>]) -> Self {
        Self::between(Bound::Included(values), Bound::Included(values))
    }

    /// Returns the range between two bounds.
    pub fn between(low: Bound<&'a [Value<'a>]>, high: Bound<&'a [Value<'a>]>) -> Self {
        KeyRange { low, high, backwards: false, beyond: None }
    }

    /// Reverses the range: it is read from the last row to the first.
    pub fn backwards(self) -> Self {
        KeyRange { backwards: true, ..self }
    }

    /// Limits the range to the rows after the position of an earlier scan, to continue in another transaction or after
    /// writing.
    pub fn beyond(self, position: Position) -> Self {
        KeyRange { beyond: Some(position), ..self }
    }

    pub(crate) fn span(&self, table: &DynamicTable, index: Option<&OpenIndex>) -> Result<Span> {
        let bytes = |values| table.prefix_bytes(index, values);
        let mut low = match self.low {
            Bound::Unbounded => Vec::new(),
            Bound::Included(values) => bytes(values)?,
            Bound::Excluded(values) => match pando::keys::prefix_end(&bytes(values)?) {
                Some(end) => end,
                None => return Ok(nothing()),
            },
        };
        let mut high = match self.high {
            Bound::Unbounded => None,
            Bound::Included(values) => pando::keys::prefix_end(&bytes(values)?),
            Bound::Excluded(values) => Some(bytes(values)?),
        };
        match &self.beyond {
            Some(Position(key)) if self.backwards => {
                high = Some(high.map_or(key.clone(), |high| high.min(key.clone())));
            }
            Some(Position(key)) => low = low.max([key, &[0][..]].concat()),
            None => {}
        }
        if high.as_ref().is_some_and(|high| *high <= low) {
            return Ok(nothing());
        }
        Ok(Span::from((Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded))))
    }
}

fn nothing() -> Span {
    Span::from([]..[0u8; 0])
}

impl DynamicTable {
    /// Returns the row at a primary key, or `None` if there is none.
    ///
    /// # Errors
    /// `Missing` with [`crate::Cause::SchemaChanged`] if the handle is stale; `Corruption` if the row is damaged;
    /// `Invalid` if the values are not a key of this table.
    pub fn get(&self, reader: &impl ReadTables, key: &[Value<'_>]) -> Result<Option<DynamicRow>> {
        self.get_with(reader, key, |row| row.into_iter().map(Value::into_owned).collect())
    }

    /// Calls `with` on the row at a primary key, borrowed without a copy, and returns its result, or `None` if there is
    /// no such row.
    pub fn get_with<T>(
        &self,
        reader: &impl ReadTables,
        key: &[Value<'_>],
        with: impl FnOnce(Vec<Value<'_>>) -> T,
    ) -> Result<Option<T>> {
        let key = self.key_bytes(key)?;
        self.check_cookie(reader)?;
        self.get_bytes(reader, &key, with)
    }

    pub(crate) fn get_bytes<T>(
        &self,
        reader: &impl ReadTables,
        key: &[u8],
        with: impl FnOnce(Vec<Value<'_>>) -> T,
    ) -> Result<Option<T>> {
        let found = reader.get_with(&self.inner.data, key, |bytes| self.decode(key, bytes).map(with));
        found.map_err(|error| self.with_table(error, None))?.transpose()
    }

    /// Returns whether there is a row at a primary key.
    pub fn contains(&self, reader: &impl ReadTables, key: &[Value<'_>]) -> Result<bool> {
        let key = self.key_bytes(key)?;
        self.check_cookie(reader)?;
        let found = reader.get_with(&self.inner.data, &key, |_| ());
        Ok(found.map_err(|error| self.with_table(error, None))?.is_some())
    }

    /// Returns the rows of a range in the order of the primary key.
    pub fn scan<'r, R: ReadTables>(&self, reader: &'r R, range: &KeyRange<'_>) -> Result<Scan<'r, R>> {
        self.check_cookie(reader)?;
        self.scan_in(reader, None, range)
    }

    /// Checks, for a table that SQLite made, that its definition is the one that the handle knows. It costs a get.
    #[inline]
    pub(crate) fn check_cookie(&self, reader: &impl ReadTables) -> Result<()> {
        match &self.inner.sqlite {
            None => Ok(()),
            Some(storage) => self.compare_cookie(reader, storage),
        }
    }

    fn compare_cookie(&self, reader: &impl ReadTables, storage: &Storage) -> Result<()> {
        let stale = || Error::new(ErrorKind::Missing, "its definition has changed");
        let compared = storage.is_current(reader).and_then(|is| if is { Ok(()) } else { Err(stale()) });
        compared.map_err(|error| self.with_table(error, None))
    }

    /// Checks that the handle is not stale. The engine checks it with a look-up; no row has this key.
    pub(crate) fn check_handle(&self, reader: &impl ReadTables) -> Result<()> {
        self.check_cookie(reader)?;
        let checked = reader.get_with(&self.inner.data, b"", |_| ());
        checked.map(drop).map_err(|error| self.with_table(error, None))
    }

    /// Returns the rows of a range in the order of an index. Rows with the same values in the index are in the order of
    /// the primary key.
    ///
    /// # Errors
    /// `Missing` if there is no such index; `Invalid` while it is being built.
    pub fn scan_index<'r, R: ReadTables>(
        &self,
        reader: &'r R,
        index: &str,
        range: &KeyRange<'_>,
    ) -> Result<Scan<'r, R>> {
        // An index has no version in its name: only the table of the rows shows whether the handle is stale, which may
        // also be the reason why it does not know the index.
        self.check_handle(reader)?;
        self.open_index(index)?;
        let place = self.inner.indexes.iter().position(|open| open.index.name == index);
        self.scan_in(reader, place, range)
    }

    fn scan_in<'r, R: ReadTables>(
        &self,
        reader: &'r R,
        index: Option<usize>,
        range: &KeyRange<'_>,
    ) -> Result<Scan<'r, R>> {
        let open = index.map(|place| &self.inner.indexes[place]);
        let span = range.span(self, open)?;
        let source = open.map_or(&self.inner.data, |open| &open.table);
        let near = reader.cursor(source, span).map_err(|error| self.with_table(error, None))?;
        let (far, backwards) = (None, range.backwards);
        Ok(Scan { table: self.clone(), reader, near, far, index, backwards, is_over: false })
    }

    /// Returns the number of rows in a range of the primary key or of an index. O(rows), but rows in pages that no
    /// newer rows overlap are counted page by page.
    pub fn count(&self, reader: &impl ReadTables, index: Option<&str>, range: &KeyRange<'_>) -> Result<u64> {
        let mut scan = match index {
            Some(index) => self.scan_index(reader, index, range)?,
            None => self.scan(reader, range)?,
        };
        let mut count = 0;
        while let passed @ 1.. = scan.near.skip(usize::MAX)? {
            count += passed as u64;
        }
        Ok(count)
    }
}

/// An iterator over the rows of a range. It can be consumed from both ends, and ends where they meet. The error of a
/// damaged row does not end the scan: the next call returns the row after it.
#[must_use = "a scan reads rows only as it is iterated"]
pub struct Scan<'r, R: ReadTables> {
    table: DynamicTable,
    reader: &'r R,
    /// The end that `next` takes from.
    near: R::Cursor<'r>,
    /// The other end, after its first use.
    far: Option<R::Cursor<'r>>,
    index: Option<usize>,
    backwards: bool,
    /// Whether an end has found nothing, or has met the other end.
    is_over: bool,
}

impl<'r, R: ReadTables> Scan<'r, R> {
    /// Moves to the next row and calls `with` on it, borrowed. Returns the result of `with`, or `None` at the end.
    pub fn next_with<T>(&mut self, with: impl FnOnce(Vec<Value<'_>>) -> T) -> Result<Option<T>> {
        self.take(false, with)
    }

    /// Moves back from the other end to the next row there and calls `with` on it, borrowed. Returns the result of
    /// `with`, or `None` where the ends meet.
    pub fn next_back_with<T>(&mut self, with: impl FnOnce(Vec<Value<'_>>) -> T) -> Result<Option<T>> {
        self.take(true, with)
    }

    /// Moves one end to its next row, unless it meets the other end, and calls `with` on the row.
    fn take<T>(&mut self, far: bool, with: impl FnOnce(Vec<Value<'_>>) -> T) -> Result<Option<T>> {
        if self.is_over {
            return Ok(None);
        }
        if far && self.far.is_none() {
            self.far = Some(self.open_far()?);
        }
        let Scan { table, reader, near, far: other, index, backwards, is_over } = self;
        let (cursor, limit) = match other {
            Some(other) if far => (other, near.key()),
            other => (near, other.as_ref().and_then(R::Cursor::key)),
        };
        let forward = far == *backwards;
        let is_left = |key: &[u8]| limit.is_none_or(|limit| if forward { key < limit } else { key > limit });
        let record = if forward { cursor.next()? } else { cursor.prev()? };
        let Some((key, value)) = record.filter(|(key, _)| is_left(key)) else {
            *is_over = true;
            return Ok(None);
        };
        let Some(place) = *index else { return table.decode(key, value).map(|row| Some(with(row))) };
        let open = &table.inner.indexes[place];
        let primary = table.primary_of(open, key, value)?;
        match table.get_bytes(*reader, &primary, with)? {
            Some(found) => Ok(Some(found)),
            None => Err(table.bad_entry(open, key, "leads to no row; run `check` to list all such entries")),
        }
    }

    #[cold]
    fn open_far(&self) -> Result<R::Cursor<'r>> {
        let inner = &self.table.inner;
        let source = self.index.map_or(&inner.data, |place| &inner.indexes[place].table);
        let cursor = self.reader.cursor(source, self.near.span().clone());
        cursor.map_err(|error| self.table.with_table(error, None))
    }

    /// Returns the next row, or `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<DynamicRow>> {
        self.next_with(|row| row.into_iter().map(Value::into_owned).collect())
    }

    /// Returns the position for [`KeyRange::beyond`], or `None` before the first row and after the last. Rows that were
    /// taken from the back do not count.
    pub fn position(&self) -> Option<Position> {
        self.near.key().filter(|_| !self.is_over).map(|key| Position(key.to_vec()))
    }
}

impl<R: ReadTables> Iterator for Scan<'_, R> {
    type Item = Result<DynamicRow>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

impl<R: ReadTables> DoubleEndedIterator for Scan<'_, R> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_back_with(|row| row.into_iter().map(Value::into_owned).collect()).transpose()
    }
}

impl<R: ReadTables> FusedIterator for Scan<'_, R> {}

impl<R: ReadTables> fmt::Debug for Scan<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.name();
        f.debug_struct("Scan").field("table", &table).field("index", &self.index).finish_non_exhaustive()
    }
}
