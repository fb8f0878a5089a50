//! Reads CSV rows as records.
//!
//! The key is the named column, or the first. The value is the named column. Without a name it is the second of two
//! columns, or else the whole row as a JSON object, in the order of the columns. With exactly the columns `key`,
//! `value` and `ttl_ms`, as `export` writes them, the third is how many milliseconds the entry lives, or empty.

use super::items::{Item, Record};
use crate::failure::{Failure, Outcome};
use csv::{ByteRecord, Reader, ReaderBuilder};
use rows::{Quotes, Refused, Text, other_delimiter};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io::Read;
use std::time::Duration;

/// The columns that `export` writes for a table with a TTL by key.
const EXPORTED: [&str; 3] = ["key", "value", "ttl_ms"];

/// The records of one CSV input.
pub struct Records {
    reader: Reader<Quotes<Text<Box<dyn Read>>>>,
    columns: Vec<String>,
    key: usize,
    /// The column of the value; `None`: the whole row.
    value: Option<usize>,
    /// The column of the TTL.
    ttl: Option<usize>,
    row: ByteRecord,
}

impl Records {
    /// Reads the header and finds the columns.
    pub fn new(input: Box<dyn Read>, delimiter: u8, key: Option<&str>, value: Option<&str>) -> Outcome<Self> {
        let input = Quotes::new(Text::new(input), delimiter);
        let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(input);
        let header = reader.headers().map_err(wrong)?;
        let columns: Vec<String> = header.iter().map(str::to_owned).collect();
        if columns.is_empty() {
            return Err(Failure::Failed("the CSV input has no header".to_owned()));
        }
        let names: Vec<&str> = columns.iter().map(|name| &name[..]).collect();
        if let Some(hint) = other_delimiter(&names, delimiter).filter(|_| key.is_none()) {
            return Err(Failure::Failed(hint));
        }
        let find = |name: &str| {
            let among =
                || Failure::Usage(format!("there is no column {name:?} among {}", columns.join(", ")));
            columns.iter().position(|column| column == name).ok_or_else(among)
        };
        let is_exported = key.is_none() && value.is_none() && columns == EXPORTED;
        if is_exported {
            return Ok(Records {
                reader,
                columns,
                key: 0,
                value: Some(1),
                ttl: Some(2),
                row: ByteRecord::new(),
            });
        }
        let (key_name, value_name) = (key, value);
        let key = key.map_or(Ok(0), find)?;
        let other = (columns.len() == 2).then_some(1 - key.min(1));
        let value = value.map(find).transpose()?.or(other);
        // Two columns of one name: it is unclear which one an option means, and an object would have the name twice.
        let is_repeated = |name: &&str| names.iter().filter(|other| *other == name).count() > 1;
        let of_object = if value.is_none() { &names[..] } else { &[] };
        let mut used = key_name.into_iter().chain(value_name).chain(of_object.iter().copied());
        if let Some(name) = used.find(is_repeated) {
            return Err(Failure::Failed(format!("CSV line 1: column {name:?} appears twice")));
        }
        Ok(Records { reader, columns, key, value, ttl: None, row: ByteRecord::new() })
    }

    fn item(&self) -> Outcome<Item> {
        let value = match self.value {
            Some(column) => self.row[column].to_vec(),
            None => {
                let row = JsonRow { columns: &self.columns, row: &self.row };
                serde_json::to_vec(&row).map_err(|error| Failure::Failed(self.place(&error)))?
            }
        };
        let ttl = self.ttl.map(|column| &self.row[column]).filter(|field| !field.is_empty());
        let ttl = ttl.map(|field| {
            let ms = str::from_utf8(field).ok().and_then(|digits| digits.parse().ok());
            let wrong = "`ttl_ms` is not a whole number of milliseconds, or empty";
            ms.map(Duration::from_millis).ok_or_else(|| Failure::Failed(self.place(&wrong)))
        });
        Ok(Item::Record(Record { key: self.row[self.key].to_vec(), value, ttl: ttl.transpose()? }))
    }

    fn place(&self, message: &impl std::fmt::Display) -> String {
        let line = self.row.position().map_or(0, csv::Position::line);
        format!("CSV line {line}: {message}")
    }
}

impl Iterator for Records {
    type Item = Outcome<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.read_byte_record(&mut self.row) {
            Ok(true) => Some(self.item()),
            Ok(false) => None,
            Err(error) => Some(Err(wrong(error))),
        }
    }
}

fn wrong(error: csv::Error) -> Failure {
    let message = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(cause) if Refused::in_error(&cause).is_some() => {
            Failure::Failed(Refused::in_error(&cause).unwrap_or_default().to_owned())
        }
        csv::ErrorKind::Io(cause) => Failure::system("read the CSV input", cause),
        _ => Failure::Failed(message),
    }
}

/// A row as an object of strings.
struct JsonRow<'a> {
    columns: &'a [String],
    row: &'a ByteRecord,
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        for (column, field) in self.columns.iter().zip(self.row) {
            let text = std::str::from_utf8(field).map_err(|_| {
                let message = format!("column {column:?} is not UTF-8; choose one column with --value");
                serde::ser::Error::custom(message)
            })?;
            map.serialize_entry(column, text)?;
        }
        map.end()
    }
}
