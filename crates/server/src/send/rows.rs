//! Rows as objects of JSON.

use crate::wire::form::without_cut_character;
use rows::{ColumnType, Value};
use serde_json::{Map, Value as Json};

/// Writes a row as an object with a member for each column. Of a value of text, bytes or JSON with more than
/// `most_bytes`, it has the beginning, as a string. Returns the lengths of these values in bytes.
pub fn write_row<'c, 'v: 'c>(
    row: impl Iterator<Item = (&'c str, ColumnType, &'c Value<'v>)>,
    most_bytes: usize,
    out: &mut Vec<u8>,
) -> Map<String, Json> {
    let mut cut = Map::new();
    out.push(b'{');
    for (at, (name, kind, value)) in row.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_json(name, out);
        out.push(b':');
        match beginning(value, most_bytes) {
            Some((beginning, len_bytes)) => {
                cut.insert(name.to_owned(), len_bytes.into());
                write_json(&beginning.to_json(kind), out);
            }
            None => write_json(&value.to_json(kind), out),
        }
    }
    out.push(b'}');
    cut
}

/// Returns the first `most` bytes of a value that is longer, and its length in bytes.
fn beginning<'v>(value: &'v Value<'_>, most: usize) -> Option<(Value<'v>, usize)> {
    let bytes = match value {
        Value::Text(text) | Value::Json(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        _ => return None,
    };
    let front = bytes.get(..most).filter(|front| front.len() < bytes.len())?;
    let front = match value {
        Value::Bytes(_) => Value::Bytes(front.into()),
        _ => Value::Text(String::from_utf8_lossy(without_cut_character(front)).into_owned().into()),
    };
    Some((front, bytes.len()))
}

/// Writes a value of JSON.
pub fn write_json(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a vector takes everything");
}
