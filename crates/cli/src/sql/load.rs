//! `.import`: the lines of a file as rows of a table, as SQLite's shell inserts them.

use super::empty_lines::EmptyLines;
use super::literal::{identifier, literal};
use super::mode::Mode;
use super::script::failure;
use super::session::{Nothing, Session};
use super::show::{Settings, bar};
use crate::failure::{Failure, Outcome};
use crate::output::Format;
use crate::text;
use rows::{Quotes, Refused, Text};
use sql::{Connection, Statement, Value};
use std::fs::File;
use std::io::Read;

/// What is imported.
#[derive(Debug, PartialEq, Eq)]
pub struct Load {
    file: String,
    table: String,
    /// Whether fields can be in quotes.
    is_csv: bool,
    separator: u8,
    /// How many lines are passed over.
    skip: usize,
}

const USAGE: &str = "usage: .import [--csv] [--skip N] FILE TABLE";

impl Load {
    pub fn parse(arguments: &[&str], settings: &Settings) -> Outcome<Load> {
        let usage = || Failure::Usage(USAGE.to_owned());
        let is_csv = matches!(settings.mode, Mode::Csv | Mode::Of(Format::Csv));
        let mut load = Load { file: String::new(), table: String::new(), is_csv, separator: b'|', skip: 0 };
        let mut has_flag = false;
        let mut names = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.trim_start_matches('-') {
                "csv" if argument.starts_with('-') => (load.is_csv, has_flag) = (true, true),
                "skip" if argument.starts_with('-') => {
                    load.skip = rest.next().and_then(|count| count.parse().ok()).ok_or_else(usage)?;
                }
                _ if argument.starts_with('-') => return Err(usage()),
                _ => names.push((*argument).to_owned()),
            }
        }
        let [file, table]: [String; 2] = names.try_into().map_err(|_| usage())?;
        (load.file, load.table) = (file, table);
        if load.is_csv {
            load.separator = b',';
        }
        if settings.mode == Mode::Tabs && !has_flag {
            load.separator = b'\t';
        }
        if let (Some(separator), false) = (&settings.separator, has_flag) {
            let one = <[u8; 1]>::try_from(separator.as_bytes());
            let long = |_| Failure::Usage(format!("the separator {separator:?} is not one byte"));
            [load.separator] = one.map_err(long)?;
        }
        Ok(load)
    }
}

/// Inserts the rows in one transaction. If the table does not exist, it is created, and the first line has the names of
/// its columns. Values are texts, which the table's columns convert. In a table of one column, an empty line is a row.
pub fn load(session: &Session, load: &Load) -> Outcome {
    let Some(connection) = session.connection() else {
        let message = ".import works on a directory; for a server, use `pando import URL TABLE FILE`";
        return Err(Failure::Usage(message.to_owned()));
    };
    let file = File::open(&load.file);
    let file = file.map_err(|cause| Failure::system(format!("read {}", load.file), cause))?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .quoting(load.is_csv)
        .delimiter(load.separator)
        .from_reader(EmptyLines::new(load.checked(file), load.separator, load.is_csv));
    session.run("SAVEPOINT pando_import", &mut Nothing)?;
    let release = || session.run("RELEASE pando_import", &mut Nothing).map(drop);
    let done = rows(session, connection, load, &mut reader).and_then(|()| release());
    if done.is_err() {
        // Also after a commit that was refused: then the savepoint is still there.
        session.run("ROLLBACK TO pando_import", &mut Nothing)?;
        release()?;
    }
    done
}

type Reader = csv::Reader<EmptyLines<Box<dyn Read>>>;

impl Load {
    /// Returns the text of a file. A read fails if it is no text, or if it has a quote that is never closed.
    fn checked(&self, file: File) -> Box<dyn Read> {
        let text = Text::new(file);
        if self.is_csv { Box::new(Quotes::new(text, self.separator)) } else { Box::new(text) }
    }

    fn unread(&self, error: csv::Error) -> Failure {
        let message = error.to_string();
        match error.into_kind() {
            csv::ErrorKind::Io(cause) => match Refused::in_error(&cause) {
                Some(what) => Failure::Failed(format!("{}: {what}", self.file)),
                None => Failure::system(format!("read {}", self.file), cause),
            },
            _ => Failure::Failed(format!("{}: {message}", self.file)),
        }
    }

    /// Reads the next line with values. Returns whether there was one, and the number of empty lines before it.
    fn read(&self, reader: &mut Reader, record: &mut csv::ByteRecord) -> Outcome<(bool, u64)> {
        let found = reader.read_byte_record(record).map_err(|error| self.unread(error))?;
        let end = reader.position().byte();
        Ok((found, reader.get_mut().take_before(end)))
    }
}

fn rows(session: &Session, connection: &Connection, load: &Load, reader: &mut Reader) -> Outcome {
    let mut record = csv::ByteRecord::new();
    for _ in 0..load.skip {
        load.read(reader, &mut record)?;
    }
    let table = identifier(&load.table);
    let columns = format!("SELECT name FROM pragma_table_info({})", literal(&load.table));
    let count = || session.texts(&columns).map(|names| names.len());
    let mut width = count()?;
    if width == 0 {
        if !load.read(reader, &mut record)?.0 {
            return Err(Failure::Failed(format!("{}: it is empty, so there are no columns", load.file)));
        }
        let names: Vec<_> = record.iter().map(|name| identifier(&String::from_utf8_lossy(name))).collect();
        let create = format!("CREATE TABLE {table}({} ANY)", names.join(" ANY, "));
        session.run(&create, &mut Nothing)?;
        width = count()?;
    }
    let marks = vec!["?"; width].join(",");
    let mut insert = connection.prepare(&format!("INSERT INTO {table} VALUES({marks})")).map_err(failure)?;
    let (bar, mut done) = (bar(), 0_u64);
    let mut put = |values: &[Value], line| -> Outcome {
        insert_row(&mut insert, values, load, line)?;
        done += 1;
        if done.is_multiple_of(1000) {
            bar.set_message(format!("{} rows", text::count(done)));
        }
        Ok(())
    };
    loop {
        let begin = reader.position().line();
        let (found, empty_lines) = load.read(reader, &mut record)?;
        if width == 1 {
            (begin..begin + empty_lines).try_for_each(|line| put(&[Value::Text(String::new())], line))?;
        }
        if !found {
            break;
        }
        let line = begin + empty_lines;
        if record.len() != width {
            let what = if record.len() > width { "more are left out" } else { "the rest is null" };
            bar.suspend(|| {
                eprintln!("{}:{line}: {} values for {width} columns; {what}", load.file, record.len());
            });
        }
        let values = record.iter().take(width).map(text_or_bytes);
        let values: Vec<_> = values.chain(std::iter::repeat(Value::Null)).take(width).collect();
        put(&values, line)?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Inserts the row of a line.
fn insert_row(insert: &mut Statement<'_>, values: &[Value], load: &Load, line: u64) -> Outcome {
    insert.execute(values).map(drop).map_err(|error| match failure(error) {
        Failure::Failed(message) => Failure::Failed(format!("{}:{line}: {message}", load.file)),
        other => other,
    })
}

fn text_or_bytes(field: &[u8]) -> Value {
    match std::str::from_utf8(field) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Blob(field.to_vec()),
    }
}
