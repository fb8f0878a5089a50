//! The schema of a table that SQLite made, from its definition.
//!
//! The notes of tables and columns are those that `pando-db-sql` writes, so that it shows the types as they were
//! declared, and hides the rowid.

use super::values::{default_of, kind_of};
use super::{IndexStorage, PrimaryKey, Source, Storage, Stored, Writing};
use crate::definition::{Collation, Column, Part, WhenAbsent};
use crate::schema::{Index, MAX_INDEXES, MAX_NAME_BYTES, Schema};
use crate::value::{ColumnType, Value};
use pando::Table;
use serde_json::json;
use sqlite_format::definition::{self, Affinity, Key};
use sqlite_format::key::{self, Order, Shape};

/// The bit that ids of these tables have, so that they are not those of typed tables.
const ID: u32 = 1 << 31;
/// Names of the column for the rowid. The first that no column has is taken.
const ROWIDS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// What follows from a definition.
pub(crate) struct Derived {
    columns: Vec<Column>,
    stored: Vec<Stored>,
    /// The places of a record's fields: see [`Storage`].
    record: Vec<Option<usize>>,
    key: Vec<Part>,
    shape: Option<PrimaryKey>,
    /// Whether the first column is the rowid, and no column of the definition.
    has_rowid_column: bool,
    indexes: Vec<Index>,
}

impl Derived {
    /// Derives columns and key. An error says what a typed table cannot show.
    pub fn new(table: &definition::Table) -> Result<Self, String> {
        let fields = table.stored();
        let (mut columns, mut sources) = (Vec::new(), Vec::new());
        let alias = if let Key::Rowid(alias) = table.key { alias } else { None };
        let has_rowid_column = table.key == Key::Rowid(None);
        if has_rowid_column {
            let name = ROWIDS.into_iter().find(|name| table.place(name).is_none());
            let name = name.ok_or("its columns use all names of the rowid")?;
            columns.push(Column::new(name, ColumnType::Int));
            sources.push(Source::Rowid);
        }
        let offset = columns.len();
        for (place, column) in table.columns.iter().enumerate() {
            let affinity = affinity_of(table, column);
            let kind =
                if alias == Some(place) { ColumnType::Int } else { kind_of(affinity, &column.declared) };
            let is_key =
                matches!(&table.key, Key::Primary(key) if key.iter().any(|part| part.column == place));
            let never_null = column.is_not_null || is_key || alias == Some(place);
            let mut shown = Column::new(&column.name, kind).note(note_of(column));
            shown.nullable = !never_null;
            (shown.default, shown.when_absent) = if_absent(column, &shown, affinity);
            columns.push(shown);
            sources.push(match fields.iter().position(|&stored| stored == place) {
                _ if alias == Some(place) => Source::Rowid,
                Some(field) => Source::Field(field, added_value(column, affinity)),
                None => return Err(format!("column {:?} is computed when it is read", column.name)),
            });
        }
        let (key, shape) = match &table.key {
            Key::Rowid(alias) => {
                let place = alias.unwrap_or(0);
                columns[place].when_absent = WhenAbsent::Numbered;
                (vec![Part::new(columns[place].name())], None)
            }
            Key::Primary(parts) => {
                let shape = Shape::new(parts.iter().map(|part| part.order), Some(parts.len()));
                let places = parts.iter().map(|part| part.column).collect();
                (parts.iter().map(|part| part_of(table, part)).collect(), Some(PrimaryKey { shape, places }))
            }
        };
        let affinities = table.columns.iter().map(|column| affinity_of(table, column));
        let affinities = std::iter::repeat_n(Affinity::Integer, offset).chain(affinities);
        let stored = columns.iter().zip(sources).zip(affinities).map(|((column, source), affinity)| {
            let kind = column.column_type();
            Stored { kind, affinity, source }
        });
        let stored = stored.collect();
        let record = fields.iter().map(|&place| (alias != Some(place)).then_some(offset + place)).collect();
        Ok(Derived { columns, stored, record, key, shape, has_rowid_column, indexes: Vec::new() })
    }

    /// Adds an index, or returns `None` if a typed table cannot have it. `is_automatic`: SQLite made it for a
    /// constraint.
    pub fn push_index(
        &mut self,
        table: &definition::Table,
        name: &str,
        index: &definition::Index,
        is_automatic: bool,
    ) -> Option<IndexStorage> {
        let repeats = (1..index.parts.len())
            .any(|at| index.parts[..at].iter().any(|part| part.column == index.parts[at].column));
        // SQLite makes a name of its own from that of the table, which can be as long as names may be here.
        if repeats || self.indexes.len() == MAX_INDEXES || name.len() > MAX_NAME_BYTES {
            return None;
        }
        let mut fields = index.parts.clone();
        let primary = match &table.key {
            // The rowid, ascending, is the last field.
            Key::Rowid(_) => None,
            Key::Primary(key) => {
                Some(key.iter().map(|part| field_in(&mut fields, part, is_automatic)).collect())
            }
        };
        let orders = fields.iter().map(|part| part.order);
        let shape = Shape::new(orders, None);
        let mut places: Vec<_> =
            fields.iter().map(|part| part.column + usize::from(self.has_rowid_column)).collect();
        if let Key::Rowid(alias) = table.key {
            places.push(alias.unwrap_or(0));
        }
        self.indexes.push(Index {
            id: u32::try_from(self.indexes.len()).expect("there are few") + 1,
            name: name.to_owned(),
            parts: index.parts.iter().map(|part| part_of(table, part)).collect(),
            unique: index.is_unique,
            building: false,
        });
        Some(IndexStorage { shape, primary, places, own_fields: index.parts.len() })
    }

    /// Returns the schema of the table that has this name and root, and how its rows are stored.
    pub fn finish(
        self,
        table: &definition::Table,
        name: &str,
        root: u32,
        meta: &Table,
        cookie: u32,
        writing: Writing,
    ) -> (Schema, Storage) {
        let flags = [
            ("row_id", self.has_rowid_column),
            ("strict", table.is_strict),
            ("without_row_id", self.shape.is_some()),
        ];
        let flags = flags.into_iter().filter(|(_, is)| *is).map(|(name, _)| (name.to_owned(), json!(true)));
        let note: serde_json::Map<_, _> = flags.collect();
        let note = if note.is_empty() { String::new() } else { serde_json::Value::Object(note).to_string() };
        let next_index = u32::try_from(self.indexes.len()).expect("there are few") + 1;
        let Derived { columns, stored, record, key, shape, indexes, .. } = self;
        // Columns belong to version 1, and a cookie can be anything.
        let version = cookie.max(1);
        let schema =
            Schema { id: root | ID, version, name: name.to_owned(), note, columns, key, indexes, next_index };
        let meta = meta.clone();
        (schema, Storage { meta, cookie, columns: stored, key: shape, record, writing })
    }
}

/// Returns the number of the field of an index's entry that is this part of the primary key. It is added if the index
/// does not have the column in the same collation.
fn field_in(fields: &mut Vec<definition::Part>, part: &definition::Part, is_automatic: bool) -> usize {
    let is_it = |field: &definition::Part| {
        field.column == part.column && field.order.collation == part.order.collation
    };
    fields.iter().position(is_it).unwrap_or_else(|| {
        // Into an index of a constraint SQLite does not take over the direction, and that cannot be changed any more:
        // <https://sqlite.org/src/info/bba7b69f9849b5bf>.
        let descending = part.order.descending && !is_automatic;
        fields.push(definition::Part { order: Order { descending, ..part.order }, ..*part });
        fields.len() - 1
    })
}

fn part_of(table: &definition::Table, part: &definition::Part) -> Part {
    let Order { collation, descending } = part.order;
    let column = &table.columns[part.column];
    let kind = kind_of(affinity_of(table, column), &column.declared);
    let collation = match collation {
        // Only texts are compared by it.
        _ if !matches!(kind, ColumnType::Text | ColumnType::Any) => Collation::Binary,
        key::Collation::Binary => Collation::Binary,
        key::Collation::NoCase => Collation::NoCase,
        key::Collation::RTrim => Collation::RTrim,
    };
    let shown = Part::new(&column.name).collation(collation);
    if descending { shown.descending() } else { shown }
}

fn affinity_of(table: &definition::Table, column: &definition::Column) -> Affinity {
    match column.declared.eq_ignore_ascii_case("ANY") && table.is_strict {
        true => Affinity::Blob,
        false => Affinity::of_declared(&column.declared),
    }
}

/// Returns the default of a column, and what a row gets in it that does not name it.
fn if_absent(
    column: &definition::Column,
    shown: &Column,
    affinity: Affinity,
) -> (Option<Value<'static>>, WhenAbsent) {
    let Some(default) = &column.default else { return (None, WhenAbsent::Default) };
    match default_of(default, affinity) {
        Some(Value::Null) => (None, WhenAbsent::Default),
        Some(value) if shown.column_type().holds(&value) => (Some(value), WhenAbsent::Default),
        // A value of another type, or one that SQLite computes.
        _ => (None, WhenAbsent::Computed),
    }
}

/// Returns the value of a column in rows that were written before it was added.
fn added_value(column: &definition::Column, affinity: Affinity) -> Option<Value<'static>> {
    match &column.default {
        None => Some(Value::Null),
        Some(default) => default_of(default, affinity),
    }
}

/// Returns the note that says how a column was declared.
fn note_of(column: &definition::Column) -> String {
    let mut note = format!("{{\"type\":{}", json!(column.declared));
    if let Some(default) = &column.default {
        note.push_str(&format!(",\"default\":{}", json!(default)));
    }
    let collation = key::Collation::of_name(&column.collation);
    if collation.is_some_and(|collation| collation != key::Collation::Binary) {
        note.push_str(&format!(",\"collate\":{}", json!(column.collation.to_ascii_uppercase())));
    }
    note.push('}');
    note
}
