//! Writes rows to standard output in the chosen format.
//!
//! * `table`: for people. Control characters are escaped, bytes that are not UTF-8 are shown as `0x` and hex, and long
//!   cells are shortened. Column widths come from the first rows, so that a scan of any length streams.
//! * `ndjson`, `json`: one object for each row, on its own line; `json` puts them into one array. A cell of bytes that
//!   are not UTF-8 is written in hex, under its name with the suffix `_hex`.
//! * `csv`: RFC 4180, with a header. Bytes are not encoded.
//!
//! `import` reads `ndjson` and `csv` of keys and values.

use crate::failure::{Failure, Outcome};
use crate::text;
use clap::{Args, ValueEnum};
use std::fmt;
use std::io::{self, BufWriter, Write};

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns for reading
    #[default]
    Table,
    /// One JSON array of objects
    Json,
    /// One JSON object on each line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
}

/// The choice of a format.
#[derive(Args, Clone, Copy, Debug)]
pub struct FormatArgs {
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl FormatArgs {
    /// Returns the chosen format.
    pub fn format(self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// A value in a row.
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "what is of SQL is made by `sql` alone"))]
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// A number.
    Number(u64),
    /// A key or a value of any bytes.
    Bytes(&'a [u8]),
    /// An SQL null.
    Null,
    /// An SQL integer.
    Integer(i64),
    /// An SQL real.
    Real(f64),
    /// SQL bytes that are not text.
    Blob(&'a [u8]),
}

/// The number of rows from which the column widths of a table are computed.
pub const WIDTHS_FROM: usize = 100;
/// The widest cell of a table, in characters.
const WIDEST: usize = 60;

/// What a program can choose about a format.
#[derive(Clone, Debug)]
pub struct Looks {
    /// Whether a table and CSV begin with the names of the columns.
    pub header: bool,
    /// What stands for a null in a table and in CSV, if it is not the usual.
    pub null: Option<String>,
}

impl Default for Looks {
    fn default() -> Self {
        Looks { header: true, null: None }
    }
}

/// Writes rows of the same columns.
pub struct Rows<W: Write> {
    out: W,
    format: Format,
    looks: Looks,
    columns: Vec<String>,
    /// The first rows of a table, which are held until its widths are known.
    held: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
    count: u64,
}

/// Writes a line for people to standard output: `say!("{} files", count)?`.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::output::say_line(format_args!($($argument)*))
    };
}
pub(crate) use say;

/// Implements [`say!`].
pub fn say_line(line: fmt::Arguments<'_>) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Failure::stdout)
}

/// Returns standard output with a buffer.
pub fn stdout() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

impl<W: Write> Rows<W> {
    /// Creates a writer of rows of `columns` to `out`.
    pub fn new(out: W, format: Format, columns: &[impl AsRef<str>]) -> io::Result<Self> {
        Rows::with(out, format, columns, Looks::default())
    }

    /// Creates a writer that writes rows as `looks` says.
    pub fn with(out: W, format: Format, columns: &[impl AsRef<str>], looks: Looks) -> io::Result<Self> {
        let names = columns.iter().map(|name| name.as_ref().to_owned()).collect();
        let mut rows = Rows { out, format, looks, columns: names, held: Vec::new(), widths: None, count: 0 };
        match format {
            Format::Csv if rows.looks.header => {
                rows.write_csv(columns.iter().map(|name| Cell::Bytes(name.as_ref().as_bytes())))?;
            }
            Format::Json => rows.out.write_all(b"[")?,
            Format::Table | Format::Ndjson | Format::Csv => {}
        }
        Ok(rows)
    }

    /// Writes one row, a cell for each column.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.count += 1;
        match self.format {
            Format::Table => self.table_row(cells),
            Format::Csv => self.write_csv(cells.iter().copied()),
            Format::Ndjson => {
                write_object(&mut self.out, &self.columns, cells)?;
                self.out.write_all(b"\n")
            }
            Format::Json => {
                self.out.write_all(if self.count == 1 { b"\n" } else { b",\n" })?;
                write_object(&mut self.out, &self.columns, cells)
            }
        }
    }

    /// Flushes what was written. The first rows of a table stay held.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes held rows and the end of the format, flushes, and returns the number of rows.
    pub fn finish(mut self) -> io::Result<u64> {
        match self.format {
            Format::Table => self.release_table()?,
            Format::Json => self.out.write_all(if self.count == 0 { b"]\n" } else { b"\n]\n" })?,
            Format::Csv | Format::Ndjson => {}
        }
        self.out.flush()?;
        Ok(self.count)
    }

    fn table_row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let null = self.looks.null.as_deref().unwrap_or("null");
        let shown: Vec<String> = cells.iter().map(|cell| shown(*cell, null)).collect();
        match &self.widths {
            Some(widths) => write_aligned(&mut self.out, &shown, widths),
            None => {
                self.held.push(shown);
                if self.held.len() == WIDTHS_FROM { self.release_table() } else { Ok(()) }
            }
        }
    }

    fn release_table(&mut self) -> io::Result<()> {
        if self.widths.is_some() || self.held.is_empty() {
            return Ok(());
        }
        let header = self.looks.header.then_some(&self.columns);
        let widths = widths(header.into_iter().chain(&self.held));
        if let Some(header) = header {
            write_aligned(&mut self.out, header, &widths)?;
        }
        for row in std::mem::take(&mut self.held) {
            write_aligned(&mut self.out, &row, &widths)?;
        }
        self.widths = Some(widths);
        Ok(())
    }

    fn write_csv<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> io::Result<()> {
        for (index, cell) in cells.enumerate() {
            if index > 0 {
                self.out.write_all(b",")?;
            }
            match cell {
                Cell::Number(number) => write!(self.out, "{number}")?,
                Cell::Bytes(bytes) | Cell::Blob(bytes) => write_csv_field(&mut self.out, bytes)?,
                // A null is not quoted; an empty text is.
                Cell::Null => {
                    self.out.write_all(self.looks.null.as_deref().unwrap_or_default().as_bytes())?
                }
                Cell::Integer(number) => write!(self.out, "{number}")?,
                Cell::Real(number) => write!(self.out, "{number:?}")?,
            }
        }
        self.out.write_all(b"\n")
    }
}

/// Returns a cell as a table for people shows it.
pub fn shown(cell: Cell<'_>, null: &str) -> String {
    match cell {
        Cell::Number(number) => text::count(number),
        // A long value is cut before it is made printable, because only its beginning is shown.
        Cell::Bytes(bytes) => text::shorten(text::show(beginning(bytes)), WIDEST),
        Cell::Null => null.to_owned(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => format!("{number:?}"),
        Cell::Blob(bytes) => {
            text::shorten(format!("0x{}", text::to_hex(&bytes[..bytes.len().min(WIDEST)])), WIDEST)
        }
    }
}

/// Returns the width of each column, in characters.
pub fn widths<'r>(rows: impl Iterator<Item = &'r Vec<String>>) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len(), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// Returns the longest beginning that can make `WIDEST` characters, cut at the end of a character.
fn beginning(bytes: &[u8]) -> &[u8] {
    const LONGEST_CHAR_BYTES: usize = 4;
    let Some(cut) = bytes.get(..(WIDEST + 1) * LONGEST_CHAR_BYTES) else { return bytes };
    match std::str::from_utf8(cut) {
        // The cut is within a character. The part before it is still long enough to be shortened.
        Err(error) if error.error_len().is_none() => &cut[..error.valid_up_to()],
        _ => cut,
    }
}

/// Writes cells with two spaces between columns and none after the last.
fn write_aligned(out: &mut impl Write, cells: &[String], widths: &[usize]) -> io::Result<()> {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count()) + 2));
    }
    writeln!(out, "{}", line.trim_end())
}

fn write_object(out: &mut impl Write, names: &[impl AsRef<str>], cells: &[Cell<'_>]) -> io::Result<()> {
    for (index, (name, cell)) in names.iter().zip(cells).enumerate() {
        out.write_all(if index == 0 { b"{" } else { b"," })?;
        let mut name = |suffix: &str| -> io::Result<()> {
            serde_json::to_writer(&mut *out, &format!("{}{suffix}", name.as_ref()))?;
            out.write_all(b":")
        };
        match cell {
            Cell::Bytes(bytes) if std::str::from_utf8(bytes).is_ok() => name("")?,
            Cell::Bytes(_) | Cell::Blob(_) => name("_hex")?,
            _ => name("")?,
        }
        match cell {
            Cell::Number(number) => write!(out, "{number}")?,
            Cell::Integer(number) => write!(out, "{number}")?,
            Cell::Real(number) if number.is_finite() => write!(out, "{number:?}")?,
            Cell::Null | Cell::Real(_) => out.write_all(b"null")?,
            Cell::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => serde_json::to_writer(&mut *out, text)?,
                Err(_) => write!(out, "\"{}\"", text::to_hex(bytes))?,
            },
            Cell::Blob(bytes) => write!(out, "\"{}\"", text::to_hex(bytes))?,
        }
    }
    out.write_all(b"}")
}

/// Writes a field, quoted if necessary. An empty field is quoted too, so that a row of one empty field is a row.
fn write_csv_field(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    if !bytes.is_empty() && !bytes.iter().any(|byte| b",\"\r\n".contains(byte)) {
        return out.write_all(bytes);
    }
    out.write_all(b"\"")?;
    for piece in bytes.split_inclusive(|byte| *byte == b'"') {
        out.write_all(piece)?;
        if piece.ends_with(b"\"") {
            out.write_all(b"\"")?;
        }
    }
    out.write_all(b"\"")
}

/// Writes one record of named fields. In a table, names and values are listed below each other; the other formats have
/// one object or one row.
pub fn write_record(format: Format, fields: &[(&str, Cell<'_>)]) -> Outcome {
    let (names, cells): (Vec<&str>, Vec<Cell<'_>>) = fields.iter().copied().unzip();
    let write = || -> io::Result<()> {
        let mut out = stdout();
        match format {
            Format::Table => {
                let mut rows = Rows::new(out, format, &["name", "value"])?;
                for (name, cell) in fields {
                    rows.row(&[Cell::Bytes(name.as_bytes()), *cell])?;
                }
                rows.finish().map(drop)
            }
            Format::Json => {
                write_object(&mut out, &names, &cells)?;
                out.write_all(b"\n")?;
                out.flush()
            }
            Format::Ndjson | Format::Csv => {
                let mut rows = Rows::new(out, format, &names)?;
                rows.row(&cells)?;
                rows.finish().map(drop)
            }
        }
    };
    write().map_err(Failure::stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, rows: &[(&[u8], u64)]) -> String {
        let mut out = Vec::new();
        let mut writer = Rows::new(&mut out, format, &["key", "count"]).unwrap();
        for (key, count) in rows {
            writer.row(&[Cell::Bytes(key), Cell::Number(*count)]).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), rows.len() as u64);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_format_says_the_same() {
        let rows: &[(&[u8], u64)] = &[(b"a", 1), (b"q\"\n", 20_000), (&[0xff], 3)];
        assert_eq!(written(Format::Table, rows), "key   count\na     1\nq\"\\n  20,000\n0xff  3\n");
        let ndjson = "{\"key\":\"a\",\"count\":1}\n{\"key\":\"q\\\"\\n\",\"count\":20000}\n\
                      {\"key_hex\":\"ff\",\"count\":3}\n";
        assert_eq!(written(Format::Ndjson, rows), ndjson);
        let json = format!("[\n{}\n]\n", ndjson.trim_end().replace('\n', ",\n"));
        assert_eq!(written(Format::Json, rows), json);
        assert_eq!(written(Format::Csv, &rows[..2]), "key,count\na,1\n\"q\"\"\n\",20000\n");
    }

    #[test]
    fn no_rows_are_well_formed_too() {
        assert_eq!(written(Format::Table, &[]), "");
        assert_eq!(written(Format::Json, &[]), "[]\n");
        assert_eq!(written(Format::Csv, &[]), "key,count\n");
    }

    #[test]
    fn a_long_cell_is_shortened_at_a_character() {
        for long in
            ["x".repeat(1000), format!("x{}", "é".repeat(1000)), format!("x{}", "\u{1F333}".repeat(1000))]
        {
            let table = written(Format::Table, &[(long.as_bytes(), 1)]);
            let line = table.lines().nth(1).unwrap();
            assert!(line.starts_with(&long[..5]) && line.contains('…'), "{line}");
            assert!(line.chars().count() <= WIDEST + 3, "{line}");
        }
    }
}
