//! Rows as values of records: what the key does not tell, compactly, and readable by every later schema.
//!
//! | bytes | field |
//! |---|---|
//! | varint | the schema's version when it was written |
//! | 1 for each 8 columns that may be null | bit set: null; the first such column is the lowest bit |
//! | then, in the order of the columns, each that is not null | |
//! | varint | int, timestamp: zigzag; uint: as it is |
//! | 8 | float, little-endian |
//! | 1 | bool |
//! | 16 | uuid |
//! | varint, bytes | text, bytes, json |
//! | 1, then as above | any: the type's number in [`ColumnType::ALL`] first |
//!
//! Columns that the key gives back are left out. Which columns a version had is in the schema, so a new column costs
//! old rows nothing: they lack it, and it reads as its default.

use crate::value::{ColumnType, Value};
use base::codec::{Reader, Writer};
use std::borrow::Cow;

/// One stored column of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub kind: ColumnType,
    pub nullable: bool,
    /// Its place in rows of the present schema; `None`: it was dropped.
    pub place: Option<usize>,
}

/// Appends what `stored` says of a row whose values `value` lends by place. All have been checked.
pub(crate) fn encode<'v>(
    out: &mut Vec<u8>,
    version: u32,
    stored: &[Stored],
    value: impl Fn(usize) -> Value<'v>,
) {
    out.put_varint(u64::from(version));
    let bits_at = out.len();
    let nullable = stored.iter().filter(|column| column.nullable).count();
    out.resize(bits_at + nullable.div_ceil(8), 0);
    let mut bit = 0;
    for column in stored {
        let place = column.place.expect("a row is written by the present schema");
        let value = value(place);
        if column.nullable {
            out[bits_at + bit / 8] |= u8::from(value.is_null()) << (bit % 8);
            bit += 1;
        }
        if !value.is_null() {
            push_value(out, column.kind, &value);
        }
    }
}

/// The version of the schema that a row was written by.
pub(crate) fn version_of(row: &[u8]) -> Option<u32> {
    u32::try_from(Reader::new(row).varint()?).ok()
}

/// Reads a row of the version whose columns are `stored` and hands out the values of those that still are, and that
/// are `wanted` by their place: others are passed over. `None`: the bytes are no such row.
#[inline]
pub(crate) fn decode<'a>(
    row: &'a [u8],
    stored: &[Stored],
    wanted: impl Fn(usize) -> bool,
    mut found: impl FnMut(usize, Value<'a>),
) -> Option<()> {
    let mut reader = Reader::new(row);
    reader.varint()?;
    let nullable = stored.iter().filter(|column| column.nullable).count();
    let bits = reader.take(nullable.div_ceil(8))?;
    let mut bit = 0;
    for column in stored {
        let mut is_null = false;
        if column.nullable {
            is_null = bits[bit / 8] >> (bit % 8) & 1 == 1;
            bit += 1;
        }
        match column.place.filter(|place| wanted(*place)) {
            Some(place) if is_null => found(place, Value::Null),
            Some(place) => found(place, read_value(&mut reader, column.kind)?),
            None if is_null => {}
            None => pass_over(&mut reader, column.kind)?,
        }
    }
    reader.is_empty().then_some(())
}

/// Appends a value, not null, of a column of type `kind`.
pub(crate) fn push_value(out: &mut Vec<u8>, kind: ColumnType, value: &Value<'_>) {
    if kind == ColumnType::Any {
        let own = value.column_type().expect("not null");
        out.push(number_of(own));
    }
    match value {
        Value::Null => {}
        Value::Text(text) | Value::Json(text) => out.put_bytes(text.as_bytes()),
        Value::Bytes(value) => out.put_bytes(value),
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Int(value) | Value::Timestamp(value) => {
            out.put_varint((*value as u64) << 1 ^ (*value >> 63) as u64);
        }
        Value::UInt(value) => out.put_varint(*value),
        Value::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Uuid(value) => out.extend_from_slice(value),
    }
}

/// The number of a type on disk.
pub(crate) fn number_of(kind: ColumnType) -> u8 {
    ColumnType::ALL.iter().position(|known| *known == kind).expect("ALL has all") as u8
}

/// Reads a value, not null, of a column of type `kind`. What is not there, or means nothing, is `None`.
pub(crate) fn read_value<'a>(reader: &mut Reader<'a>, kind: ColumnType) -> Option<Value<'a>> {
    let zigzag = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
    Some(match kind {
        ColumnType::Any => {
            let own = *ColumnType::ALL.get(usize::from(reader.u8()?))?;
            if matches!(own, ColumnType::Any | ColumnType::Json) {
                return None;
            }
            return read_value(reader, own);
        }
        ColumnType::Bool => match reader.u8()? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return None,
        },
        ColumnType::Int => Value::Int(zigzag(reader.varint()?)),
        ColumnType::Timestamp => Value::Timestamp(zigzag(reader.varint()?)),
        ColumnType::UInt => Value::UInt(reader.varint()?),
        ColumnType::Float => Value::Float(f64::from_le_bytes(reader.array()?)),
        ColumnType::Uuid => Value::Uuid(reader.array()?),
        ColumnType::Bytes => Value::Bytes(Cow::Borrowed(reader.bytes()?)),
        ColumnType::Text => Value::Text(Cow::Borrowed(read_text(reader)?)),
        ColumnType::Json => Value::Json(Cow::Borrowed(read_text(reader)?)),
    })
}

/// Passes over a value, not null, of a column of type `kind`: what it holds is not looked at.
fn pass_over(reader: &mut Reader<'_>, kind: ColumnType) -> Option<()> {
    match kind {
        ColumnType::Text | ColumnType::Json | ColumnType::Bytes => reader.bytes().map(drop),
        ColumnType::Int | ColumnType::Timestamp | ColumnType::UInt => reader.varint().map(drop),
        _ => read_value(reader, kind).map(drop),
    }
}

/// Reads a length and so many bytes of UTF-8.
pub(crate) fn read_text<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    std::str::from_utf8(reader.bytes()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(kinds: &[(ColumnType, bool)]) -> Vec<Stored> {
        let place = |(at, &(kind, nullable))| Stored { kind, nullable, place: Some(at) };
        kinds.iter().enumerate().map(place).collect()
    }

    proptest! {
        #[test]
        fn rows_come_back(version: u32, int: i64, uint: u64, float: f64, text: String, bytes: Vec<u8>,
                          uuid: [u8; 16], flags: [bool; 3]) {
            let values = [
                Value::Int(int), Value::from(flags[0].then_some(uint)), Value::Float(float),
                Value::from(flags[1].then(|| text.clone())), Value::from(bytes), Value::Uuid(uuid),
                Value::Bool(flags[2]), Value::Timestamp(int), Value::from(text),
            ];
            let columns = stored(&[
                (ColumnType::Int, false), (ColumnType::UInt, true), (ColumnType::Float, false),
                (ColumnType::Text, true), (ColumnType::Any, true), (ColumnType::Uuid, true),
                (ColumnType::Bool, false), (ColumnType::Timestamp, true), (ColumnType::Any, false),
            ]);
            let mut row = Vec::new();
            encode(&mut row, version, &columns, |place| values[place].borrowed());
            prop_assert_eq!(version_of(&row), Some(version));
            let mut back = vec![None; values.len()];
            decode(&row, &columns, |_| true, |place, value| back[place] = Some(value)).unwrap();
            for (one, wanted) in values.iter().enumerate() {
                let only = |place, value: Value<'_>| assert!(place == one && value == *wanted);
                decode(&row, &columns, |place| place == one, only).unwrap();
            }
            for (back, value) in back.iter().zip(&values) {
                prop_assert_eq!(back.as_ref(), Some(value));
                prop_assert_eq!(back.as_ref().unwrap().column_type(), value.column_type());
            }
            for cut in 0..row.len() {
                let short = decode(&row[..cut], &columns, |_| true, |_, _| ());
                prop_assert!(short.is_none());
            }
        }

        #[test]
        fn no_bytes_panic(row: Vec<u8>, kinds: Vec<(u8, bool)>) {
            let kind = |&(k, n): &(u8, bool)| (ColumnType::ALL[usize::from(k) % 10], n);
            let kinds: Vec<_> = kinds.iter().map(kind).collect();
            decode(&row, &stored(&kinds), |_| true, |_, _| {});
            decode(&row, &stored(&kinds), |place| place % 2 == 0, |_, _| {});
        }
    }
}
