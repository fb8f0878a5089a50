//! The definition of a table: columns, parts of keys, indexes. `schema.rs` checks that it is consistent.

use crate::value::{ColumnType, Value};
use pando::{Compression, Error, Layout, Result, TableOptions};
use std::borrow::Cow;
use std::time::Duration;

/// The comparison of texts in a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Collation {
    /// Compares texts by their bytes.
    #[default]
    Binary,
    /// Compares texts by their bytes, with A to Z equal to a to z.
    NoCase,
    /// Compares texts by their bytes, without spaces at the end.
    RTrim,
}

impl Collation {
    /// All collations, in the order of their numbers in the catalog.
    pub const ALL: [Collation; 3] = [Collation::Binary, Collation::NoCase, Collation::RTrim];

    /// Returns the text that stands for all texts that are equal to `text` under this collation.
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        match self {
            Collation::Binary => Cow::Borrowed(text),
            Collation::NoCase => Cow::Owned(text.to_ascii_lowercase()),
            Collation::RTrim => Cow::Borrowed(text.trim_end_matches(' ')),
        }
    }
}

/// A column: its name, its type, whether it is nullable, and its default value. A new column is not nullable and has no
/// default.
///
/// ```
/// use pando_rows::{Column, ColumnType};
/// let column = Column::new("age", ColumnType::Int).nullable().default(0);
/// assert!(column.is_nullable());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Column {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value<'static>>,
    pub(crate) note: String,
    /// The first version of the schema that has the column.
    pub(crate) added: u32,
    /// The first version of the schema that lacks the column, if it was dropped.
    pub(crate) dropped: Option<u32>,
    /// What a row gets that does not name the column.
    pub(crate) when_absent: WhenAbsent,
}

/// What a row gets in a column that it does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenAbsent {
    /// The default, or else null if that is possible.
    Default,
    /// The next number: it is the rowid of SQLite's.
    Numbered,
    /// What only SQLite computes, such as the time of day. Here the row must name the column.
    Computed,
}

impl Column {
    /// Creates a column that is not nullable.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        let (name, note) = (name.into(), String::new());
        Column {
            name,
            kind,
            nullable: false,
            default: None,
            note,
            added: 1,
            dropped: None,
            when_absent: WhenAbsent::Default,
        }
    }

    /// Makes the column nullable.
    pub fn nullable(self) -> Self {
        Column { nullable: true, ..self }
    }

    /// Sets the default value. Rows that were written before the column was added have this value.
    pub fn default(self, value: impl Into<Value<'static>>) -> Self {
        Column { default: Some(value.into()), ..self }
    }

    /// Sets the note: text for the program that created the table, such as the type as SQL declares it.
    pub fn note(self, note: impl Into<String>) -> Self {
        Column { note: note.into(), ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type.
    pub fn column_type(&self) -> ColumnType {
        self.kind
    }

    /// Returns whether the column is nullable.
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// Returns the value of the column in rows that were written without it: its default, or `None` for null.
    pub fn default_value(&self) -> Option<&Value<'static>> {
        self.default.as_ref()
    }

    /// Returns the value of the column in a new row that does not name it: its default, or else null. It returns `None`
    /// if the row must name the column. For the rowid of a table that SQLite made it is null, and inserting the row
    /// gives it a number.
    pub fn value_if_absent(&self) -> Option<Value<'static>> {
        match self.when_absent {
            WhenAbsent::Default => self.default.clone().or(self.nullable.then_some(Value::Null)),
            WhenAbsent::Numbered => Some(Value::Null),
            WhenAbsent::Computed => None,
        }
    }

    /// Returns the note.
    pub fn note_text(&self) -> &str {
        &self.note
    }

    pub(crate) fn is_live(&self) -> bool {
        self.dropped.is_none()
    }

    pub(crate) fn is_in(&self, version: u32) -> bool {
        self.added <= version && self.dropped.is_none_or(|dropped| version < dropped)
    }
}

/// A part of a key or of an index: a column, and how its values are ordered. By default the part is ascending and
/// compares texts by their bytes.
///
/// ```
/// use pando_rows::{Collation, Part};
/// let newest_first = Part::new("at").descending();
/// let by_name = Part::new("name").collation(Collation::NoCase);
/// let by_town = Part::new("document").path("/address/town");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Part {
    pub(crate) column: String,
    pub(crate) descending: bool,
    pub(crate) collation: Collation,
    pub(crate) path: Option<String>,
}

impl Part {
    /// Creates a part from the column of this name.
    pub fn new(column: impl Into<String>) -> Self {
        Part { column: column.into(), descending: false, collation: Collation::Binary, path: None }
    }

    /// Orders the part from the largest value to the smallest.
    pub fn descending(self) -> Self {
        Part { descending: true, ..self }
    }

    /// Sets the comparison of texts.
    pub fn collation(self, collation: Collation) -> Self {
        Part { collation, ..self }
    }

    /// Uses the value at a path within a JSON document, written as a JSON pointer (RFC 6901): `/address/town`,
    /// `/lines/0`. The value is null if the path does not exist, or leads to an array or an object.
    pub fn path(self, pointer: impl Into<String>) -> Self {
        Part { path: Some(pointer.into()), ..self }
    }

    /// Parses a part: a column, optionally followed by `desc`, `nocase` or `rtrim`. A path within a JSON document
    /// follows the column directly. An unknown word becomes a part of the column's name, so that the check of the
    /// schema rejects it.
    ///
    /// ```
    /// use pando_rows::Part;
    /// assert_eq!(Part::parse("town desc"), Part::new("town").descending());
    /// assert_eq!(Part::parse("document/name"), Part::new("document").path("/name"));
    /// ```
    pub fn parse(words: &str) -> Self {
        let (mut rest, mut part) = (words.trim(), Part::new(""));
        while let Some((before, word)) = rest.rsplit_once(' ') {
            match word {
                "asc" => {}
                "desc" => part.descending = true,
                "nocase" => part.collation = Collation::NoCase,
                "rtrim" => part.collation = Collation::RTrim,
                _ => break,
            }
            rest = before.trim_end();
        }
        let (column, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
        Part { column: column.to_owned(), path: path.map(str::to_owned), ..part }
    }

    /// Returns the name of the column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// Returns whether the part is ordered from the largest value to the smallest.
    pub fn is_descending(&self) -> bool {
        self.descending
    }

    /// Returns how texts are compared.
    pub fn collation_of(&self) -> Collation {
        self.collation
    }

    /// Returns the path within a JSON document.
    pub fn pointer(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Returns a description in JSON. It has `descending` and `pointer` only where they differ from the default.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut described = serde_json::json!({ "column": self.column });
        if self.descending {
            described["descending"] = true.into();
        }
        if let Some(pointer) = self.pointer() {
            described["pointer"] = pointer.into();
        }
        described
    }
}

impl<T: Into<String>> From<T> for Part {
    fn from(column: T) -> Self {
        Part::new(column)
    }
}

/// The definition of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct IndexDefinition {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) unique: bool,
}

impl IndexDefinition {
    /// Defines an index over `parts`. Several rows can have the same values in it.
    pub fn new<P: Into<Part>>(name: impl Into<String>, parts: impl IntoIterator<Item = P>) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        IndexDefinition { name: name.into(), parts, unique: false }
    }

    /// Defines an index from text: columns separated by commas, each optionally followed by `desc`, `nocase` or
    /// `rtrim`. A path within a JSON document follows the column directly: `document/address/town`.
    ///
    /// ```
    /// use pando_rows::{IndexDefinition, Part};
    /// let parts = [Part::new("town").descending(), Part::new("document").path("/name")];
    /// assert_eq!(IndexDefinition::on("i", "town desc, document/name"), IndexDefinition::new("i", parts));
    /// ```
    pub fn on(name: impl Into<String>, parts: &str) -> Self {
        IndexDefinition::new(name, parts.split(',').map(Part::parse))
    }

    /// Parses an index: its name, `=`, and its parts as in [`IndexDefinition::on`].
    ///
    /// ```
    /// use pando_rows::IndexDefinition;
    /// assert_eq!(IndexDefinition::parse("by_town=town desc")?, IndexDefinition::on("by_town", "town desc"));
    /// assert!(IndexDefinition::parse("town").is_err());
    /// # pando::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` if there is no `=`.
    pub fn parse(words: &str) -> Result<Self> {
        let wrong =
            || Error::invalid(format!("{words:?} is not an index: write NAME=COLUMNS, as in by_town=town"));
        let (name, parts) = words.split_once('=').ok_or_else(wrong)?;
        Ok(IndexDefinition::on(name.trim(), parts))
    }

    /// Makes the index unique: at most one row for each value. Rows with a null in it are exempt, as in SQL.
    pub fn unique(self) -> Self {
        IndexDefinition { unique: true, ..self }
    }
}

/// The definition of a typed table.
///
/// ```
/// use pando_rows::{Column, ColumnType, Definition, IndexDefinition, Part};
/// let people = Definition::new("people")
///     .column(Column::new("id", ColumnType::Int))
///     .column(Column::new("email", ColumnType::Text).nullable())
///     .column(Column::new("born", ColumnType::Timestamp))
///     .key(["id"])
///     .index(IndexDefinition::new("by_email", ["email"]).unique())
///     .index(IndexDefinition::new("youngest_first", [Part::new("born").descending()]));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Definition {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<Part>,
    pub(crate) indexes: Vec<IndexDefinition>,
    pub(crate) note: String,
    /// The options of the rows' table.
    pub(crate) options: TableOptions,
}

impl Definition {
    /// Defines a table without columns. Add columns, and set the key.
    pub fn new(name: impl Into<String>) -> Self {
        let (columns, key, indexes) = (Vec::new(), Vec::new(), Vec::new());
        let options = TableOptions::default();
        Definition { name: name.into(), columns, key, indexes, note: String::new(), options }
    }

    /// Parses a table: columns separated by commas, each with its name and its type, optionally followed by `key` (or
    /// `key desc`), `null`, and `default` with a value, which cannot contain commas or spaces.
    ///
    /// ```
    /// use pando_rows::{Column, ColumnType, Definition};
    /// let parsed = Definition::parse("people", "id int key, age int null, town text default Ulm")?;
    /// let said = Definition::new("people")
    ///     .column(Column::new("id", ColumnType::Int))
    ///     .column(Column::new("age", ColumnType::Int).nullable())
    ///     .column(Column::new("town", ColumnType::Text).default("Ulm"))
    ///     .key(["id"]);
    /// assert_eq!(parsed, said);
    /// # pando::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` with the part that cannot be parsed.
    pub fn parse(name: impl Into<String>, words: &str) -> Result<Self> {
        let mut definition = Definition::new(name);
        let mut key = Vec::new();
        for words in words.split(',') {
            let wrong = |what: &str| {
                let message = format!(
                    "column {:?}: {what}; write NAME TYPE [key [desc]] [null] [default VALUE]",
                    words.trim()
                );
                Error::invalid(message)
            };
            let mut words = words.split_whitespace();
            let (Some(name), Some(kind)) = (words.next(), words.next()) else {
                return Err(wrong("its name or type is missing"));
            };
            let kind =
                ColumnType::from_name(kind).ok_or_else(|| wrong(&format!("there is no type {kind:?}")))?;
            let mut column = Column::new(name, kind);
            while let Some(word) = words.next() {
                match word {
                    "key" => key.push(Part::new(name)),
                    "desc" if key.last().is_some_and(|part: &Part| part.column == name) => {
                        key.last_mut().expect("it was just seen").descending = true;
                    }
                    "null" => column = column.nullable(),
                    "default" => {
                        let value = words.next().ok_or_else(|| wrong("there is no value after `default`"))?;
                        column = column.default(kind.parse(value).map_err(|message| wrong(&message))?);
                    }
                    word => return Err(wrong(&format!("{word:?} is not a known word"))),
                }
            }
            definition = definition.column(column);
        }
        Ok(definition.key(key))
    }

    /// Adds a column after the others.
    pub fn column(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// Sets the primary key.
    pub fn key<P: Into<Part>>(self, parts: impl IntoIterator<Item = P>) -> Self {
        Definition { key: parts.into_iter().map(Into::into).collect(), ..self }
    }

    /// Adds an index.
    pub fn index(mut self, index: IndexDefinition) -> Self {
        self.indexes.push(index);
        self
    }

    /// Sets the note: text for the program that created the table, such as its statement in SQL.
    pub fn note(self, note: impl Into<String>) -> Self {
        Definition { note: note.into(), ..self }
    }

    /// Sets how long rows live: `ttl`, at least 1 ms, after they were last written; see [`pando::TableOptions::ttl`].
    /// Such a table cannot have indexes: a row that is written again lives longer, but its unchanged index entries
    /// would not.
    pub fn ttl(self, ttl: Duration) -> Self {
        Definition { options: self.options.ttl(ttl), ..self }
    }

    /// Sets the layout of the rows and of the indexes.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.options.layout = layout;
        self
    }

    /// Sets the compression of the pages of rows and indexes; for the LSM layout only.
    pub fn compression(self, compression: Compression) -> Self {
        Definition { options: self.options.compression(compression), ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }
}
