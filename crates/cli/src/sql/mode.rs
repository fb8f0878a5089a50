//! The forms in which rows are written: those of the other commands, and those of SQLite's shell.

use super::literal::{identifier, write_literals};
use crate::output::{Cell, Format, Looks, Rows, WIDTHS_FROM, shown, widths};
use std::io::{self, Write};

/// A form of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A form that all commands know.
    Of(Format),
    /// Values with a separator between them.
    List,
    /// Values with tabs between them.
    Tabs,
    /// CSV that begins with the first row, as SQLite's shell writes it.
    Csv,
    /// Literals of SQL with commas between them.
    Quote,
    /// Statements that insert the rows into this table.
    Insert(String),
    /// A line for each value.
    Line,
    /// A table with a frame.
    Framed(&'static Frame),
}

/// The characters of a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    name: &'static str,
    /// The lines above the header, below it, and below the last row: left end, dash, crossing, right end. Markdown has
    /// only the second.
    rules: [Option<[&'static str; 4]>; 3],
    bar: &'static str,
}

const FRAMES: [Frame; 3] = [
    Frame { name: "table", rules: [Some(["+", "-", "+", "+"]); 3], bar: "|" },
    Frame {
        name: "box",
        rules: [Some(["┌", "─", "┬", "┐"]), Some(["├", "─", "┼", "┤"]), Some(["└", "─", "┴", "┘"])],
        bar: "│",
    },
    Frame { name: "markdown", rules: [None, Some(["|", "-", "|", "|"]), None], bar: "|" },
];

/// The names of all modes, for messages.
pub const NAMES: &str =
    "column, table, box, markdown, line, list, tabs, csv, json, ndjson, quote, insert TABLE";

impl Mode {
    /// Returns the mode of this name. `table` is for `insert`.
    pub fn of_name(name: &str, table: Option<&str>) -> Option<Mode> {
        let framed = || FRAMES.iter().find(|frame| frame.name == name).map(Mode::Framed);
        let mode = match name {
            "column" | "columns" => Mode::Of(Format::Table),
            "json" => Mode::Of(Format::Json),
            "ndjson" => Mode::Of(Format::Ndjson),
            "csv" => Mode::Csv,
            "list" => Mode::List,
            "tabs" => Mode::Tabs,
            "quote" => Mode::Quote,
            "line" | "lines" => Mode::Line,
            "insert" => return Some(Mode::Insert(table.unwrap_or("table").to_owned())),
            _ => framed()?,
        };
        if table.is_none() { Some(mode) } else { None }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Mode::Of(Format::Table) => "column",
            Mode::Of(Format::Json) => "json",
            Mode::Of(Format::Ndjson) => "ndjson",
            Mode::Of(Format::Csv) | Mode::Csv => "csv",
            Mode::List => "list",
            Mode::Tabs => "tabs",
            Mode::Quote => "quote",
            Mode::Insert(_) => "insert",
            Mode::Line => "line",
            Mode::Framed(frame) => frame.name,
        }
    }
}

/// Writes the rows of one statement.
pub enum Printer<W: Write> {
    Rows(Rows<W>),
    Plain(Plain<W>),
    Framed(Framed<W>),
}

impl<W: Write> Printer<W> {
    pub fn new(
        out: W,
        mode: &Mode,
        separator: Option<&str>,
        looks: Looks,
        names: &[String],
    ) -> io::Result<Self> {
        let format = match mode {
            Mode::Of(format) => Some(*format),
            Mode::Csv => Some(Format::Csv),
            _ => None,
        };
        if let Some(format) = format {
            return Rows::with(out, format, names, looks).map(Printer::Rows);
        }
        if let Mode::Framed(frame) = mode {
            let null = looks.null.unwrap_or_default();
            let mut framed = Framed { out, frame, null, held: Vec::new(), widths: Vec::new() };
            let header: Vec<_> = names.iter().map(|name| Cell::Bytes(name.as_bytes())).collect();
            framed.row(&header)?;
            return Ok(Printer::Framed(framed));
        }
        let usual = match mode {
            Mode::Tabs => "\t",
            Mode::Quote => ",",
            _ => "|",
        };
        let separator = separator.unwrap_or(usual).to_owned();
        let null = looks.null.unwrap_or_default();
        let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut plain =
            Plain { out, mode: mode.clone(), separator, null, names: names.to_vec(), widest, count: 0 };
        if looks.header && !matches!(mode, Mode::Line | Mode::Insert(_)) {
            let cells: Vec<_> = names.iter().map(|name| Cell::Bytes(name.as_bytes())).collect();
            plain.separated(&cells)?;
        }
        Ok(Printer::Plain(plain))
    }

    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        match self {
            Printer::Rows(rows) => rows.row(cells),
            Printer::Plain(plain) => plain.row(cells),
            Printer::Framed(framed) => framed.row(cells),
        }
    }

    /// Writes what is held, and flushes.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Printer::Rows(rows) => rows.finish().map(drop),
            Printer::Plain(mut plain) => plain.out.flush(),
            Printer::Framed(framed) => framed.finish(),
        }
    }
}

/// Writes rows without looking at their widths.
pub struct Plain<W> {
    out: W,
    mode: Mode,
    separator: String,
    null: String,
    names: Vec<String>,
    /// The width of the longest name.
    widest: usize,
    count: u64,
}

impl<W: Write> Plain<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        match &self.mode {
            Mode::Line => {
                if self.count > 0 {
                    writeln!(self.out)?;
                }
                self.count += 1;
                for (name, cell) in self.names.iter().zip(cells) {
                    let indent = self.widest - name.chars().count();
                    write!(self.out, "{:indent$}{name} = ", "")?;
                    write_value(&mut self.out, *cell, &self.null)?;
                    writeln!(self.out)?;
                }
                Ok(())
            }
            Mode::Insert(table) => {
                write!(self.out, "INSERT INTO {} VALUES(", identifier(table))?;
                write_literals(&mut self.out, cells, ",")?;
                self.out.write_all(b");\n")
            }
            _ => self.separated(cells),
        }
    }

    fn separated(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        if self.mode == Mode::Quote {
            write_literals(&mut self.out, cells, &self.separator)?;
            return writeln!(self.out);
        }
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                self.out.write_all(self.separator.as_bytes())?;
            }
            write_value(&mut self.out, *cell, &self.null)?;
        }
        writeln!(self.out)
    }
}

/// Writes a value as it is.
fn write_value(out: &mut impl Write, cell: Cell<'_>, null: &str) -> io::Result<()> {
    match cell {
        Cell::Null => out.write_all(null.as_bytes()),
        Cell::Number(number) => write!(out, "{number}"),
        Cell::Integer(number) => write!(out, "{number}"),
        Cell::Real(number) => write!(out, "{number:?}"),
        Cell::Bytes(bytes) | Cell::Blob(bytes) => out.write_all(bytes),
    }
}

/// Writes a table with a frame. Widths come from the first rows.
pub struct Framed<W> {
    out: W,
    frame: &'static Frame,
    null: String,
    /// The header and the first rows, until the widths are known.
    held: Vec<Vec<String>>,
    widths: Vec<usize>,
}

impl<W: Write> Framed<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let shown = cells.iter().map(|cell| shown(*cell, &self.null));
        let row: Vec<_> = match self.frame.name {
            "markdown" => shown.map(|cell| cell.replace('|', "\\|")).collect(),
            _ => shown.collect(),
        };
        if self.widths.is_empty() {
            self.held.push(row);
            return if self.held.len() > WIDTHS_FROM { self.release() } else { Ok(()) };
        }
        self.line(&row)
    }

    fn finish(mut self) -> io::Result<()> {
        // The header alone is not shown, as in SQLite's shell.
        if self.held.len() > 1 {
            self.release()?;
        }
        if !self.widths.is_empty() {
            self.rule(2)?;
        }
        self.out.flush()
    }

    fn release(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.widths = widths(held.iter());
        self.rule(0)?;
        for (at, row) in held.iter().enumerate() {
            self.line(row)?;
            if at == 0 {
                self.rule(1)?;
            }
        }
        Ok(())
    }

    fn rule(&mut self, which: usize) -> io::Result<()> {
        let Some([left, dash, crossing, right]) = self.frame.rules[which] else { return Ok(()) };
        let dashes: Vec<_> = self.widths.iter().map(|width| dash.repeat(width + 2)).collect();
        writeln!(self.out, "{left}{}{right}", dashes.join(crossing))
    }

    fn line(&mut self, row: &[String]) -> io::Result<()> {
        let bar = self.frame.bar;
        for (cell, width) in row.iter().zip(&self.widths) {
            let room = width.saturating_sub(cell.chars().count());
            write!(self.out, "{bar} {cell}{:room$} ", "")?;
        }
        writeln!(self.out, "{bar}")
    }
}
