//! The columns of what is written, as an Arrow schema.
//!
//! A field names its column's type in its metadata (`pando.type`), as several types share one of Arrow. The schema
//! names the primary key (`pando.key`), as a JSON array. A column in ascending order, compared byte by byte, is its
//! name; another one is an object with what differs: `["id", {"column": "at", "descending": true}, {"column": "name",
//! "collation": "nocase"}]`.
//!
//! Files of earlier versions have the difference after the name, as in `"at desc"`. A string is read like that only if
//! no column has it as its name.

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use pando::{Error, Result};
use rows::{Collation, Column, ColumnType, Definition, DynamicTable, Part};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::Arc;

const TYPE: &str = "pando.type";
const KEY: &str = "pando.key";

/// The columns of rows that are written: of a typed table, or of plain records.
#[derive(Clone, Debug)]
pub struct Shape {
    schema: SchemaRef,
    types: Vec<ColumnType>,
}

impl Shape {
    /// Returns the columns of a typed table.
    pub fn of_table(table: &DynamicTable) -> Self {
        let columns: Vec<_> = table.schema().columns().collect();
        let columns =
            columns.iter().map(|column| (column.name(), column.column_type(), column.is_nullable()));
        let key: Json = table.schema().key().iter().map(json_of).collect();
        Shape::new(columns, HashMap::from([(KEY.to_owned(), key.to_string())]))
    }

    /// Returns the columns `key` and `value` of plain records, both of bytes.
    pub fn of_records() -> Self {
        let columns = ["key", "value"].into_iter().map(|name| (name, ColumnType::Bytes, false));
        Shape::new(columns, HashMap::new())
    }

    /// Returns columns with these names, types, and whether they can be null.
    pub fn of_columns<'a>(columns: impl IntoIterator<Item = (&'a str, ColumnType, bool)>) -> Self {
        Shape::new(columns, HashMap::new())
    }

    fn new<'a>(
        columns: impl IntoIterator<Item = (&'a str, ColumnType, bool)>,
        metadata: HashMap<String, String>,
    ) -> Self {
        let columns: Vec<_> = columns.into_iter().collect();
        let fields: Vec<_> = columns.iter().map(|&(name, kind, null)| field(name, kind, null)).collect();
        let types = columns.into_iter().map(|(_, kind, _)| kind).collect();
        Shape { schema: Arc::new(Schema::new(fields).with_metadata(metadata)), types }
    }

    /// Returns the Arrow schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the types of the columns.
    pub fn types(&self) -> &[ColumnType] {
        &self.types
    }
}

fn field(name: &str, kind: ColumnType, nullable: bool) -> Field {
    let metadata = HashMap::from([(TYPE.to_owned(), kind.name().to_owned())]);
    Field::new(name, data_type(kind), nullable).with_metadata(metadata)
}

/// Returns the type with which a column is written.
fn data_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Int => DataType::Int64,
        ColumnType::UInt => DataType::UInt64,
        ColumnType::Float => DataType::Float64,
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ColumnType::Uuid => DataType::FixedSizeBinary(16),
        ColumnType::Bytes => DataType::Binary,
        // Documents, and values of any type as their JSON.
        _ => DataType::Utf8,
    }
}

/// The collations that have a name in the metadata.
const COLLATIONS: [(&str, Collation); 2] = [("nocase", Collation::NoCase), ("rtrim", Collation::RTrim)];

fn json_of(part: &Part) -> Json {
    let collation = COLLATIONS.into_iter().find(|(_, collation)| *collation == part.collation_of());
    if collation.is_none() && !part.is_descending() {
        return part.column().into();
    }
    let mut json = json!({ "column": part.column() });
    if part.is_descending() {
        json["descending"] = true.into();
    }
    if let Some((name, _)) = collation {
        json["collation"] = name.into();
    }
    json
}

fn part_of(json: &Json, schema: &Schema) -> Option<Part> {
    let fields = match json {
        Json::String(name) if schema.index_of(name).is_ok() => return Some(Part::new(name.as_str())),
        Json::String(words) => return Some(part_of_words(words)),
        Json::Object(fields) => fields,
        _ => return None,
    };
    if fields.keys().any(|name| !["column", "descending", "collation"].contains(&name.as_str())) {
        return None;
    }
    let mut part = Part::new(fields.get("column")?.as_str()?);
    if let Some(named) = fields.get("collation") {
        let named = named.as_str()?;
        part = part.collation(COLLATIONS.into_iter().find(|(name, _)| *name == named)?.1);
    }
    let is_descending = match fields.get("descending") {
        None => false,
        Some(descending) => descending.as_bool()?,
    };
    Some(if is_descending { part.descending() } else { part })
}

/// Returns the column of a key in a file of an earlier version.
fn part_of_words(words: &str) -> Part {
    let (mut name, mut descending, mut collation) = (words, false, Collation::Binary);
    for (suffix, of) in [(" nocase", Collation::NoCase), (" rtrim", Collation::RTrim)] {
        if let Some(rest) = name.strip_suffix(suffix) {
            (name, collation) = (rest, of);
        }
    }
    if let Some(rest) = name.strip_suffix(" desc") {
        (name, descending) = (rest, true);
    }
    let part = Part::new(name).collation(collation);
    if descending { part.descending() } else { part }
}

/// Returns the definition of the table `name` that a file with this schema was written from; `None`: by another
/// program, which names no key.
pub(crate) fn definition(name: &str, schema: &Schema) -> Result<Option<Definition>> {
    let Some(key) = schema.metadata().get(KEY) else { return Ok(None) };
    let wrong = || Error::invalid(format!("the metadata {KEY} of the file is not a list of columns: {key}"));
    let parts: Vec<Json> = serde_json::from_str(key).map_err(|_| wrong())?;
    let parts: Option<Vec<_>> = parts.iter().map(|part| part_of(part, schema)).collect();
    let parts = parts.ok_or_else(wrong)?;
    let mut definition = Definition::new(name);
    for field in schema.fields() {
        let column = Column::new(field.name().as_str(), type_of(field)?);
        definition = definition.column(if field.is_nullable() { column.nullable() } else { column });
    }
    Ok(Some(definition.key(parts)))
}

fn type_of(field: &Field) -> Result<ColumnType> {
    let named = field.metadata().get(TYPE);
    let kind = named.and_then(|name| ColumnType::ALL.into_iter().find(|kind| kind.name() == name));
    kind.ok_or_else(|| {
        Error::invalid(format!(
            "the file names no type for its column {:?}: give the columns of the table",
            field.name()
        ))
    })
}

/// Returns whether a column was written from one of type *any*.
pub(crate) fn is_any(field: &Field) -> bool {
    field.metadata().get(TYPE).is_some_and(|name| name == ColumnType::Any.name())
}
