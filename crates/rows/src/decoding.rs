//! Decoding of rows and keys of a [`DynamicTable`], and the errors about bytes that are none.

use crate::key::Parts;
use crate::row::{self, Layout};
use crate::sqlite::Problem;
use crate::table::{DynamicRow, DynamicTable, OpenIndex};
use crate::value::Value;
use pando::{Error, Result};

impl DynamicTable {
    /// Decodes a row.
    pub(crate) fn decode<'a>(&'a self, key: &'a [u8], bytes: &'a [u8]) -> Result<Vec<Value<'a>>> {
        if let Some(storage) = &self.inner.sqlite {
            return storage.decode(key, bytes).map_err(|problem| self.problem(problem, None, key));
        }
        let mut row: Vec<Value<'a>> = vec![Value::Null; self.inner.columns.len()];
        let layout = self.layout_of(key, bytes)?;
        if !std::ptr::eq(layout, &self.inner.stored) {
            // A column that the row lacks has its default.
            for (place, column) in self.inner.columns.iter().enumerate() {
                row[place] = column.default.clone().unwrap_or(Value::Null);
            }
        }
        row::decode(bytes, layout, |place, value| row[place] = value).ok_or_else(|| self.damaged_row(key))?;
        let mut parts = Parts::new(key);
        for (place, shape) in &self.inner.key {
            let value = parts.next(*shape).ok_or_else(|| self.damaged_key(key))?;
            if shape.is_recoverable() {
                row[*place] = value;
            }
        }
        match parts.rest() {
            [] => Ok(row),
            _ => Err(self.damaged(key, "its key is longer than a key of this table can be")),
        }
    }

    /// Returns whether the values of a primary key follow from its bytes.
    pub(crate) fn has_recoverable_key(&self) -> bool {
        match &self.inner.sqlite {
            Some(storage) => storage.has_rowid(),
            None => self.inner.key.iter().all(|(_, shape)| shape.is_recoverable()),
        }
    }

    /// Decodes a primary key, if its values follow from its bytes.
    pub(crate) fn decode_key(&self, key: &[u8]) -> Result<Option<DynamicRow>> {
        if !self.has_recoverable_key() {
            return Ok(None);
        }
        let mut parts = Parts::new(key);
        let values = self.inner.key.iter().map(|(_, shape)| parts.next(*shape).map(Value::into_owned));
        let values = values.collect::<Option<_>>().filter(|_: &DynamicRow| parts.rest().is_empty());
        values.map(Some).ok_or_else(|| self.damaged_key(key))
    }

    /// Returns the value of a row at `place` if it is an integer that can be decoded quickly. `None`: call
    /// [`DynamicTable::value_at`].
    #[inline]
    pub(crate) fn integer_at(
        &self,
        key: &[u8],
        bytes: &[u8],
        place: usize,
        starts: &mut Vec<usize>,
    ) -> Option<i64> {
        let inner = &*self.inner;
        if let Some(position) = &inner.positions[place] {
            return position.integer(key);
        }
        if inner.sqlite.is_some() {
            return None;
        }
        let is_present = row::version_of(bytes) == Some(inner.schema.version);
        let at = inner.stored.at(place).filter(|_| is_present)?;
        inner.stored.integer(bytes, at, starts)
    }

    /// Returns the value of a row at `place`, decoded alone. `starts` is for [`Layout::value`].
    ///
    /// # Errors
    /// `Corruption` if the bytes that it reads are not those of a row.
    #[inline]
    pub(crate) fn value_at<'a>(
        &'a self,
        key: &'a [u8],
        bytes: &'a [u8],
        place: usize,
        starts: &mut Vec<usize>,
    ) -> Result<Value<'a>> {
        let inner = &*self.inner;
        if let Some(position) = &inner.positions[place] {
            let value = position.read(key, inner.key.iter().map(|(_, shape)| *shape));
            return value.ok_or_else(|| self.damaged_key(key));
        }
        if let Some(storage) = &inner.sqlite {
            let value = storage.value_at(key, bytes, place);
            return value.map_err(|problem| self.problem(problem, None, key));
        }
        let layout = self.layout_of(key, bytes)?;
        match layout.at(place) {
            Some(at) => layout.value(bytes, at, starts).ok_or_else(|| self.damaged_row(key)),
            None => Ok(inner.columns[place].default.as_ref().map_or(Value::Null, Value::borrowed)),
        }
    }

    /// Returns the layout of a row by its version.
    #[inline]
    fn layout_of(&self, key: &[u8], bytes: &[u8]) -> Result<&Layout> {
        match row::version_of(bytes) {
            Some(version) if version == self.inner.schema.version => Ok(&self.inner.stored),
            version => self.older_layout(key, version),
        }
    }

    /// Returns the layout of rows of an older version.
    #[cold]
    fn older_layout(&self, key: &[u8], version: Option<u32>) -> Result<&Layout> {
        let inner = &*self.inner;
        let version = version.ok_or_else(|| self.damaged(key, "it has no version"))?;
        if version == 0 || version > inner.schema.version {
            let newest = inner.schema.version;
            return Err(
                self.damaged(key, &format!("it has schema version {version}, but the newest is {newest}"))
            );
        }
        let first = inner.older.range(..=version).next_back().expect("there is a first version");
        Ok(first.1.get_or_init(|| inner.schema.layout(*first.0)))
    }

    #[cold]
    pub(crate) fn damaged_key(&self, key: &[u8]) -> Error {
        self.damaged(key, "its key is not a key of this table")
    }

    /// Returns the error for what is wrong in a table of SQLite's.
    #[cold]
    pub(crate) fn problem(&self, problem: Problem, index: Option<&OpenIndex>, key: &[u8]) -> Error {
        let index = index.map(|open| &open.index.name[..]);
        problem.error(self.name(), &self.inner.columns, index, key)
    }

    #[cold]
    pub(crate) fn damaged_row(&self, key: &[u8]) -> Error {
        self.damaged(key, "its bytes are not those of a row")
    }

    #[cold]
    fn damaged(&self, key: &[u8], what: &str) -> Error {
        let (table, key) = (self.name(), key.escape_ascii());
        Error::corruption(format!("typed table {table:?}, the row at key \"{key}\": {what}"))
    }
}
