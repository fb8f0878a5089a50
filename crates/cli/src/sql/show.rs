//! Runs statements, and writes their rows to standard output or to a file, and durations to standard error.

use super::mode::{Mode, Printer};
use super::session::{Receiver, Session};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Cell, Format, Looks};
use crate::text;
use indicatif::ProgressBar;
use sql::Connection;
use std::fs::File;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What commands can set.
#[derive(Clone, Debug)]
pub struct Settings {
    pub mode: Mode,
    /// Whether rows begin with the names of the columns, if that was set.
    pub headers: Option<bool>,
    pub null: Option<String>,
    pub separator: Option<String>,
    pub timer: bool,
    /// Whether the plan of a statement is shown before its rows.
    pub plans: bool,
    /// Whether the number of changed rows is shown.
    pub changes: bool,
    pub echo: bool,
    /// Whether a script ends at the first failure.
    pub bail: bool,
}

impl Settings {
    fn looks(&self) -> Looks {
        // As in SQLite's shell.
        let usual = !matches!(self.mode, Mode::List | Mode::Tabs | Mode::Csv | Mode::Quote);
        Looks { header: self.headers.unwrap_or(usual), null: self.null.clone() }
    }
}

/// Shows the results of statements.
pub struct Show {
    pub settings: Settings,
    running: Arc<Mutex<Running>>,
    target: Option<Target>,
    /// How many files are being read, one from within the other.
    pub depth: usize,
}

/// The file that gets the output.
struct Target {
    path: PathBuf,
    file: File,
    /// Whether it gets that of the next item only.
    is_once: bool,
}

/// The running statement.
struct Running {
    since: Instant,
    /// The progress bar, which appears if the statement takes long. It is hidden if standard error is not a terminal.
    bar: Option<ProgressBar>,
}

/// The duration after which a statement shows that it runs.
const LONG: Duration = Duration::from_secs(1);

/// Where output goes.
pub enum Out<'f> {
    Standard(BufWriter<StdoutLock<'static>>),
    File(BufWriter<&'f File>),
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Standard(out) => out.write(bytes),
            Out::File(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Standard(out) => out.flush(),
            Out::File(out) => out.flush(),
        }
    }
}

impl Show {
    pub fn new(format: Format, timer: bool) -> Self {
        let settings = Settings {
            mode: Mode::Of(format),
            headers: None,
            null: None,
            separator: None,
            timer,
            plans: false,
            changes: false,
            echo: false,
            bail: true,
        };
        let running = Running { since: Instant::now(), bar: None };
        Show { settings, running: Arc::new(Mutex::new(running)), target: None, depth: 0 }
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
    pub fn statement(&mut self, session: &Session, sql: &str) -> Outcome {
        if self.settings.plans && !begins_with(sql, &["EXPLAIN"]) {
            self.run(session, &format!("EXPLAIN QUERY PLAN {sql}"))?;
        }
        let begun = Instant::now();
        self.running().since = begun;
        let done = self.run(session, sql);
        if let Some(bar) = self.running().bar.take() {
            bar.finish_and_clear();
        }
        if self.settings.timer {
            let count = done.as_ref().map_or(String::new(), |rows| format!(", {} rows", text::count(*rows)));
            eprintln!("{:.3} ms{count}", begun.elapsed().as_secs_f64() * 1e3);
        }
        done.map(drop)
    }

    /// Runs a statement. Returns how many rows there were, or were changed.
    fn run(&mut self, session: &Session, sql: &str) -> Outcome<u64> {
        let is_plan =
            self.settings.mode == Mode::Of(Format::Table) && begins_with(sql, &["EXPLAIN", "QUERY", "PLAN"]);
        let mut printed = Printed { show: self, printer: None, plan: is_plan.then(Plan::default), count: 0 };
        let changed = session.run(sql, &mut printed)?;
        let (count, had_rows) = (printed.count, printed.finish()?);
        if !had_rows && self.settings.changes {
            self.write(|out| writeln!(out, "changes: {changed}"))?;
        }
        Ok(if had_rows { count } else { changed })
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes output of a command.
    pub fn write(&self, write: impl FnOnce(&mut Out<'_>) -> io::Result<()>) -> Outcome {
        let mut out = self.out();
        write(&mut out).and_then(|()| out.flush()).map_err(|cause| self.unwritable(cause))
    }

    /// Returns where output goes.
    pub fn out(&self) -> Out<'_> {
        match &self.target {
            None => Out::Standard(output::stdout()),
            Some(target) => Out::File(BufWriter::with_capacity(1 << 16, &target.file)),
        }
    }

    /// Returns the failure of a write to the output.
    pub fn unwritable(&self, cause: io::Error) -> Failure {
        match &self.target {
            None => Failure::stdout(cause),
            Some(target) => Failure::system(format!("write {}", target.path.display()), cause),
        }
    }

    /// Returns whether output goes to a file for the present item only.
    pub fn is_sent_once(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.is_once)
    }

    /// Sends output to a new file, or, without one, to standard output again.
    pub fn send_to(&mut self, path: Option<&Path>, is_once: bool) -> Outcome {
        self.target = match path {
            None => None,
            Some(path) => {
                let refused = |cause| Failure::system(format!("create {}", path.display()), cause);
                Some(Target { path: path.to_owned(), file: File::create(path).map_err(refused)?, is_once })
            }
        };
        Ok(())
    }

    /// Writes texts as rows.
    pub fn lines(&self, names: &[&str], rows: &[Vec<String>]) -> Outcome {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let write = || -> io::Result<()> {
            let mut out = self.printer(&names)?;
            for row in rows {
                let cells: Vec<Cell<'_>> = row.iter().map(|text| Cell::Bytes(text.as_bytes())).collect();
                out.row(&cells)?;
            }
            out.finish()
        };
        write().map_err(|cause| self.unwritable(cause))
    }

    fn printer(&self, names: &[String]) -> io::Result<Printer<Out<'_>>> {
        let Settings { mode, separator, .. } = &self.settings;
        Printer::new(self.out(), mode, separator.as_deref(), self.settings.looks(), names)
    }
}

fn begins_with(sql: &str, expected: &[&str]) -> bool {
    let mut words = sql.split_ascii_whitespace();
    expected.iter().all(|wanted| words.next().is_some_and(|word| word.eq_ignore_ascii_case(wanted)))
}

/// Prints the rows of one statement.
struct Printed<'s> {
    show: &'s Show,
    printer: Option<Printer<Out<'s>>>,
    plan: Option<Plan>,
    count: u64,
}

impl Printed<'_> {
    /// Writes what is held. Returns whether the statement had columns.
    fn finish(self) -> Outcome<bool> {
        let Some(printer) = self.printer else { return Ok(self.plan.is_some()) };
        printer.finish().map_err(|cause| self.show.unwritable(cause))?;
        Ok(true)
    }
}

impl Receiver for Printed<'_> {
    fn columns(&mut self, names: &[String]) -> Outcome {
        if let Some(bar) = &self.show.running().bar {
            bar.finish_and_clear();
        }
        if self.plan.is_none() {
            self.printer = Some(self.show.printer(names).map_err(|cause| self.show.unwritable(cause))?);
        }
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Outcome {
        self.count += 1;
        if let Some(printer) = &mut self.printer {
            return printer.row(cells).map_err(|cause| self.show.unwritable(cause));
        }
        match self.plan.as_mut().and_then(|plan| plan.line(cells)) {
            Some(line) => self.show.write(|out| writeln!(out, "{line}")),
            None => Ok(()),
        }
    }
}

/// A plan, which is printed as a tree. Each row has its number, its parent's number, and a description.
#[derive(Default)]
struct Plan {
    depths: Vec<(i64, usize)>,
}

impl Plan {
    fn line(&mut self, cells: &[Cell<'_>]) -> Option<String> {
        let [Cell::Integer(id), Cell::Integer(parent), _, Cell::Bytes(detail)] = cells else { return None };
        let depth = self.depths.iter().find(|(known, _)| known == parent).map_or(0, |(_, depth)| *depth);
        self.depths.push((*id, depth + 1));
        let detail = String::from_utf8_lossy(detail);
        // SQLite's description of a virtual table is converted to the words that it uses for its own tables.
        let detail = match detail.split_once(" VIRTUAL TABLE INDEX ") {
            Some((scan, way)) => format!("{scan} USING {}", way.split_once(':').map_or(way, |(_, way)| way)),
            None => detail.into_owned(),
        };
        Some(format!("{}{detail}", "  ".repeat(depth)))
    }
}

/// Returns a bar for work of unknown length.
pub fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
