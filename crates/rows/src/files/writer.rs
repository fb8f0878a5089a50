//! A writer of rows to a file.

use super::RowFormat;
use crate::definition::Column;
use crate::table::DynamicTable;
use crate::value::{ColumnType, Value};
use std::io::{self, Write};

/// A writer of one table's rows, with all columns in their order.
///
/// ```
/// use pando_rows::{Definition, DynamicTable, RowFormat, RowWriter, Value};
/// # fn main() -> pando::Result<()> {
/// # let db = pando::Database::builder().in_memory()?;
/// let definition = Definition::parse("people", "id int key, name text null")?;
/// let people = db.write(|tx| DynamicTable::create(tx, &definition))?;
/// let mut out = Vec::new();
/// let mut writer = RowWriter::new(&people, RowFormat::Csv, &mut out);
/// writer.header().unwrap();
/// writer.row(&[Value::from(1), Value::Null]).unwrap();
/// writer.flush().unwrap();
/// drop(writer);
/// assert_eq!(out, b"id,name\n1,\\N\n");
/// # Ok(())
/// # }
/// ```
pub struct RowWriter<W: Write> {
    columns: Vec<(String, ColumnType)>,
    out: Out<W>,
}

enum Out<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Ndjson { out: W, line: Vec<u8> },
}

impl<W: Write> RowWriter<W> {
    /// Creates a writer of rows of `table` to `out`.
    pub fn new(table: &DynamicTable, format: RowFormat, out: W) -> Self {
        let of = |column: &Column| (column.name().to_owned(), column.column_type());
        let columns = table.schema().columns().map(of).collect();
        let out = match format {
            RowFormat::Csv => Out::Csv(Box::new(csv::Writer::from_writer(out))),
            RowFormat::Ndjson => Out::Ndjson { out, line: Vec::new() },
        };
        RowWriter { columns, out }
    }

    /// Writes what comes before the first row: in CSV, the names of the columns.
    pub fn header(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Csv(out) => out.write_record(self.columns.iter().map(|(name, _)| name)).map_err(cause),
            Out::Ndjson { .. } => Ok(()),
        }
    }

    /// Writes a row, which must have one value for each column.
    pub fn row(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        let values = row.iter().zip(&self.columns);
        match &mut self.out {
            Out::Csv(out) => {
                let texts = values.map(|(value, (_, kind))| value.to_text(*kind));
                out.write_record(texts).map_err(cause)
            }
            Out::Ndjson { out, line } => {
                line.clear();
                for (at, (value, (name, kind))) in values.enumerate() {
                    line.push(if at == 0 { b'{' } else { b',' });
                    serde_json::to_writer(&mut *line, name)?;
                    line.push(b':');
                    serde_json::to_writer(&mut *line, &value.to_json(*kind))?;
                }
                line.extend_from_slice(b"}\n");
                out.write_all(line)
            }
        }
    }

    /// Writes the buffered rows to the output.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Csv(out) => out.flush(),
            Out::Ndjson { out, .. } => out.flush(),
        }
    }

    /// Returns the output. It does not have the buffered rows.
    pub fn get_ref(&self) -> &W {
        match &self.out {
            Out::Csv(out) => out.get_ref(),
            Out::Ndjson { out, .. } => out,
        }
    }
}

/// Converts an error of the output. A closed pipe keeps its error kind.
fn cause(error: csv::Error) -> io::Error {
    let message = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => cause,
        _ => io::Error::other(message),
    }
}
