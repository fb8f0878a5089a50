//! Writes results to standard output, and durations to standard error.

use super::statements::{each_statement, failure};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Cell, Format, Rows};
use crate::text;
use indicatif::ProgressBar;
use sql::{Connection, Sql, SqliteFile, ValueRef};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shows the results of statements.
pub struct Show {
    pub format: Format,
    pub timing: bool,
    running: Arc<Mutex<Running>>,
}

/// The running statement.
struct Running {
    since: Instant,
    /// The progress bar, which appears if the statement takes long. It is hidden if standard error is not a terminal.
    bar: Option<ProgressBar>,
}

/// The duration after which a statement shows that it runs.
const LONG: Duration = Duration::from_secs(1);

impl Show {
    /// Runs statements up to the first failure, which names the line of its statement.
    pub fn script(&mut self, connection: &Connection, text: &str) -> Outcome {
        each_statement(text, |statement| self.statement(connection, statement))
    }

    pub fn new(format: Format, timing: bool) -> Self {
        let running = Running { since: Instant::now(), bar: None };
        Show { format, timing, running: Arc::new(Mutex::new(running)) }
    }

    /// Registers a callback that shows how long a statement runs.
    pub fn watch(&self, connection: &mut Connection) -> sql::Result<()> {
        let running = Arc::clone(&self.running);
        connection.on_progress(Some(move || {
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            let since = running.since;
            if since.elapsed() > LONG {
                let bar = running.bar.get_or_insert_with(ProgressBar::new_spinner);
                bar.set_message(format!("{} s; Ctrl-C stops it", since.elapsed().as_secs()));
                bar.tick();
            }
            false
        }))
    }

    /// Runs a statement and writes its rows.
    pub fn statement(&mut self, connection: &Connection, sql: &str) -> Outcome {
        let begun = Instant::now();
        self.running.lock().unwrap_or_else(PoisonError::into_inner).since = begun;
        let done = self.run(connection, sql);
        if let Some(bar) = self.running.lock().unwrap_or_else(PoisonError::into_inner).bar.take() {
            bar.finish_and_clear();
        }
        if self.timing {
            let count = done.as_ref().map_or(String::new(), |rows| format!(", {} rows", text::count(*rows)));
            eprintln!("{:.3} ms{count}", begun.elapsed().as_secs_f64() * 1e3);
        }
        done.map(drop)
    }

    /// Runs a statement. Returns how many rows there were, or were changed.
    fn run(&self, connection: &Connection, sql: &str) -> Outcome<u64> {
        let mut statement = connection.prepare(sql).map_err(failure)?;
        let mut rows = statement.query(&[]).map_err(failure)?;
        if rows.columns().is_empty() {
            return Ok(rows.changes());
        }
        let first: Option<Vec<sql::Value>> = rows
            .next()
            .map_err(failure)?
            .map(|row| (0..row.len()).map(|column| sql::to_owned(row.get(column))).collect());
        self.clear_bar();
        let names: Vec<String> = rows.columns().to_vec();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if self.format == Format::Table && is_plan(sql) {
            return show_plan(first, &mut rows);
        }
        let mut out = Rows::new(output::stdout(), self.format, &names).map_err(Failure::stdout)?;
        if let Some(first) = first {
            let cells: Vec<Cell<'_>> = first.iter().map(|value| cell(value.into())).collect();
            out.row(&cells).map_err(Failure::stdout)?;
            while let Some(row) = rows.next().map_err(failure)? {
                let cells: Vec<Cell<'_>> = (0..row.len()).map(|column| cell(row.get(column))).collect();
                out.row(&cells).map_err(Failure::stdout)?;
            }
        }
        out.finish().map_err(Failure::stdout)
    }

    fn clear_bar(&self) {
        if let Some(bar) = &self.running.lock().unwrap_or_else(PoisonError::into_inner).bar {
            bar.finish_and_clear();
        }
    }
}

fn cell(value: ValueRef<'_>) -> Cell<'_> {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(text) => Cell::Bytes(text),
        ValueRef::Blob(bytes) => Cell::Blob(bytes),
    }
}

fn is_plan(sql: &str) -> bool {
    let mut words = sql.split_ascii_whitespace().map(str::to_ascii_uppercase);
    ["EXPLAIN", "QUERY", "PLAN"].iter().all(|wanted| words.next().as_deref() == Some(wanted))
}

/// Prints a plan as a tree. Each row has its number, its parent's number, and a description.
fn show_plan(first: Option<Vec<sql::Value>>, rows: &mut sql::Rows<'_>) -> Outcome<u64> {
    let mut depths = vec![(0, 0)];
    let mut count = 0;
    let mut line = |id: ValueRef<'_>, parent: ValueRef<'_>, detail: ValueRef<'_>| -> Outcome {
        let (ValueRef::Integer(id), ValueRef::Integer(parent)) = (id, parent) else { return Ok(()) };
        let depth = depths.iter().find(|(known, _)| *known == parent).map_or(0, |(_, depth)| *depth);
        depths.push((id, depth + 1));
        count += 1;
        let detail = detail.as_str().unwrap_or_default();
        // SQLite's description of a virtual table is converted to the words that it uses for its own tables.
        let detail = match detail.split_once(" VIRTUAL TABLE INDEX ") {
            Some((scan, way)) => format!("{scan} USING {}", way.split_once(':').map_or(way, |(_, way)| way)),
            None => detail.to_owned(),
        };
        output::say_line(format_args!("{}{detail}", "  ".repeat(depth)))
    };
    if let Some(row) = first {
        line((&row[0]).into(), (&row[1]).into(), (&row[3]).into())?;
        while let Some(row) = rows.next().map_err(failure)? {
            line(row.get(0), row.get(1), row.get(3))?;
        }
    }
    Ok(count)
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Copies an SQLite file into the database.
pub fn import_sqlite(sql: &Sql, file: &SqliteFile) -> Outcome {
    let mut progress = CopyBar::new();
    let report = file.import_into(sql, |now| progress.show(now));
    progress.bar.finish_and_clear();
    let report = report.map_err(failure)?;
    eprintln!("imported {} tables, {} rows", report.tables, text::count(report.rows));
    Ok(())
}

/// Writes all tables to a new SQLite file.
pub fn export_sqlite(sql: &Sql, file: &Path) -> Outcome {
    let mut progress = CopyBar::new();
    let report = sql::export_sqlite(sql, file, |now| progress.show(now));
    progress.bar.finish_and_clear();
    let report = report.map_err(failure)?;
    eprintln!("exported {} tables, {} rows", report.tables, text::count(report.rows));
    Ok(())
}

/// Shows how far a copy is.
struct CopyBar {
    bar: ProgressBar,
    has_named: bool,
}

impl CopyBar {
    fn new() -> Self {
        CopyBar { bar: bar(), has_named: false }
    }

    /// The first call names what is left out, before anything is written.
    fn show(&mut self, now: &sql::CopyProgress) {
        if !std::mem::replace(&mut self.has_named, true) {
            now.left_out.iter().for_each(|left_out| self.bar.suspend(|| eprintln!("left out: {left_out}")));
        }
        if !now.table.is_empty() {
            self.bar.set_message(format!("{}: {} rows", now.table, text::count(now.rows)));
        }
    }
}

/// Prints the rows of a shell command.
pub fn lines(format: Format, names: &[&str], rows: &[Vec<String>]) -> Outcome {
    let write = || -> io::Result<()> {
        let mut out = Rows::new(output::stdout(), format, names)?;
        for row in rows {
            let cells: Vec<Cell<'_>> = row.iter().map(|text| Cell::Bytes(text.as_bytes())).collect();
            out.row(&cells)?;
        }
        out.finish().map(drop)
    };
    write().map_err(Failure::stdout)
}
