//! A schema as a record of the catalog.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | format: 1 |
//! | varint | the table's id, then the schema's version, then the id of the next index |
//! | text | note |
//! | varint | columns; of each: |
//! | · text | name |
//! | · 1 | type |
//! | · 1 | flags: 1 may be null, 2 has a default, 4 dropped |
//! | · varint | the version that has it first; if dropped, then the one that has it no more |
//! | · value | the default, if it has one: 0, or 1 and a value of its own type's column |
//! | · text | note |
//! | parts | the primary key |
//! | varint | indexes; of each: |
//! | · varint, text | id, name |
//! | · 1 | flags: 1 unique, 2 building |
//! | · parts | what it is over |
//!
//! Parts: a varint count; of each the column's name as a text, flags (1 descending, 2 has a path), the collation's
//! number, and the path as a text if it has one. A text is a varint length and bytes of UTF-8.

use crate::definition::{Collation, Column, Part, WhenAbsent};
use crate::row::{number_of, push_value, read_text, read_value};
use crate::schema::{Index, Schema};
use crate::value::{ColumnType, Value};
use base::codec::{Reader, Writer};
use pando::{Error, Result};

const FORMAT: u8 = 1;

mod flag {
    pub const NULLABLE: u8 = 1;
    pub const DEFAULT: u8 = 2;
    pub const DROPPED: u8 = 4;
    pub const UNIQUE: u8 = 1;
    pub const BUILDING: u8 = 2;
    pub const DESCENDING: u8 = 1;
    pub const PATH: u8 = 2;
}

fn flags(set: &[(bool, u8)]) -> u8 {
    set.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag)
}

/// Encodes a schema. Its name is the record's key, and is not in the bytes.
pub(crate) fn encode(schema: &Schema) -> Vec<u8> {
    let mut out = vec![FORMAT];
    for number in [schema.id, schema.version, schema.next_index] {
        out.put_varint(number.into());
    }
    out.put_bytes(schema.note.as_bytes());
    out.put_varint(schema.columns.len() as u64);
    schema.columns.iter().for_each(|column| put_column(&mut out, column));
    put_parts(&mut out, &schema.key);
    out.put_varint(schema.indexes.len() as u64);
    for index in &schema.indexes {
        out.put_varint(index.id.into());
        out.put_bytes(index.name.as_bytes());
        out.put_u8(flags(&[(index.unique, flag::UNIQUE), (index.building, flag::BUILDING)]));
        put_parts(&mut out, &index.parts);
    }
    out
}

fn put_column(out: &mut Vec<u8>, column: &Column) {
    out.put_bytes(column.name.as_bytes());
    out.put_u8(number_of(column.kind));
    let (default, dropped) = (column.default.as_ref(), column.dropped);
    out.put_u8(flags(&[
        (column.nullable, flag::NULLABLE),
        (default.is_some(), flag::DEFAULT),
        (dropped.is_some(), flag::DROPPED),
    ]));
    out.put_varint(column.added.into());
    dropped.into_iter().for_each(|version| out.put_varint(version.into()));
    if let Some(value) = default {
        out.put_u8(u8::from(!value.is_null()));
        if !value.is_null() {
            push_value(out, column.kind, value);
        }
    }
    out.put_bytes(column.note.as_bytes());
}

fn put_parts(out: &mut Vec<u8>, parts: &[Part]) {
    out.put_varint(parts.len() as u64);
    for part in parts {
        out.put_bytes(part.column.as_bytes());
        out.put_u8(flags(&[(part.descending, flag::DESCENDING), (part.path.is_some(), flag::PATH)]));
        let number = Collation::ALL.iter().position(|known| *known == part.collation);
        out.put_u8(number.expect("ALL has all") as u8);
        part.path.iter().for_each(|path| out.put_bytes(path.as_bytes()));
    }
}

/// Reads the schema of table `name`.
///
/// # Errors
/// `Corruption` if the bytes are not a schema, or are an impossible one.
pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Schema> {
    let damaged = |what: &str| {
        let bytes = bytes.len();
        Error::corruption(format!(
            "the catalog's record of table {name:?} ({bytes} bytes) cannot be decoded as a schema: {what}"
        ))
    };
    if bytes.first().is_some_and(|format| *format != FORMAT) {
        return Err(damaged(&format!("its format is {}, not {FORMAT}", bytes[0])));
    }
    let schema = read(name, bytes).ok_or_else(|| damaged("it is too short or too long"))?;
    schema.check().map_err(|message| damaged(&message))?;
    Ok(schema)
}

fn read(name: &str, bytes: &[u8]) -> Option<Schema> {
    let mut reader = Reader::new(&bytes[1.min(bytes.len())..]);
    let reader = &mut reader;
    let [id, version, next_index] = [number(reader)?, number(reader)?, number(reader)?];
    let note = read_text(reader)?.to_owned();
    let columns = many(reader, read_column)?;
    let key = many(reader, read_part)?;
    let indexes = many(reader, |reader| {
        let (id, name, flags) = (number(reader)?, read_text(reader)?.to_owned(), reader.u8()?);
        let (unique, building) = (flags & flag::UNIQUE != 0, flags & flag::BUILDING != 0);
        Some(Index { id, name, parts: many(reader, read_part)?, unique, building })
    })?;
    let name = name.to_owned();
    reader.is_empty().then_some(Schema { id, version, name, note, columns, key, indexes, next_index })
}

fn number(reader: &mut Reader<'_>) -> Option<u32> {
    u32::try_from(reader.varint()?).ok()
}

/// Reads a count and that number of items. It allocates no more memory than the bytes can justify.
fn many<'a, T>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = reader.varint()?;
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(read(reader)?);
    }
    Some(found)
}

fn read_column(reader: &mut Reader<'_>) -> Option<Column> {
    let name = read_text(reader)?.to_owned();
    let kind = *ColumnType::ALL.get(usize::from(reader.u8()?))?;
    let flags = reader.u8()?;
    let added = number(reader)?;
    let dropped = if flags & flag::DROPPED != 0 { Some(number(reader)?) } else { None };
    let default = match flags & flag::DEFAULT {
        0 => None,
        _ => Some(match reader.u8()? {
            0 => Value::Null,
            1 => read_value(reader, kind)?.into_owned(),
            _ => return None,
        }),
    };
    let nullable = flags & flag::NULLABLE != 0;
    let (note, when_absent) = (read_text(reader)?.to_owned(), WhenAbsent::Default);
    Some(Column { name, kind, nullable, default, note, added, dropped, when_absent })
}

fn read_part(reader: &mut Reader<'_>) -> Option<Part> {
    let column = read_text(reader)?.to_owned();
    let flags = reader.u8()?;
    let collation = *Collation::ALL.get(usize::from(reader.u8()?))?;
    let path = if flags & flag::PATH != 0 { Some(read_text(reader)?.to_owned()) } else { None };
    Some(Part { column, descending: flags & flag::DESCENDING != 0, collation, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Definition, IndexDefinition};
    use base::env::Random;

    fn schema() -> Schema {
        let definition = Definition::new("t")
            .note("a note")
            .column(Column::new("id", ColumnType::UInt).note("INTEGER"))
            .column(Column::new("name", ColumnType::Text).default("?"))
            .column(Column::new("any", ColumnType::Any).nullable().default(Value::Null))
            .column(Column::new("doc", ColumnType::Json).nullable())
            .key([Part::new("name").collation(Collation::NoCase), Part::new("id").descending()])
            .index(IndexDefinition::new("i", [Part::new("doc").path("/a/b"), Part::new("any")]).unique());
        let mut schema = Schema::from_definition(&definition, 7).unwrap();
        schema.version = 9;
        schema.columns[2].dropped = Some(5);
        schema.indexes[0].parts.pop();
        schema
    }

    #[test]
    fn a_schema_comes_back() {
        let schema = schema();
        assert_eq!(decode("t", &encode(&schema)).unwrap(), schema);
    }

    #[test]
    fn damaged_schemas_are_corruption() {
        let good = encode(&schema());
        for cut in 0..good.len() {
            assert_eq!(decode("t", &good[..cut]).unwrap_err().kind(), pando::ErrorKind::Corruption);
        }
        let mut random = Random::seeded(5);
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            if let Err(error) = decode("t", &bytes) {
                assert_eq!(error.kind(), pando::ErrorKind::Corruption, "{error}");
            }
        }
    }
}
