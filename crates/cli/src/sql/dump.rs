//! `.dump`: the database as statements that make it again, here or in SQLite.
//!
//! The order is that of SQLite's shell: tables with their rows, then indexes, triggers and views, so that a row fires
//! no trigger. A virtual table is created and filled through itself, and the tables that keep its data are left out.
//! SQLite's shell enters it into `sqlite_schema` instead, which is refused here.

use super::literal::{identifier, literal, matches, write_literals};
use super::session::{Nothing, Receiver, Session};
use super::show::{Out, Show, bar};
use crate::failure::{Failure, Outcome};
use crate::output::Cell;
use crate::text;
use indicatif::ProgressBar;
use std::io::{self, Write};

/// Writes what matches the pattern, as one moment has it.
pub fn dump(session: &Session, show: &Show, pattern: Option<&str>) -> Outcome {
    if session.connection().is_none() {
        let message = ".dump needs one transaction, and each statement to a server is its own: dump a \
                       directory, or use `pando backup` with the server's address";
        return Err(Failure::Usage(message.to_owned()));
    }
    let run = |sql: &str| session.run(sql, &mut Nothing).map(drop);
    run("SAVEPOINT pando_dump")?;
    let mut out = show.out();
    let written = Dump { session, show, bar: bar(), rows: 0 }.write(&mut out, pattern);
    let written = match written {
        // So that nobody runs half of it.
        Err(failure) => {
            let _ = writeln!(out, "ROLLBACK; -- the dump has failed");
            Err(failure)
        }
        Ok(()) => Ok(()),
    };
    let flushed = out.flush().map_err(|cause| show.unwritable(cause));
    run("RELEASE pando_dump")?;
    written.and(flushed)
}

struct Dump<'s> {
    session: &'s Session,
    show: &'s Show,
    bar: ProgressBar,
    rows: u64,
}

impl Dump<'_> {
    fn write(&mut self, out: &mut Out<'_>, pattern: Option<&str>) -> Outcome {
        let unwritable = |cause| self.show.unwritable(cause);
        let named = matches("tbl_name", pattern);
        let all = format!("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND {named}");
        let entries = self.session.texts(&all)?;
        let hidden = self.session.texts("SELECT name FROM pragma_table_list WHERE type = 'shadow'")?;
        let is_hidden = |entry: &Vec<String>| hidden.iter().any(|name| name[0] == entry[1]);
        let (mut tables, others): (Vec<_>, Vec<_>) =
            entries.iter().filter(|entry| !is_hidden(entry)).partition(|entry| entry[0] == "table");
        // The last ones need others: `sqlite_sequence` exists once one of these does.
        tables.sort_by_key(|entry| (entry[1].eq_ignore_ascii_case("sqlite_sequence"), is_virtual(&entry[2])));
        out.write_all(b"PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n").map_err(unwritable)?;
        for entry in tables {
            match is_virtual(&entry[2]) {
                true => self.virtual_table(out, &entry[1], &entry[2])?,
                false => self.table(out, &entry[1], &entry[2])?,
            }
        }
        for entry in others {
            writeln!(out, "{};", entry[2]).map_err(unwritable)?;
        }
        out.write_all(b"COMMIT;\n").map_err(unwritable)
    }

    fn table(&mut self, out: &mut Out<'_>, name: &str, sql: &str) -> Outcome {
        let unwritable = |cause| self.show.unwritable(cause);
        match name.to_ascii_lowercase() {
            // Made with the first table that needs it.
            lower if lower == "sqlite_sequence" => out.write_all(b"DELETE FROM sqlite_sequence;\n"),
            lower if lower.starts_with("sqlite_stat") => out.write_all(b"ANALYZE sqlite_schema;\n"),
            lower if lower.starts_with("sqlite_") => return Ok(()),
            _ => writeln!(out, "{sql};"),
        }
        .map_err(unwritable)?;
        self.rows(out, name, false)
    }

    fn virtual_table(&mut self, out: &mut Out<'_>, name: &str, sql: &str) -> Outcome {
        let unwritable = |cause| self.show.unwritable(cause);
        let kind = Virtual::of(sql).ok_or_else(|| {
            Failure::Failed(format!(
                "the rows of the virtual table {name:?} cannot be dumped; --to-sqlite FILE keeps it, and \
                 .dump PATTERN dumps other tables"
            ))
        })?;
        writeln!(out, "{sql};").map_err(unwritable)?;
        match kind {
            Virtual::HasRows { by_rowid } => self.rows(out, name, by_rowid),
            Virtual::OfTable => {
                let table = identifier(name);
                writeln!(out, "INSERT INTO {table}({table}) VALUES('rebuild');").map_err(unwritable)
            }
        }
    }

    fn rows(&mut self, out: &mut Out<'_>, name: &str, with_rowid: bool) -> Outcome {
        let unwritable = |cause| self.show.unwritable(cause);
        // Generated columns are not among them.
        let columns =
            self.session.texts(&format!("SELECT name FROM pragma_table_info({})", literal(name)))?;
        let columns: Vec<_> = columns.iter().flatten().map(|column| identifier(column)).collect();
        let (table, mut columns) = (identifier(name), columns.join(","));
        let mut named = String::new();
        if with_rowid {
            columns.insert_str(0, "rowid,");
            named = format!("({columns})");
        }
        let begin = format!("INSERT INTO {table}{named} VALUES(");
        let (bar, before) = (&self.bar, self.rows);
        let note = |rows| bar.set_message(format!("{name}: {} rows", text::count(before + rows)));
        let mut inserts = Inserts { begin: begin.as_bytes(), out, note: &note, failed: None, count: 0 };
        let done = self.session.run(&format!("SELECT {columns} FROM {table}"), &mut inserts);
        self.rows += inserts.count;
        match inserts.failed {
            Some(cause) => Err(unwritable(cause)),
            None => done.map(drop),
        }
    }
}

/// How a virtual table is filled.
#[derive(Debug, PartialEq, Eq)]
enum Virtual {
    /// With rows that it returned.
    HasRows { by_rowid: bool },
    /// From the table whose words it knows.
    OfTable,
}

impl Virtual {
    /// `None`: it does not return what it was given.
    fn of(sql: &str) -> Option<Virtual> {
        let plain: String = sql.to_ascii_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
        let (_, arguments) = sql.split_once('(')?;
        let before = &sql[..sql.len() - arguments.len() - 1];
        let module = before.split_ascii_whitespace().next_back()?.to_ascii_lowercase();
        match (&module[..], plain.split_once("content=")) {
            ("rtree" | "rtree_i32" | "geopoly", _) => {
                Some(Virtual::HasRows { by_rowid: module == "geopoly" })
            }
            ("fts5" | "fts4" | "fts3", None) => Some(Virtual::HasRows { by_rowid: true }),
            ("fts5" | "fts4", Some((_, table))) if !table.starts_with("''") && !table.starts_with("\"\"") => {
                Some(Virtual::OfTable)
            }
            _ => None,
        }
    }
}

fn is_virtual(sql: &str) -> bool {
    let mut words = sql.split_ascii_whitespace();
    ["CREATE", "VIRTUAL"]
        .iter()
        .all(|wanted| words.next().is_some_and(|word| word.eq_ignore_ascii_case(wanted)))
}

/// How many rows are written between two looks at the bar.
const NOTED: u64 = 4096;

/// Writes rows as statements.
struct Inserts<'o, 'f> {
    begin: &'o [u8],
    out: &'o mut Out<'f>,
    /// Shows how many rows there were.
    note: &'o dyn Fn(u64),
    failed: Option<io::Error>,
    count: u64,
}

impl Receiver for Inserts<'_, '_> {
    fn columns(&mut self, _: &[String]) -> Outcome {
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Outcome {
        if self.count.is_multiple_of(NOTED) {
            (self.note)(self.count);
        }
        self.count += 1;
        let mut write = || {
            self.out.write_all(self.begin)?;
            write_literals(self.out, cells, ",")?;
            self.out.write_all(b");\n")
        };
        write().map_err(|cause| {
            self.failed = Some(cause);
            Failure::ReaderGone
        })
    }
}
