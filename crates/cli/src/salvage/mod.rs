//! `salvage`: copies the readable part of a damaged directory into a new database or as NDJSON.
//!
//! Certain records are written to OUT, and uncertain ones to `OUT.uncertain`, which is created only if there are any.
//! Both have the suffix `.part` until they are complete (`results`). The report on standard output lists what was
//! exported, what is lost, and why.

mod databases;
mod lines;
mod results;

use crate::failure::{Failure, Outcome};
use crate::open::MemoryArgs;
use crate::output::say;
use crate::text;
use clap::{Args, ValueEnum};
use databases::Databases;
use lines::Lines;
use pando::salvage::{self, Report, StoredOptions, StoredTtl};
use results::Results;
use serde_json::{Value, json};
use std::io::{self, IsTerminal};
use std::path::PathBuf;

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
    /// A new database with the same tables, whose entries do not expire
    Database,
    /// One JSON object on each line, with table, key and value
    Ndjson,
}

/// Runs `pando salvage`.
pub fn run(args: &SalvageArgs) -> Outcome {
    let results = Results::new(&args.out)?;
    let (report, written) = match args.format {
        Target::Database => {
            let mut sink = Databases::new(results, args.memory);
            let report = salvage::salvage(&args.dir, &mut sink)?;
            (report, sink.finish()?)
        }
        Target::Ndjson => {
            let mut sink = Lines::new(results);
            let report = salvage::salvage(&args.dir, &mut sink)?;
            (report, sink.finish()?)
        }
    };
    if args.json {
        say!("{}", as_json(&report))?;
    } else {
        print_report(&report, &written)?;
    }
    if report.is_complete() {
        return Ok(());
    }
    Err(Failure::Damaged("a part of the database could not be read; the report above lists it".into()))
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

/// The number of lost ranges that are shown for each table; `--json` shows all.
const SHOWN: usize = 20;

fn print_report(report: &Report, written: &[PathBuf]) -> Outcome {
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
        if let Some(what) = table.options.as_ref().and_then(not_kept) {
            say!("  not kept: {what}")?;
        }
        for lost in table.lost.iter().take(SHOWN) {
            let high = lost.high.as_ref().map_or("the end".into(), |high| text::show(high));
            say!("  lost: from {} to before {high}: {}", text::show(&lost.low), lost.why)?;
        }
        if table.lost.len() > SHOWN {
            say!("  and {} more", table.lost.len() - SHOWN)?;
        }
    }
    let written: Vec<String> = written.iter().map(|out| out.display().to_string()).collect();
    say!("written: {}", written.join(", "))
}

/// Returns what the results do not keep of a table's options.
fn not_kept(options: &StoredOptions) -> Option<String> {
    match options.ttl {
        StoredTtl::None | StoredTtl::ByTable(None) => None,
        StoredTtl::ByTable(Some(ttl)) => Some(format!(
            "the TTL of {}: the exported entries do not expire, and include expired ones",
            text::show_duration(ttl)
        )),
        StoredTtl::ByEntry => {
            Some("when each entry expires: the exported ones do not, and include expired ones".into())
        }
    }
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
            let options = table.options.map(|options| options_as_json(&options));
            json!({
                "table": table.name,
                "options": options,
                "certain": table.certain,
                "uncertain": table.uncertain,
                "lost": lost,
            })
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

/// Returns the options that a table had, with the names that the server's tables have.
fn options_as_json(options: &StoredOptions) -> Value {
    let ttl = match options.ttl {
        StoredTtl::ByTable(ttl) => ttl,
        StoredTtl::None | StoredTtl::ByEntry => None,
    };
    json!({
        "layout": options.layout.name(),
        "ttl_ms": ttl.map(|ttl| ttl.as_millis() as u64),
        "ttl_by_key": options.ttl == StoredTtl::ByEntry,
        "compression": options.compression.name(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando::salvage::{Sink, Trust};
    use std::path::Path;

    /// Feeds a sink as a salvage does, and returns what is in the folder before it is finished.
    fn feed(sink: &mut dyn Sink, folder: &Path) -> Vec<String> {
        sink.begin(Some(4096)).unwrap();
        sink.record(Trust::Certain, "t", b"a", b"1").unwrap();
        sink.record(Trust::Uncertain, "t", b"b", b"2").unwrap();
        names(folder)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A salvage that is killed leaves what there is before the end.
    #[test]
    fn results_have_their_names_once_they_are_complete() {
        let home = tempfile::tempdir().unwrap();
        let (folder, out) = (home.path(), home.path().join("out"));
        let parts = ["out.part", "out.uncertain.part"];
        let complete = ["out", "out.uncertain"];

        let mut sink = Lines::new(Results::new(&out).unwrap());
        assert_eq!(feed(&mut sink, folder), parts);
        assert_eq!(sink.finish().unwrap(), complete.map(|name| folder.join(name)));
        assert_eq!(names(folder), complete);
        complete.iter().for_each(|name| std::fs::remove_file(folder.join(name)).unwrap());

        let sink = |out| Databases::new(Results::new(out).unwrap(), MemoryArgs::default());
        let mut unfinished = sink(&out);
        assert_eq!(feed(&mut unfinished, folder), parts);
        drop(unfinished);
        assert!(names(folder).is_empty(), "a failed one leaves nothing");
        let mut sink = sink(&out);
        assert_eq!(feed(&mut sink, folder), parts);
        sink.finish().unwrap();
        assert_eq!(names(folder), complete);
        for (name, key) in [("out", b"a"), ("out.uncertain", b"b")] {
            let db = pando::Database::open(folder.join(name)).unwrap();
            let table = db.table("t").unwrap().unwrap();
            assert!(db.get(&table, key).unwrap().is_some());
        }
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("out");
        let mut sink = Lines::new(Results::new(&out).unwrap());
        feed(&mut sink, home.path());
        std::fs::write(&out, b"theirs").unwrap();
        assert!(matches!(sink.finish(), Err(Failure::Usage(_))));
        assert_eq!(names(home.path()), ["out"]);
        assert_eq!(std::fs::read(&out).unwrap(), b"theirs");
    }
}
