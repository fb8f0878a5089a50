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
use crate::definition::Part;
use crate::key::{self, Parts, Shape};
use crate::part_position::PartPosition;
use crate::row::{self, Layout};
use crate::schema::{Index, Schema};
use crate::sqlite::{IndexStorage, Storage};
use crate::value::Value;
use pando::{Error, ErrorKind, Result, Table, WriteTables};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A row as values, in the order of the columns.
pub type DynamicRow = Vec<Value<'static>>;

/// A handle on a typed table with one version of its schema. A clone is cheap. After the schema has changed, every call
/// fails with [`Cause::SchemaChanged`]; open the table again.
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
    pub columns: Vec<crate::Column>,
    /// The columns that rows of the present version store.
    pub stored: Layout,
    /// The layouts of older versions, each created when a row of it is first read, by the first version with these
    /// columns.
    pub older: BTreeMap<u32, OnceLock<Layout>>,
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

    /// Returns the columns of the primary key, in its order, each with its place in a row.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # use pando_rows::{Column, ColumnType, Definition, DynamicTable};
    /// # let db = pando::Database::builder().in_memory()?;
    /// let definition = Definition::new("people")
    ///     .column(Column::new("name", ColumnType::Text))
    ///     .column(Column::new("id", ColumnType::Int))
    ///     .key(["id"]);
    /// let people = db.write(|tx| DynamicTable::create(tx, &definition))?;
    /// let key: Vec<_> = people.key_columns().map(|(place, column)| (place, column.name())).collect();
    /// assert_eq!(key, [(1, "id")]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_columns(&self) -> impl Iterator<Item = (usize, &crate::Column)> {
        self.inner.key.iter().map(|&(place, _)| (place, &self.inner.columns[place]))
    }

    /// Returns the engine's table of the rows, for sizes and statistics. Do not write to it: that breaks the indexes.
    pub fn data(&self) -> &Table {
        &self.inner.data
    }

    /// Returns the engine's table of an index, for sizes and statistics, or `None` if there is no such index.
    pub fn index_data(&self, index: &str) -> Option<&Table> {
        self.inner.indexes.iter().find(|known| known.index.name == index).map(|known| &known.table)
    }

    /// Checks count, types and nulls of a row.
    #[inline]
    pub(crate) fn check_row(&self, row: &(impl Columns + ?Sized)) -> Result<()> {
        self.check_row_but(row, None)
    }

    /// Checks count, types and nulls of a row, except for the value at the place `but`.
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
                let message = format!(
                    "table {table:?}: column {name:?} is of type {kind}, but got {value} of type {is}"
                );
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
            let value = self.part_value(part, row.value(*place))?;
            has_null |= value.is_null();
            key::push(&mut key, *shape, &value)?;
        }
        if open.index.unique && !has_null {
            return Ok(Entry { key, value: primary.to_vec() });
        }
        key.extend_from_slice(primary);
        Ok(Entry { key, value: Vec::new() })
    }

    /// Returns the value of a part of an index, given that of its column.
    fn part_value<'v>(&self, part: &Part, column: Value<'v>) -> Result<Value<'v>> {
        let Some(path) = &part.path else { return Ok(column) };
        crate::json::at_path(&column, path).ok_or_else(|| {
            let (table, column) = (self.name().to_owned(), part.column.clone());
            let message = format!("table {table:?}: column {column:?} is not JSON");
            Cause::WrongType { table, column }.error(message)
        })
    }

    /// Returns the values of a row in an index: those of its columns, and those at its paths in documents.
    ///
    /// # Errors
    /// `Missing` if there is no such index; `Invalid` if a document is not JSON.
    ///
    /// # Panics
    /// If `row` has fewer values than the table has columns.
    pub fn index_values<'v>(&self, index: &str, row: &'v [Value<'_>]) -> Result<Vec<Value<'v>>> {
        let open = self.open_index(index)?;
        let parts = open.index.parts.iter().zip(&open.parts);
        parts.map(|(part, (place, _))| self.part_value(part, row[*place].borrowed())).collect()
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
