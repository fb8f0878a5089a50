//! `.import`: the lines of a file as rows of a table, as SQLite's shell inserts them.

use super::literal::{identifier, literal};
use super::mode::Mode;
use super::script::failure;
use super::session::{Nothing, Session};
use super::show::{Settings, bar};
use crate::failure::{Failure, Outcome};
use crate::output::Format;
use crate::text;
use sql::{Connection, Value};
use std::fs::File;

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
/// its columns. Values are texts, which the table's columns convert.
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
        .from_reader(file);
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

fn rows(session: &Session, connection: &Connection, load: &Load, reader: &mut csv::Reader<File>) -> Outcome {
    let mut record = csv::ByteRecord::new();
    let unread = |error: csv::Error| Failure::Failed(format!("{}: {error}", load.file));
    for _ in 0..load.skip {
        reader.read_byte_record(&mut record).map_err(unread)?;
    }
    let table = identifier(&load.table);
    let columns = format!("SELECT name FROM pragma_table_info({})", literal(&load.table));
    let count = || session.texts(&columns).map(|names| names.len());
    let mut width = count()?;
    if width == 0 {
        if !reader.read_byte_record(&mut record).map_err(unread)? {
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
    while reader.read_byte_record(&mut record).map_err(unread)? {
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != width {
            let what = if record.len() > width { "more are left out" } else { "the rest is null" };
            bar.suspend(|| {
                eprintln!("{}:{line}: {} values for {width} columns; {what}", load.file, record.len());
            });
        }
        let values = record.iter().take(width).map(text_or_bytes);
        let values: Vec<_> = values.chain(std::iter::repeat(Value::Null)).take(width).collect();
        insert.execute(&values).map_err(|error| match failure(error) {
            Failure::Failed(message) => Failure::Failed(format!("{}:{line}: {message}", load.file)),
            other => other,
        })?;
        done += 1;
        if done.is_multiple_of(1000) {
            bar.set_message(format!("{} rows", text::count(done)));
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn text_or_bytes(field: &[u8]) -> Value {
    match std::str::from_utf8(field) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Blob(field.to_vec()),
    }
}
