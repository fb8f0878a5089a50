//! Reads CSV rows as records.
//!
//! The key is the named column, or the first. The value is the named column. Without a name it is the second of two
//! columns, or else the whole row as a JSON object, in the order of the columns.

use super::items::Item;
use crate::failure::{Failure, Outcome};
use csv::{ByteRecord, Reader, ReaderBuilder};
use rows::{Quotes, Refused, Text, other_delimiter};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io::Read;

/// The records of one CSV input.
pub struct Records {
    reader: Reader<Quotes<Text<Box<dyn Read>>>>,
    columns: Vec<String>,
    key: usize,
    /// The column of the value; `None`: the whole row.
    value: Option<usize>,
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
        let key = key.map_or(Ok(0), find)?;
        let other = (columns.len() == 2).then_some(1 - key.min(1));
        let value = value.map(find).transpose()?.or(other);
        Ok(Records { reader, columns, key, value, row: ByteRecord::new() })
    }

    fn item(&self) -> Outcome<Item> {
        let value = match self.value {
            Some(column) => self.row[column].to_vec(),
            None => {
                let row = JsonRow { columns: &self.columns, row: &self.row };
                serde_json::to_vec(&row).map_err(|error| Failure::Failed(self.place(&error)))?
            }
        };
        Ok(Item::Record(self.row[self.key].to_vec(), value))
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
