//! The schema of a typed table: its columns, primary key and indexes.
//!
//! Every schema, from a definition or from the catalog, must have these properties ([`Schema::check`]):
//! 1. It has at least one column, and a primary key of one or more columns, none of which is nullable, a document or at
//!    a path.
//! 2. The names of present columns differ, and so do those of indexes. Parts of keys and indexes are present columns.
//! 3. A part with a collation has type text or any. A part with a path is of a document, and a part without one is not.
//! 4. A default has its column's type. A column that was added after the table was created is nullable or has a
//!    default.
//!
//! A dropped column stays, without a name, so that older rows can be read. `codec.rs` defines the bytes.

use crate::definition::{Collation, Column, Definition, IndexDefinition, Part};
use crate::key::Shape;
use crate::row::Layout;
use crate::value::{ColumnType, Value};
use pando::{Error, Result};
use serde_json::{Value as Json, json};
use std::collections::HashSet;

/// The largest number of columns that a table can have over its lifetime, including dropped ones; SQLite's default is
/// the same.
pub const MAX_COLUMNS: usize = 2000;
/// The largest number of indexes that a table can have.
pub const MAX_INDEXES: usize = 64;
/// The longest name of a table, column or index, in bytes. The engine's longest table name determines it.
pub const MAX_NAME_BYTES: usize = 200;

/// An index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) unique: bool,
    pub(crate) building: bool,
}

impl Index {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns whether the index is unique: at most one row has the same values in it.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// Returns whether the index is still being built. Until it is built, writes maintain it, but reads cannot use it,
    /// because entries of older rows may be missing.
    pub fn is_building(&self) -> bool {
        self.building
    }
}

/// The schema of a table as the catalog stores it. Each change creates a new version.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub(crate) id: u32,
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) note: String,
    /// The columns in the order in which they were added, including dropped ones.
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<Part>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) next_index: u32,
}

impl Schema {
    /// Returns the first version of a definition's schema.
    pub(crate) fn from_definition(definition: &Definition, id: u32) -> Result<Self> {
        let Definition { name, columns, key, indexes, note, options: _ } = definition.clone();
        let mut schema =
            Schema { id, version: 1, name, note, columns, key, indexes: Vec::new(), next_index: 1 };
        for index in indexes {
            schema.push_index(index, false);
        }
        schema.check().map_err(|message| schema.refused(&message))?;
        Ok(schema)
    }

    pub(crate) fn push_index(&mut self, definition: IndexDefinition, building: bool) {
        let IndexDefinition { name, parts, unique } = definition;
        self.indexes.push(Index { id: self.next_index, name, parts, unique, building });
        self.next_index += 1;
    }

    pub(crate) fn refused(&self, message: &str) -> Error {
        Error::invalid(format!("table {:?}: {message}", self.name))
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the table, which is never reused.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the version, which begins at 1 and grows by 1 with each change.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the note.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Returns the columns, in the order of a row's values.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_live())
    }

    /// Returns the place of a column among a row's values, or `None` if there is no such column.
    pub fn place(&self, column: &str) -> Option<usize> {
        self.columns().position(|known| known.name == column)
    }

    /// Returns the parts of the primary key.
    pub fn key(&self) -> &[Part] {
        &self.key
    }

    /// Returns the indexes, including those that are being built.
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// Returns the index of this name, or `None` if there is none.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// Returns a description in JSON: `columns` with name, type, nullability and default, the parts of the `key`, and
    /// `indexes`. The command line and the server show this form.
    ///
    /// ```
    /// use pando_rows::Row;
    /// #[derive(Row)]
    /// #[row(table = "fruit")]
    /// struct Fruit {
    ///     #[row(key)]
    ///     name: String,
    /// }
    ///
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// pando_rows::Table::<Fruit>::ensure(&db)?;
    /// let tables = pando_rows::DynamicTable::all(&db.snapshot()?)?;
    /// let described = tables[0].schema().to_json();
    /// assert_eq!(described["columns"][0]["name"], "name");
    /// assert_eq!(described["key"][0]["column"], "name");
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_json(&self) -> Json {
        let parts = |parts: &[Part]| parts.iter().map(Part::to_json).collect::<Vec<_>>();
        let columns = self.columns().map(|column| {
            json!({
                "name": column.name(),
                "type": column.column_type().to_string(),
                "nullable": column.is_nullable(),
                "default": column.default_value().map(|value| value.to_json(column.column_type())),
            })
        });
        let indexes = self.indexes.iter().map(|index| {
            json!({
                "name": index.name(),
                "parts": parts(index.parts()),
                "unique": index.is_unique(),
                "building": index.is_building(),
            })
        });
        json!({
            "columns": columns.collect::<Vec<_>>(),
            "key": parts(&self.key),
            "indexes": indexes.collect::<Vec<_>>(),
        })
    }

    pub(crate) fn live(&self, name: &str) -> Option<&Column> {
        self.columns().find(|column| column.name == name)
    }

    /// Returns the encoding of the primary key. The schema must have been checked.
    pub(crate) fn key_shapes(&self) -> Vec<Shape> {
        self.shapes(&self.key, false)
    }

    /// Returns the encoding of an index's parts. Each part may be null, so that a column can become nullable.
    pub(crate) fn shapes(&self, parts: &[Part], nullable: bool) -> Vec<Shape> {
        let shape = |part: &Part| {
            let kind = match &part.path {
                Some(_) => ColumnType::Any,
                None => self.live(&part.column).expect("parts were checked").kind,
            };
            Shape { kind, nullable, descending: part.descending, collation: part.collation }
        };
        parts.iter().map(shape).collect()
    }

    /// Returns whether the column's value can be decoded from the key.
    fn is_in_key(&self, column: &Column) -> bool {
        let part = self.key.iter().find(|part| part.column == column.name && column.is_live());
        part.is_some_and(|part| part.collation == Collation::Binary && column.kind != ColumnType::Any)
    }

    /// Returns the columns that rows of `version` store.
    pub(crate) fn layout(&self, version: u32) -> Layout {
        let mut place = 0;
        let mut stored = Vec::new();
        for column in &self.columns {
            if column.is_in(version) && !self.is_in_key(column) {
                stored.push((column.kind, column.nullable, column.is_live().then_some(place)));
            }
            place += usize::from(column.is_live());
        }
        Layout::new(stored)
    }

    /// Checks the properties that the module lists. The message says which one fails.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        check_name("table", &self.name)?;
        let count = self.columns.len();
        if count == 0 || count > MAX_COLUMNS {
            return Err(format!("a table must have 1 to {MAX_COLUMNS} columns, not {count}"));
        }
        let mut names = HashSet::new();
        for column in self.columns() {
            check_name("column", &column.name)?;
            if !names.insert(&column.name) {
                return Err(format!("two columns have the name {:?}", column.name));
            }
        }
        self.columns.iter().try_for_each(|column| self.check_column(column))?;
        self.check_parts("the primary key", &self.key)?;
        for part in &self.key {
            let column = self.live(&part.column).expect("parts were checked");
            if column.nullable || part.path.is_some() {
                let name = &column.name;
                return Err(format!(
                    "column {name:?} is in the primary key, so it may not be null or a path"
                ));
            }
        }
        self.check_indexes()
    }

    fn check_column(&self, column: &Column) -> std::result::Result<(), String> {
        let name = &column.name;
        let lasted = column.dropped.is_none_or(|dropped| column.added < dropped && dropped <= self.version);
        if column.added == 0 || column.added > self.version || !lasted {
            return Err(format!("column {name:?} belongs to a schema version that does not exist"));
        }
        match &column.default {
            Some(Value::Null) if column.nullable => Ok(()),
            Some(Value::Null) => {
                Err(format!("column {name:?} is not nullable, so its default must not be null"))
            }
            Some(value) if column.kind.holds(value) => Ok(()),
            Some(value) => {
                Err(format!("the default {value} of column {name:?} is not of type {}", column.kind))
            }
            None if column.added > 1 && !column.nullable => {
                Err(format!("column {name:?} is new: it needs a default, or must be nullable"))
            }
            None => Ok(()),
        }
    }

    fn check_parts(&self, of: &str, parts: &[Part]) -> std::result::Result<(), String> {
        if parts.is_empty() {
            return Err(format!("{of} has no column"));
        }
        for part in parts {
            let name = &part.column;
            let column =
                self.live(name).ok_or_else(|| format!("{of} names a column {name:?} that does not exist"))?;
            let is_document = column.kind == ColumnType::Json;
            if is_document != part.path.is_some() {
                let is = if is_document {
                    "is a JSON document: name a path within it"
                } else {
                    "has no paths, because it is not a JSON document"
                };
                return Err(format!("column {name:?} in {of} {is}"));
            }
            if part.path.as_ref().is_some_and(|path| !path.is_empty() && !path.starts_with('/')) {
                return Err(format!("the path of column {name:?} in {of} does not begin with a slash"));
            }
            let is_text = matches!(column.kind, ColumnType::Text | ColumnType::Any | ColumnType::Json);
            if part.collation != Collation::Binary && !is_text {
                return Err(format!("column {name:?} in {of} is not text, so it cannot have a collation"));
            }
        }
        let mut seen = HashSet::new();
        match parts.iter().find(|part| !seen.insert((&part.column, &part.path))) {
            Some(part) => Err(format!("{of} has column {:?} twice", part.column)),
            None => Ok(()),
        }
    }

    fn check_indexes(&self) -> std::result::Result<(), String> {
        if self.indexes.len() > MAX_INDEXES {
            return Err(format!("a table has at most {MAX_INDEXES} indexes"));
        }
        let (mut names, mut ids) = (HashSet::new(), HashSet::new());
        for index in &self.indexes {
            check_name("index", &index.name)?;
            if !names.insert(&index.name) || !ids.insert(index.id) || index.id >= self.next_index {
                return Err(format!("an index {:?} already exists", index.name));
            }
            self.check_parts(&format!("index {:?}", index.name), &index.parts)?;
        }
        Ok(())
    }
}

pub(crate) fn check_name(of: &str, name: &str) -> std::result::Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(format!("the name of a {of} must have 1 to {MAX_NAME_BYTES} bytes, not {}", name.len()));
    }
    Ok(())
}
