//! Documents with their addresses, and with long values cut: the lines of a range with `value_bytes`.
//!
//! ```json
//! {"document":{"id":3,"photo":"ffd8"},"cut":{"photo":31457280},"key":"3","cursor":"0303"}
//! ```
//!
//! 1. `document` has a member for each column. Of a value of text, bytes or JSON that is longer than the limit, it has
//!    the beginning, as a string. `cut` has the lengths of these values in bytes, and is missing if there are none.
//! 2. `key` is the primary key as it stands in an address.
//! 3. `cursor` is the position of the document, for a range that continues after it, in either direction.

use crate::send::rows::{write_json, write_row};
use crate::wire::digits::hex;
use rows::{ColumnType, DynamicTable, Position, Value};
use serde_json::Value as Json;
use std::fmt::Write as _;

/// A writer of such lines.
#[derive(Debug)]
pub struct Described {
    columns: Vec<(String, ColumnType)>,
    /// The column and the type of each part of the primary key.
    key: Vec<(usize, ColumnType)>,
    value_bytes: usize,
}

impl Described {
    /// Creates a writer for rows of `table` that cuts values to `value_bytes`.
    pub fn new(table: &DynamicTable, value_bytes: u64) -> Self {
        let schema = table.schema();
        let columns: Vec<_> =
            schema.columns().map(|column| (column.name().to_owned(), column.column_type())).collect();
        let key = table.key_columns().map(|(place, column)| (place, column.column_type())).collect();
        Described { columns, key, value_bytes: usize::try_from(value_bytes).unwrap_or(usize::MAX) }
    }

    /// Writes a row, all but the end of its line.
    pub fn begin(&self, row: &[Value<'_>], out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"document\":");
        let named = row.iter().zip(&self.columns).map(|(value, (name, kind))| (&name[..], *kind, value));
        let cut = write_row(named, self.value_bytes, out);
        if !cut.is_empty() {
            out.extend_from_slice(b",\"cut\":");
            write_json(&Json::Object(cut), out);
        }
        out.extend_from_slice(b",\"key\":");
        write_json(&self.address(row), out);
    }

    /// Writes the end of the line of a row at this position.
    pub fn end(&self, position: Option<&Position>, out: &mut Vec<u8>) {
        if let Some(position) = position {
            out.extend_from_slice(b",\"cursor\":");
            write_json(&hex(position.as_bytes()), out);
        }
        out.extend_from_slice(b"}\n");
    }

    /// Returns the primary key of a row as it stands in an address.
    fn address(&self, row: &[Value<'_>]) -> String {
        let mut address = String::new();
        for (at, (place, kind)) in self.key.iter().enumerate() {
            if at > 0 {
                address.push('/');
            }
            for byte in row[*place].to_text(*kind).bytes() {
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        address.push(byte as char)
                    }
                    byte => drop(write!(address, "%{byte:02X}")),
                }
            }
        }
        address
    }
}
