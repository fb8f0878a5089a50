//! What a table is asked for with: columns, parts of keys, indexes. Whether it holds together is `schema.rs`'s to say.

use crate::value::{ColumnType, Value};
use pando::{Compression, Error, Layout, Result, TableOptions};
use std::borrow::Cow;
use std::time::Duration;

/// How texts of a key are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Collation {
    /// By their bytes.
    #[default]
    Binary,
    /// By their bytes, A to Z as a to z.
    NoCase,
    /// By their bytes, without the spaces at the end.
    RTrim,
}

impl Collation {
    /// All, in the order of their numbers in the catalog.
    pub const ALL: [Collation; 3] = [Collation::Binary, Collation::NoCase, Collation::RTrim];

    /// The text that stands for all that are equal to `text`.
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        match self {
            Collation::Binary => Cow::Borrowed(text),
            Collation::NoCase => Cow::Owned(text.to_ascii_lowercase()),
            Collation::RTrim => Cow::Borrowed(text.trim_end_matches(' ')),
        }
    }
}

/// A column: a name, a type, whether it may be null, a default. Not null unless told otherwise.
///
/// ```
/// use pando_rows::{Column, ColumnType};
/// let column = Column::new("age", ColumnType::Int).nullable().default(0);
/// assert!(column.is_nullable());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value<'static>>,
    pub(crate) note: String,
    /// The version of the schema that has it first.
    pub(crate) added: u32,
    /// The version that has it no more.
    pub(crate) dropped: Option<u32>,
}

impl Column {
    /// A column that may not be null.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        let (name, note) = (name.into(), String::new());
        Column { name, kind, nullable: false, default: None, note, added: 1, dropped: None }
    }

    /// The same, but it may be null.
    #[must_use]
    pub fn nullable(self) -> Self {
        Column { nullable: true, ..self }
    }

    /// The same with a default: what rows from before the column was added have.
    #[must_use]
    pub fn default(self, value: impl Into<Value<'static>>) -> Self {
        Column { default: Some(value.into()), ..self }
    }

    /// The same with a note: text for whoever made the table, as a type in SQL's words.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Column { note: note.into(), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    pub fn column_type(&self) -> ColumnType {
        self.kind
    }

    /// Whether it may be null.
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// What a row that lacks it has; null if nothing else was said.
    pub fn default_value(&self) -> Option<&Value<'static>> {
        self.default.as_ref()
    }

    /// The note.
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

/// A part of a key or an index, by the column's name: ascending, by bytes, unless told otherwise.
///
/// ```
/// use pando_rows::{Collation, Part};
/// let newest_first = Part::new("at").descending();
/// let by_name = Part::new("name").collation(Collation::NoCase);
/// let by_town = Part::new("document").path("/address/town");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub(crate) column: String,
    pub(crate) descending: bool,
    pub(crate) collation: Collation,
    pub(crate) path: Option<String>,
}

impl Part {
    /// The column of that name.
    pub fn new(column: impl Into<String>) -> Self {
        Part { column: column.into(), descending: false, collation: Collation::Binary, path: None }
    }

    /// The same, from the largest value to the smallest.
    #[must_use]
    pub fn descending(self) -> Self {
        Part { descending: true, ..self }
    }

    /// The same, texts compared so.
    #[must_use]
    pub fn collation(self, collation: Collation) -> Self {
        Part { collation, ..self }
    }

    /// The value at a path of a document, as a JSON pointer (RFC 6901): `/address/town`, `/lines/0`. Null where there
    /// is none, or an array or object.
    #[must_use]
    pub fn path(self, pointer: impl Into<String>) -> Self {
        Part { path: Some(pointer.into()), ..self }
    }

    /// A part in words. What is no such word stays in the column's name, and is refused with it.
    pub(crate) fn of(words: &str) -> Self {
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

    /// The column's name.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// Whether it goes from the largest value to the smallest.
    pub fn is_descending(&self) -> bool {
        self.descending
    }

    /// How texts are compared.
    pub fn collation_of(&self) -> Collation {
        self.collation
    }

    /// The path within a document.
    pub fn pointer(&self) -> Option<&str> {
        self.path.as_deref()
    }
}

impl<T: Into<String>> From<T> for Part {
    fn from(column: T) -> Self {
        Part::new(column)
    }
}

/// An index that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) unique: bool,
}

impl IndexDefinition {
    /// An index over some parts, many rows for one value allowed.
    pub fn new<P: Into<Part>>(name: impl Into<String>, parts: impl IntoIterator<Item = P>) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        IndexDefinition { name: name.into(), parts, unique: false }
    }

    /// An index over parts in words: columns, with commas between, each with `desc`, `nocase` or `rtrim` behind it as
    /// need be, and, of a document, the path: `document/address/town`.
    ///
    /// ```
    /// use pando_rows::{IndexDefinition, Part};
    /// let parts = [Part::new("town").descending(), Part::new("document").path("/name")];
    /// assert_eq!(IndexDefinition::of("i", "town desc, document/name"), IndexDefinition::new("i", parts));
    /// ```
    pub fn of(name: impl Into<String>, parts: &str) -> Self {
        IndexDefinition::new(name, parts.split(',').map(Part::of))
    }

    /// An index in words: its name, `=`, and its parts as [`IndexDefinition::of`] has them.
    ///
    /// ```
    /// use pando_rows::IndexDefinition;
    /// assert_eq!(IndexDefinition::parse("by_town=town desc")?, IndexDefinition::of("by_town", "town desc"));
    /// assert!(IndexDefinition::parse("town").is_err());
    /// # pando::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` without a `=`.
    pub fn parse(words: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("{words:?}: say NAME=COLUMNS, as by_town=town"));
        let (name, parts) = words.split_once('=').ok_or_else(wrong)?;
        Ok(IndexDefinition::of(name.trim(), parts))
    }

    /// The same with one row at most for each value; rows with a null in it do not count, as in SQL.
    #[must_use]
    pub fn unique(self) -> Self {
        IndexDefinition { unique: true, ..self }
    }
}

/// A table that is asked for.
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
pub struct Definition {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<Part>,
    pub(crate) indexes: Vec<IndexDefinition>,
    pub(crate) note: String,
    /// Of the rows' table.
    pub(crate) options: TableOptions,
}

impl Definition {
    /// A table without columns: add some, and name the key.
    pub fn new(name: impl Into<String>) -> Self {
        let (columns, key, indexes) = (Vec::new(), Vec::new(), Vec::new());
        let options = TableOptions::default();
        Definition { name: name.into(), columns, key, indexes, note: String::new(), options }
    }

    /// A table in words: columns with commas between, each its name, its type, and behind them as need be `key` (or
    /// `key desc`), `null`, and `default` with a value, which may not have commas or spaces.
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
    /// `Invalid`: what cannot be understood.
    pub fn parse(name: impl Into<String>, words: &str) -> Result<Self> {
        let mut definition = Definition::new(name);
        let mut key = Vec::new();
        for words in words.split(',') {
            let wrong = |what: &str| {
                let message = format!(
                    "column {:?}: {what}; say NAME TYPE [key [desc]] [null] [default VALUE]",
                    words.trim()
                );
                Error::invalid(message)
            };
            let mut words = words.split_whitespace();
            let (Some(name), Some(kind)) = (words.next(), words.next()) else {
                return Err(wrong("no name and type"));
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
                        let value = words.next().ok_or_else(|| wrong("no value behind `default`"))?;
                        column = column.default(kind.parse(value).map_err(|message| wrong(&message))?);
                    }
                    word => return Err(wrong(&format!("{word:?} means nothing"))),
                }
            }
            definition = definition.column(column);
        }
        Ok(definition.key(key))
    }

    /// The same with one more column, behind the others.
    #[must_use]
    pub fn column(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// The same with this primary key.
    #[must_use]
    pub fn key<P: Into<Part>>(self, parts: impl IntoIterator<Item = P>) -> Self {
        Definition { key: parts.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same with one more index.
    #[must_use]
    pub fn index(mut self, index: IndexDefinition) -> Self {
        self.indexes.push(index);
        self
    }

    /// The same with a note: text for whoever made the table, as its statement in SQL.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Definition { note: note.into(), ..self }
    }

    /// The same with rows that live for `ttl`, 1 ms or more, from the call that wrote them last: see
    /// [`pando::TableOptions::ttl`]. Such a table has no indexes: a row that is written again lives longer, and its
    /// entries, which that leaves as they are, would not.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Definition { options: self.options.ttl(ttl), ..self }
    }

    /// The same with rows that are laid out so, and its indexes with them.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.options.layout = layout;
        self
    }

    /// The same with its pages, and its indexes', compressed so: of the LSM layout alone.
    #[must_use]
    pub fn compression(self, compression: Compression) -> Self {
        Definition { options: self.options.compression(compression), ..self }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}
