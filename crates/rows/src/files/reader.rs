//! A reader of the rows of an input, one after the other.
//!
//! 1. The columns that the input names must be the table's. A column that the input lacks is null or its default, if
//!    the column allows that.
//! 2. Each field is read as a value of its column's type: see [`ColumnType::parse`](crate::ColumnType::parse).
//! 3. An error names its line and column.
//! 4. One record is in memory at a time, and its length is limited before it is read.

use super::input::{Quotes, Refused, Text, other_delimiter};
use super::{ImportError, RowFormat, RowSource};
use crate::definition::Column;
use crate::table::{DynamicRow, DynamicTable};
use crate::value::Value;
use std::io::{self, BufRead, BufReader, Read};

/// A reader of a table's rows in CSV or NDJSON.
pub struct RowReader<R> {
    source: Source<R>,
    delimiter: u8,
    line: u64,
    most_record_bytes: u64,
}

enum Source<R> {
    Csv { reader: Box<csv::Reader<Quotes<Text<Metered<R>>>>>, record: csv::ByteRecord, places: Vec<usize> },
    Ndjson { reader: BufReader<Text<Metered<R>>>, text: Vec<u8> },
}

type Outcome<T> = Result<T, ImportError>;

impl<R: Read> RowReader<R> {
    /// Creates a reader of `input` without a limit on the length of a row.
    pub fn new(input: R, format: RowFormat) -> Self {
        RowReader::bounded(input, format, b',', u64::MAX)
    }

    /// Creates a reader of CSV with `delimiter` between fields instead of a comma.
    pub fn delimited(input: R, delimiter: u8) -> Self {
        RowReader::bounded(input, RowFormat::Csv, delimiter, u64::MAX)
    }

    /// Creates a reader of `input`; `delimiter` separates the fields of CSV. A row of more than about
    /// `most_record_bytes` is an error, and is not kept in memory.
    pub fn bounded(input: R, format: RowFormat, delimiter: u8, most_record_bytes: u64) -> Self {
        let input = Text::new(Metered { inner: input, left: most_record_bytes, is_spent: false });
        let source = match format {
            RowFormat::Csv => Source::Csv {
                reader: Box::new(
                    csv::ReaderBuilder::new().delimiter(delimiter).from_reader(Quotes::new(input, delimiter)),
                ),
                record: csv::ByteRecord::new(),
                places: Vec::new(),
            },
            RowFormat::Ndjson => Source::Ndjson { reader: BufReader::new(input), text: Vec::new() },
        };
        RowReader { source, delimiter, line: 0, most_record_bytes }
    }

    fn format(&self) -> RowFormat {
        match &self.source {
            Source::Csv { .. } => RowFormat::Csv,
            Source::Ndjson { .. } => RowFormat::Ndjson,
        }
    }

    /// Returns the line on which the last row that was read begins.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Finds the columns of a CSV header in the table, before the first row.
    fn match_columns(&mut self, table: &DynamicTable) -> Outcome<()> {
        let Source::Csv { reader, .. } = &mut self.source else { return Ok(()) };
        self.line = 1;
        let header = reader.headers().cloned();
        let header = header.map_err(|error| self.csv_failure(error))?;
        if header.is_empty() {
            return Err(ImportError::Wrong("the CSV input has no header".to_owned()));
        }
        if let Some(hint) = other_delimiter(&header.iter().collect::<Vec<_>>(), self.delimiter) {
            // The table may have a column of this name.
            if table.schema().place(&header[0]).is_none() {
                return Err(ImportError::Wrong(hint));
            }
        }
        let mut found = Vec::new();
        for name in &header {
            let place = table.schema().place(name);
            let place =
                place.ok_or_else(|| ImportError::Wrong(format!("CSV line 1: {}", unknown(table, name))))?;
            if found.contains(&place) {
                return Err(ImportError::Wrong(format!("CSV line 1: column {name:?} appears twice")));
            }
            found.push(place);
        }
        if let Source::Csv { places, .. } = &mut self.source {
            *places = found;
        }
        Ok(())
    }

    fn next_csv(&mut self, table: &DynamicTable, row: &mut [Option<Value<'static>>]) -> Outcome<bool> {
        let Source::Csv { reader, record, .. } = &mut self.source else { return Ok(false) };
        reader.get_mut().inner_mut().inner_mut().left = self.most_record_bytes;
        match reader.read_byte_record(record) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => return Err(self.csv_failure(error)),
        }
        self.line = record.position().map_or(self.line + 1, csv::Position::line);
        let Source::Csv { record, places, .. } = &self.source else { return Ok(false) };
        let columns: Vec<&Column> = table.schema().columns().collect();
        for (&place, field) in places.iter().zip(record) {
            let column = columns[place];
            let text = std::str::from_utf8(field)
                .map_err(|_| self.wrong(column.name(), "its value is not UTF-8"))?;
            let value = column.column_type().parse(text);
            row[place] = Some(value.map_err(|message| self.wrong(column.name(), message))?);
        }
        Ok(true)
    }

    fn next_ndjson(&mut self, table: &DynamicTable, row: &mut [Option<Value<'static>>]) -> Outcome<bool> {
        let Source::Ndjson { reader, text } = &mut self.source else { return Ok(false) };
        loop {
            text.clear();
            reader.get_mut().inner_mut().left = self.most_record_bytes;
            match reader.read_until(b'\n', text) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(cause) => return Err(self.unreadable(cause)),
            }
            self.line += 1;
            if !text.trim_ascii().is_empty() {
                break;
            }
        }
        let Source::Ndjson { text, .. } = &self.source else { return Ok(false) };
        let wrong = |error: serde_json::Error| {
            ImportError::Wrong(format!("{}: {}", self.place(), json_problem(&error)))
        };
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(text).map_err(wrong)?;
        let columns: Vec<&Column> = table.schema().columns().collect();
        for (name, json) in &object {
            let place = table.schema().place(name);
            let nowhere = || ImportError::Wrong(format!("{}: {}", self.place(), unknown(table, name)));
            let place = place.ok_or_else(nowhere)?;
            let value = columns[place].column_type().parse_json(json);
            row[place] = Some(value.map_err(|message| self.wrong(name, message))?);
        }
        Ok(true)
    }

    fn wrong(&self, column: &str, message: impl std::fmt::Display) -> ImportError {
        ImportError::Wrong(format!("{}, column {column:?}: {message}", self.place()))
    }

    fn csv_failure(&self, error: csv::Error) -> ImportError {
        let message = error.to_string();
        match error.into_kind() {
            csv::ErrorKind::Io(cause) => self.unreadable(cause),
            _ => ImportError::Wrong(message),
        }
    }

    /// Converts an error of reading: the record is too long, or the input failed.
    fn unreadable(&self, cause: io::Error) -> ImportError {
        let is_spent = match &self.source {
            Source::Csv { reader, .. } => reader.get_ref().inner().inner().is_spent,
            Source::Ndjson { reader, .. } => reader.get_ref().inner().is_spent,
        };
        if let Some(what) = Refused::in_error(&cause) {
            return ImportError::Wrong(what.to_owned());
        }
        if !is_spent {
            return ImportError::Unreadable(self.format(), cause);
        }
        let (format, after, most) = (self.format(), self.line, self.most_record_bytes);
        ImportError::Wrong(format!("{format}, after line {after}: a record is longer than {most} bytes"))
    }
}

impl<R: Read> RowSource for RowReader<R> {
    fn begin(&mut self, table: &DynamicTable) -> Outcome<()> {
        self.match_columns(table)
    }

    fn next_row(&mut self, table: &DynamicTable) -> Outcome<Option<DynamicRow>> {
        let mut row: Vec<Option<Value<'static>>> = vec![None; table.schema().columns().count()];
        let found = match self.format() {
            RowFormat::Csv => self.next_csv(table, &mut row)?,
            RowFormat::Ndjson => self.next_ndjson(table, &mut row)?,
        };
        if !found {
            return Ok(None);
        }
        let filled = row.into_iter().zip(table.schema().columns()).map(|(value, column)| match value {
            Some(value) => Ok(value),
            None => column
                .value_if_absent()
                .ok_or_else(|| self.wrong(column.name(), "is missing, and has no default")),
        });
        filled.collect::<Outcome<_>>().map(Some)
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn place(&self) -> String {
        format!("{} line {}", self.format(), self.line)
    }
}

/// Returns what is wrong with a line of JSON, with the column but without the line, which the caller knows.
pub fn json_problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    match error.is_eof() {
        true => format!("the line ends in the middle of its JSON ({what}); is the input cut off?"),
        false => format!("{what}, at column {}", error.column()),
    }
}

/// An input with a limit on the bytes that are read for one record.
struct Metered<R> {
    inner: R,
    /// The bytes that may still be read for the record.
    left: u64,
    /// Whether the limit was reached.
    is_spent: bool,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.is_spent = true;
            return Err(io::Error::other("a record is too long"));
        }
        let most = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let bytes = self.inner.read(&mut out[..most])?;
        self.left -= bytes as u64;
        Ok(bytes)
    }
}

fn unknown(table: &DynamicTable, name: &str) -> String {
    let known: Vec<_> = table.schema().columns().map(Column::name).collect();
    format!("there is no column {name:?} in table {:?}, which has {}", table.name(), known.join(", "))
}
