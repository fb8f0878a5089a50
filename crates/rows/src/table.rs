//! A typed table with its schema: [`DynamicTable`], and the encoding of rows and index entries.
//!
//! A row is a record of the engine's table: `key.rs` encodes its primary key, and `row.rs` the rest. An index is a
//! table of its own with an entry for each row:
//!
//! | index | key | value |
//! |---|---|---|
//! | not unique, or with a null in it | parts, primary key | nothing |
//! | unique | parts | primary key |

use crate::cause::Cause;
use crate::columns::Columns;
use crate::key::{self, Parts, Shape};
use crate::part_position::PartPosition;
use crate::row::{self, Layout};
use crate::schema::{Index, Schema};
use crate::sqlite::{IndexStorage, Problem, Storage};
use crate::value::Value;
use pando::{Error, ErrorKind, Result, Table, WriteTables};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A row as values, in the order of the columns.
pub type DynamicRow = Vec<Value<'static>>;

/// A handle of a typed table with one version of its schema. Cloning is cheap. After the schema has changed, every
/// call fails with [`Cause::SchemaChanged`]; open the table again.
#[derive(Clone, Debug)]
pub struct DynamicTable {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub schema: Schema,
    /// The engine's table of the rows.
    pub data: Table,
    /// The places in rows and the shapes of the primary key's parts.
    pub key: Vec<(usize, Shape)>,
    /// For each place, the position of its value in the key; `None`: the value is in the row.
    pub positions: Vec<Option<PartPosition>>,
    pub indexes: Vec<OpenIndex>,
    /// Names and types of the present columns, for checks.
    columns: Vec<crate::Column>,
    /// The columns that rows of the present version store.
    stored: Layout,
    /// The layouts of older versions, each created when a row of it is first read, by the first version with these
    /// columns.
    older: BTreeMap<u32, OnceLock<Layout>>,
    /// How rows are stored, if SQLite made the table.
    pub sqlite: Option<Box<Storage>>,
}

/// An index that is ready for writing.
#[derive(Debug)]
pub(crate) struct OpenIndex {
    pub index: Index,
    pub table: Table,
    /// The place of the column and the shape of each part.
    pub parts: Vec<(usize, Shape)>,
    pub shapes: Vec<Shape>,
    /// For each place, the position of its value among an entry's own parts; `None`: an entry does not have it.
    pub positions: Vec<Option<PartPosition>>,
    /// How entries are stored, if SQLite made the index.
    pub sqlite: Option<IndexStorage>,
}

/// The entry of a row in an index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl DynamicTable {
    /// Returns a handle on a table whose parts are known.
    pub(crate) fn assemble(schema: Schema, data: Table, indexes: Vec<Table>) -> Self {
        let places = |parts: &[crate::Part], shapes: &[Shape]| {
            let place = |part: &crate::Part| schema.place(&part.column).expect("parts were checked");
            parts.iter().map(place).zip(shapes.iter().copied()).collect::<Vec<_>>()
        };
        let key = places(&schema.key, &schema.key_shapes());
        let count = schema.columns().count();
        let open = |(index, table): (&Index, Table)| {
            let shapes = schema.shapes(&index.parts, true);
            let parts = places(&index.parts, &shapes);
            // The value of a part with a path is not that of its column.
            let plain = index.parts.iter().take_while(|part| part.pointer().is_none()).count();
            let positions = positions(count, &parts[..plain]);
            OpenIndex { index: index.clone(), table, parts, shapes, positions, sqlite: None }
        };
        let indexes = schema.indexes().iter().zip(indexes).map(open).collect();
        let columns = schema.columns().cloned().collect();
        let stored = schema.layout(schema.version);
        let positions = positions(count, &key);
        let changes = schema.columns.iter().flat_map(|column| [Some(column.added), column.dropped]);
        let older = changes.flatten().chain([1]).map(|version| (version, OnceLock::new())).collect();
        DynamicTable {
            inner: Arc::new(Inner {
                data,
                key,
                positions,
                indexes,
                columns,
                stored,
                older,
                schema,
                sqlite: None,
            }),
        }
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        self.inner.schema.name()
    }

    /// Returns the engine's table of the rows, for sizes and statistics. Writing to it breaks the indexes.
    pub fn data(&self) -> &Table {
        &self.inner.data
    }

    /// Returns the engine's table of an index, for sizes and statistics.
    pub fn index_data(&self, index: &str) -> Option<&Table> {
        self.inner.indexes.iter().find(|known| known.index.name == index).map(|known| &known.table)
    }

    /// Checks count, types and nulls of a row.
    #[inline]
    pub(crate) fn check_row(&self, row: &(impl Columns + ?Sized)) -> Result<()> {
        self.check_row_but(row, None)
    }

    /// Does the same, apart from the value at one place.
    #[inline]
    pub(crate) fn check_row_but(&self, row: &(impl Columns + ?Sized), but: Option<usize>) -> Result<()> {
        let columns = &self.inner.columns;
        if row.count() != columns.len() {
            let (is, should) = (row.count(), columns.len());
            let message = format!(
                "table {:?}: the row has {is} values, but the table has {should} columns",
                self.name()
            );
            return Err(Cause::WrongCount { table: self.name().to_owned() }.error(message));
        }
        for (place, column) in columns.iter().enumerate() {
            let fits = row.look_at(place, |value| match value {
                Value::Null => column.is_nullable(),
                value => column.kind.holds(value),
            });
            if !fits && but != Some(place) {
                return Err(self.misfit(column, &row.value(place)));
            }
        }
        Ok(())
    }

    #[cold]
    fn misfit(&self, column: &crate::Column, value: &Value<'_>) -> Error {
        let (table, name, kind) = (self.name().to_owned(), column.name.clone(), column.kind);
        match value.column_type() {
            None => {
                let message = format!("table {table:?}: column {name:?} is null");
                Cause::Null { table, column: name }.error(message)
            }
            Some(is) => {
                let message =
                    format!("table {table:?}: column {name:?} is of type {kind}, and {value} of type {is}");
                Cause::WrongType { table, column: name }.error(message)
            }
        }
    }

    /// Returns the primary key of a row that was checked.
    pub(crate) fn key_of(&self, row: &(impl Columns + ?Sized)) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(16);
        self.push_key(&mut out, row)?;
        Ok(out)
    }

    /// Appends the primary key of a row that was checked.
    pub(crate) fn push_key(&self, out: &mut Vec<u8>, row: &(impl Columns + ?Sized)) -> Result<()> {
        let mut parts = self.inner.key.iter();
        parts.try_for_each(|(place, shape)| row.look_at(*place, |value| key::push(out, *shape, value)))
    }

    /// Encodes a whole primary key as the engine stores it.
    ///
    /// # Errors
    /// `Invalid` with a [`Cause`] if the values are not a key of this table.
    pub fn key_bytes(&self, key: &[Value<'_>]) -> Result<Vec<u8>> {
        if key.len() != self.inner.key.len() {
            let (is, should) = (key.len(), self.inner.key.len());
            let message = format!(
                "table {:?}: the key has {is} values, but the primary key has {should} columns",
                self.name()
            );
            return Err(Cause::WrongCount { table: self.name().to_owned() }.error(message));
        }
        self.prefix_bytes(None, key)
    }

    /// Returns the bytes of the first parts of the primary key, or of an index.
    pub(crate) fn prefix_bytes(&self, index: Option<&OpenIndex>, key: &[Value<'_>]) -> Result<Vec<u8>> {
        let parts = index.map_or(&self.inner.key, |index| &index.parts);
        if key.len() > parts.len() {
            let (is, most) = (key.len(), parts.len());
            let message =
                format!("table {:?}: there are {is} values, but the key has only {most} parts", self.name());
            return Err(Cause::WrongCount { table: self.name().to_owned() }.error(message));
        }
        let mut out = Vec::with_capacity(16);
        for (number, (value, (place, shape))) in key.iter().zip(parts).enumerate() {
            let pushed = self.push_part(&mut out, index, number, *shape, value);
            pushed.map_err(|error| match Cause::in_error(&error) {
                Some(_) => error,
                None => self.misfit(&self.inner.columns[*place], value),
            })?;
        }
        Ok(out)
    }

    /// Appends part `number` of the primary key, or of an index.
    #[inline]
    pub(crate) fn push_part(
        &self,
        out: &mut Vec<u8>,
        index: Option<&OpenIndex>,
        number: usize,
        shape: Shape,
        value: &Value<'_>,
    ) -> Result<()> {
        let Some(storage) = &self.inner.sqlite else { return key::push(out, shape, value) };
        // The check of the type is that of every key.
        key::push(&mut Vec::new(), shape, value)?;
        let pushed = match index.and_then(|open| open.sqlite.as_ref()) {
            Some(index) => storage.push_in_index(index, out, number, value),
            None if storage.has_rowid() => return key::push(out, shape, value),
            None => storage.push(out, number, value),
        };
        pushed.map_err(|problem| self.problem(problem, index, out))
    }

    /// Returns the stored part of a row that was checked: what its key does not contain.
    pub(crate) fn row_bytes(&self, row: &(impl Columns + ?Sized)) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        self.push_row(&mut out, row);
        out
    }

    /// Appends the stored part of a row that was checked.
    pub(crate) fn push_row(&self, out: &mut Vec<u8>, row: &(impl Columns + ?Sized)) {
        row::encode(out, self.inner.schema.version, &self.inner.stored, row);
    }

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

    /// Returns the entry of a row in an index.
    pub(crate) fn entry(
        &self,
        open: &OpenIndex,
        row: &(impl Columns + ?Sized),
        primary: &[u8],
    ) -> Result<Entry> {
        let mut key = Vec::with_capacity(24);
        let mut has_null = false;
        for (part, (place, shape)) in open.index.parts.iter().zip(&open.parts) {
            let column = row.value(*place);
            let value = match &part.path {
                None => column,
                Some(path) => crate::json::at_path(&column, path).ok_or_else(|| {
                    let (table, column) = (self.name().to_owned(), part.column.clone());
                    let message = format!("table {table:?}: column {column:?} is not JSON");
                    Cause::WrongType { table, column }.error(message)
                })?,
            };
            has_null |= value.is_null();
            key::push(&mut key, *shape, &value)?;
        }
        if open.index.unique && !has_null {
            return Ok(Entry { key, value: primary.to_vec() });
        }
        key.extend_from_slice(primary);
        Ok(Entry { key, value: Vec::new() })
    }

    /// Returns the primary key that an entry of an index leads to.
    pub(crate) fn primary_of<'e>(
        &self,
        open: &OpenIndex,
        key: &'e [u8],
        value: &'e [u8],
    ) -> Result<Cow<'e, [u8]>> {
        if let (Some(storage), Some(index)) = (&self.inner.sqlite, &open.sqlite) {
            let primary = storage.primary(index, key, value);
            return primary.map(Cow::Owned).map_err(|problem| self.problem(problem, Some(open), key));
        }
        if !value.is_empty() {
            return Ok(Cow::Borrowed(value));
        }
        let mut parts = Parts::new(key);
        let skipped = parts.skip(open.shapes.iter().copied());
        skipped
            .map(|()| Cow::Borrowed(parts.rest()))
            .ok_or_else(|| self.bad_entry(open, key, "cannot be decoded"))
    }

    #[cold]
    pub(crate) fn bad_entry(&self, open: &OpenIndex, key: &[u8], what: &str) -> Error {
        let (table, index, key) = (self.name(), &open.index.name, key.escape_ascii());
        Error::corruption(format!("typed table {table:?}, index {index:?}: the entry \"{key}\" {what}"))
    }

    /// Returns the index of that name, for reading.
    pub(crate) fn open_index(&self, name: &str) -> Result<&OpenIndex> {
        let (table, indexes) = (self.name(), &self.inner.indexes);
        match indexes.iter().find(|open| open.index.name == name) {
            Some(open) if open.index.building => {
                Err(Error::invalid(format!("table {table:?}: index {name:?} is still being built")))
            }
            Some(open) => Ok(open),
            None => Err(Error::new(ErrorKind::Missing, format!("table {table:?} has no index {name:?}"))),
        }
    }

    /// Adds this table's name, and that of `index`, to an error of the engine.
    #[cold]
    pub(crate) fn with_table(&self, error: Error, index: Option<&OpenIndex>) -> Error {
        let table = self.name().to_owned();
        match error.kind() {
            ErrorKind::Missing => {
                let message = format!(
                    "typed table {table:?} was altered or dropped after this handle was opened, or \
                     created after the snapshot; open the table again"
                );
                Cause::SchemaChanged { table }.error(message)
            }
            ErrorKind::Invalid if Cause::in_error(&error).is_none() => {
                let index = index.map(|open| open.index.name.clone());
                let message = format!("table {table:?}: {error}");
                Cause::TooLong { table, index }.error(message)
            }
            _ => error,
        }
    }

    /// Returns the error that a row's key, or its entry in a unique index, exists already.
    #[cold]
    pub(crate) fn duplicate(&self, index: Option<&OpenIndex>, row: &(impl Columns + ?Sized)) -> Error {
        let parts = index.map_or(&self.inner.key, |open| &open.parts);
        let names = parts.iter().map(|(place, _)| self.inner.columns[*place].name.clone());
        let values: Vec<_> = parts.iter().map(|(place, _)| row.value(*place).to_string()).collect();
        let (table, columns) = (self.name().to_owned(), names.collect());
        let message = format!("table {table:?} has a row with ({}) already", values.join(", "));
        let index = index.map(|open| open.index.name.clone());
        Cause::Duplicate { table, index, columns }.error(message)
    }
}

/// Returns, for each place, the position of its value in a key of these parts.
fn positions(count: usize, parts: &[(usize, Shape)]) -> Vec<Option<PartPosition>> {
    let mut positions = vec![None; count];
    for (number, (place, _)) in parts.iter().enumerate() {
        let position = PartPosition::locate(parts.iter().map(|(_, shape)| *shape), number);
        positions[*place] = positions[*place].or(position);
    }
    positions
}

/// Runs `work`. If it fails, its writes are undone and the rest of the transaction stays as it was.
pub(crate) fn atomically<W: WriteTables, T>(tx: &mut W, work: impl FnOnce(&mut W) -> Result<T>) -> Result<T> {
    let savepoint = tx.savepoint();
    let done = work(tx);
    if done.is_err() {
        tx.rollback_to(&savepoint)?;
    }
    tx.release(&savepoint)?;
    done
}
