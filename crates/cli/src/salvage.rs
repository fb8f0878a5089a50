//! `salvage`: copies the readable part of a damaged directory into a new database or as NDJSON.
//!
//! Certain records are written to OUT, and uncertain ones to `OUT.uncertain`, which is created only if there are any.
//! The report on standard output lists what was exported, what is lost, and why.

use crate::failure::{Failure, Outcome};
use crate::open::MemoryArgs;
use crate::output::{Cell, Format, Rows, say};
use crate::text;
use clap::{Args, ValueEnum};
use pando::salvage::{self, Report, Sink, Trust};
use pando::{Database, Durability, Table, Transaction};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub struct SalvageArgs {
    /// The directory of the damaged database; the command changes nothing in it
    dir: PathBuf,
    /// Where to write the records that the database certainly held; must not exist. Records that may be outdated or
    /// deleted go to OUT.uncertain
    out: PathBuf,
    /// The format of the result
    #[arg(long, value_enum, default_value_t = Target::Database)]
    format: Target,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    memory: MemoryArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// A new database with the same tables
    Database,
    /// One JSON object on each line, with table, key and value
    Ndjson,
}

/// Runs `pando salvage`.
pub fn run(args: &SalvageArgs) -> Outcome {
    let outs = [args.out.clone(), uncertain(&args.out)];
    if let Some(there) = outs.iter().find(|out| out.exists()) {
        return Err(Failure::Usage(format!(
            "{} exists already; name a path that does not exist",
            there.display()
        )));
    }
    let report = copy(args, &outs)?;
    if args.json {
        say!("{}", as_json(&report))?;
    } else {
        print_report(&report, &outs)?;
    }
    if report.is_complete() {
        return Ok(());
    }
    Err(Failure::Damaged("a part of the database could not be read; the report above lists it".into()))
}

/// Copies what can be read to `outs`.
fn copy(args: &SalvageArgs, outs: &[PathBuf; 2]) -> Outcome<Report> {
    match args.format {
        Target::Database => {
            let mut sink = Databases::new(outs.clone(), args.memory);
            let report = salvage::salvage(&args.dir, &mut sink)?;
            sink.finish()?;
            Ok(report)
        }
        Target::Ndjson => {
            let mut sink = Lines::new(outs.clone());
            let report = salvage::salvage(&args.dir, &mut sink)?;
            sink.finish()?;
            Ok(report)
        }
    }
}

fn uncertain(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".uncertain");
    name.into()
}

/// The number of records so far, shown at a terminal.
#[derive(Default)]
struct Progress(u64);

impl Progress {
    fn record(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(100_000) && io::stderr().is_terminal() {
            eprint!("\r{} records", text::count(self.0));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.0 >= 100_000 && io::stderr().is_terminal() {
            eprintln!();
        }
    }
}

/// The directories or files that this command has made. They are removed again unless they are complete: a part of a
/// result could be taken for all that is left, and would be in the way of the next attempt.
#[derive(Default)]
struct Unfinished(Vec<PathBuf>);

impl Unfinished {
    /// Notes what was just made, and did not exist before.
    fn note(&mut self, made: &Path) {
        self.0.push(made.to_owned());
    }

    /// Keeps all of it.
    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for made in &self.0 {
            let _ = if made.is_dir() { fs::remove_dir_all(made) } else { fs::remove_file(made) };
        }
    }
}

/// A database for each degree of trust, created with its first record.
struct Databases {
    outs: [PathBuf; 2],
    memory: MemoryArgs,
    page_bytes: Option<usize>,
    made: [Option<Filling>; 2],
    progress: Progress,
    /// It comes after the databases, which are closed first.
    unfinished: Unfinished,
}

/// A database that is being filled.
struct Filling {
    db: Database,
    tables: BTreeMap<String, Table>,
    tx: Option<Transaction>,
    pending_bytes: usize,
}

/// The approximate limit of one transaction of the new database, in bytes.
const BATCH_BYTES: usize = 4 << 20;

impl Databases {
    fn new(outs: [PathBuf; 2], memory: MemoryArgs) -> Self {
        let (progress, unfinished) = (Progress::default(), Unfinished::default());
        Databases { outs, memory, page_bytes: None, made: [None, None], progress, unfinished }
    }

    fn filling(&mut self, trust: Trust) -> pando::Result<&mut Filling> {
        let made = &mut self.made[trust as usize];
        if made.is_none() {
            let builder = self.memory.builder().durability(Durability::Buffered);
            let builder =
                self.page_bytes.into_iter().fold(builder, |builder, bytes| builder.page_bytes(bytes));
            let out = &self.outs[trust as usize];
            let failed = |cause| pando::Error::io(format!("create {}", out.display()), cause);
            fs::create_dir(out).map_err(failed)?;
            self.unfinished.note(out);
            let db = builder.create(out)?;
            *made = Some(Filling { db, tables: BTreeMap::new(), tx: None, pending_bytes: 0 });
        }
        Ok(made.as_mut().expect("made above"))
    }

    fn finish(mut self) -> Outcome {
        for mut filling in self.made.iter_mut().filter_map(Option::take) {
            filling.commit()?;
            filling.db.checkpoint()?;
            filling.db.close()?;
        }
        self.unfinished.keep();
        Ok(())
    }
}

impl Filling {
    fn table(&mut self, name: &str) -> pando::Result<Table> {
        if let Some(table) = self.tables.get(name) {
            return Ok(table.clone());
        }
        self.commit()?;
        let table = self.db.ensure_table(name)?;
        self.tables.insert(name.to_owned(), table.clone());
        Ok(table)
    }

    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> pando::Result<()> {
        let table = self.table(table)?;
        if self.tx.is_none() {
            self.tx = Some(self.db.begin()?);
        }
        self.tx.as_mut().expect("begun above").put(&table, key, value)?;
        self.pending_bytes += key.len() + value.len();
        if self.pending_bytes >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> pando::Result<()> {
        self.pending_bytes = 0;
        self.tx.take().map_or(Ok(()), |tx| tx.commit().map(drop))
    }
}

impl Sink for Databases {
    fn begin(&mut self, page_bytes: Option<usize>) -> pando::Result<()> {
        self.page_bytes = page_bytes;
        self.filling(Trust::Certain).map(drop)
    }

    fn table(&mut self, table: &str) -> pando::Result<()> {
        self.filling(Trust::Certain)?.table(table).map(drop)
    }

    fn record(&mut self, trust: Trust, table: &str, key: &[u8], value: &[u8]) -> pando::Result<()> {
        self.progress.record();
        self.filling(trust)?.put(table, key, value)
    }
}

/// A file for each degree of trust.
struct Lines {
    outs: [PathBuf; 2],
    rows: [Option<Rows<BufWriter<File>>>; 2],
    progress: Progress,
    unfinished: Unfinished,
}

impl Lines {
    fn new(outs: [PathBuf; 2]) -> Self {
        let (progress, unfinished) = (Progress::default(), Unfinished::default());
        Lines { outs, rows: [None, None], progress, unfinished }
    }

    fn rows(&mut self, trust: Trust) -> io::Result<&mut Rows<BufWriter<File>>> {
        let rows = &mut self.rows[trust as usize];
        if rows.is_none() {
            let out = &self.outs[trust as usize];
            let file = BufWriter::new(File::create_new(out)?);
            self.unfinished.note(out);
            *rows = Some(Rows::new(file, Format::Ndjson, &["table", "key", "value"])?);
        }
        Ok(rows.as_mut().expect("made above"))
    }

    fn finish(&mut self) -> Outcome {
        for (rows, out) in self.rows.iter_mut().zip(&self.outs) {
            let Some(rows) = rows.take() else { continue };
            let written = rows.finish().and_then(|_| fs::File::open(out)?.sync_all());
            written.map_err(|cause| Failure::system(format!("write {}", out.display()), cause))?;
        }
        self.unfinished.keep();
        Ok(())
    }
}

impl Sink for Lines {
    fn begin(&mut self, _page_bytes: Option<usize>) -> pando::Result<()> {
        let made = self.rows(Trust::Certain).map(drop);
        made.map_err(|cause| pando::Error::io(format!("create {}", self.outs[0].display()), cause))
    }

    fn table(&mut self, _table: &str) -> pando::Result<()> {
        Ok(())
    }

    fn record(&mut self, trust: Trust, table: &str, key: &[u8], value: &[u8]) -> pando::Result<()> {
        self.progress.record();
        let cells = [Cell::Bytes(table.as_bytes()), Cell::Bytes(key), Cell::Bytes(value)];
        let written = self.rows(trust).and_then(|rows| rows.row(&cells));
        written.map_err(|cause| pando::Error::io("write the records", cause))
    }
}

/// The number of lost ranges that are shown for each table; `--json` shows all.
const SHOWN: usize = 20;

fn print_report(report: &Report, outs: &[PathBuf; 2]) -> Outcome {
    match (report.checkpoint, report.commit) {
        (Some(checkpoint), Some(commit)) => {
            say!("state of commit {commit}, read from checkpoint {checkpoint}")?
        }
        _ => say!("no superblock can be read, so no record is certain")?,
    }
    say!("{} commits from the log", text::count(report.log_commits))?;
    if let Some(why) = &report.log_stopped {
        say!("the log could not be read further: {why}")?;
    }
    if report.is_outdated {
        say!("there may have been later states; newer records are among the uncertain ones")?;
    }
    if let Some(leaves) = report.scanned_leaves {
        say!("the data file was searched: {} leaves", text::count(leaves))?;
    }
    report.damage.iter().try_for_each(|what| say!("damaged: {what}"))?;
    for table in &report.tables {
        let (certain, uncertain) = (text::count(table.certain), text::count(table.uncertain));
        say!("table {}: {certain} records certain, {uncertain} uncertain", table.name)?;
        for lost in table.lost.iter().take(SHOWN) {
            let high = lost.high.as_ref().map_or("the end".into(), |high| text::show(high));
            say!("  lost: from {} to before {high}: {}", text::show(&lost.low), lost.why)?;
        }
        if table.lost.len() > SHOWN {
            say!("  and {} more", table.lost.len() - SHOWN)?;
        }
    }
    let made: Vec<String> =
        outs.iter().filter(|out| out.exists()).map(|out| out.display().to_string()).collect();
    say!("written: {}", made.join(", "))
}

fn as_json(report: &Report) -> Value {
    let key = |key: &[u8]| text::to_hex(key);
    let tables: Vec<Value> = report
        .tables
        .iter()
        .map(|table| {
            let lost: Vec<Value> = table
                .lost
                .iter()
                .map(|lost| {
                    let high = lost.high.as_deref().map(key);
                    json!({"low_hex": key(&lost.low), "high_hex": high, "why": lost.why})
                })
                .collect();
            json!({"table": table.name, "certain": table.certain, "uncertain": table.uncertain, "lost": lost})
        })
        .collect();
    json!({
        "complete": report.is_complete(),
        "checkpoint": report.checkpoint,
        "commit": report.commit,
        "log_commits": report.log_commits,
        "log_stopped": report.log_stopped,
        "outdated": report.is_outdated,
        "scanned_leaves": report.scanned_leaves,
        "damage": report.damage,
        "tables": tables,
    })
}
