//! `tables`, `rename`, `layout`, `ttl`, `stats`, `check` and `checkpoint`: commands on the database as a whole.

use crate::failure::{Failure, Outcome};
use crate::open::{Existing, WriteArgs};
use crate::output::{self, Cell, Format, FormatArgs, Rows};
use crate::remote::Remote;
use crate::{text, watch};
use clap::Args;
use indicatif::ProgressBar;
use pando::{CheckReport, Compression, Layout};
use serde_json::{Map, Value};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
pub struct InspectArgs {
    #[command(flatten)]
    database: Existing,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct StatsArgs {
    #[command(flatten)]
    database: Existing,
    /// Print a row of rates every SECONDS (a whole number, without a unit), until Ctrl-C; for a server only [default
    /// without a number: 1]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,
    /// Stop after N rows; needs --watch [default: no limit]
    #[arg(long, value_name = "N", requires = "watch")]
    times: Option<u64>,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct CheckpointArgs {
    /// The directory of the database, or its address on a server: http://HOST:PORT/DATABASE
    dir: PathBuf,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Args, Debug)]
pub struct RenameArgs {
    /// The directory of the database, or its address on a server: http://HOST:PORT/DATABASE
    dir: PathBuf,
    /// The current name of the table
    table: String,
    /// The new name of the table; no other table may have it
    new: String,
    #[command(flatten)]
    write: WriteArgs,
}

/// Runs `pando rename`.
pub fn rename(args: &RenameArgs) -> Outcome {
    [&args.table, &args.new].into_iter().try_for_each(|name| rows::refuse_reserved(name))?;
    if let Some(remote) = Remote::find(&args.dir)? {
        let change = serde_json::json!({ "name": args.new }).to_string();
        let path = Remote::table(&args.table);
        return remote.ask("PATCH", &path, Some(&mut change.as_bytes())).map(drop);
    }
    let db = args.write.builder().open(&args.dir)?;
    db.rename_table(&args.table, &args.new)?;
    Ok(db.close()?)
}

#[derive(Args, Debug)]
#[command(after_help = "\
The command waits until the whole table is rewritten. A server responds at once and rewrites the table in the
background. Run `pando advise` first: it estimates what operations cost in either layout.

Example:
  pando layout shop events lsm")]
pub struct LayoutArgs {
    /// The directory of the database, or its address on a server: http://HOST:PORT/DATABASE
    dir: PathBuf,
    /// The name of the table
    table: String,
    /// The new layout: btree for reads and scans, lsm for writes far larger than memory
    #[arg(value_name = "LAYOUT")]
    layout: Layout,
    #[command(flatten)]
    write: WriteArgs,
}

/// Runs `pando layout`: switches, and waits until the whole table has the new layout. A server continues the switch by
/// itself.
pub fn layout(args: &LayoutArgs) -> Outcome {
    if let Some(remote) = Remote::find(&args.dir)? {
        let change = serde_json::json!({ "layout": args.layout.name() }).to_string();
        let path = Remote::table(&args.table);
        return remote.ask("PATCH", &path, Some(&mut change.as_bytes())).map(drop);
    }
    let db = args.write.builder().open(&args.dir)?;
    db.set_layout(&args.table, args.layout)?;
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let before = db.stats()?.compacted_bytes;
    let done = db.settle(|| {
        let moved = db.stats().map_or(0, |stats| stats.compacted_bytes - before);
        bar.set_message(format!("{} merged", text::size(moved)));
    });
    bar.finish_and_clear();
    done.and_then(|_| db.close()).map_err(|error| {
        let kept = format!(
            "table {:?} has the layout {} from now on; later checkpoints go on rewriting it",
            args.table,
            args.layout.name()
        );
        Failure::Engine(error).keeping(kept, "")
    })
}

#[derive(Args, Debug)]
pub struct TtlArgs {
    /// The directory of the database, or its address on a server: http://HOST:PORT/DATABASE
    dir: PathBuf,
    /// The name of the table
    table: String,
    /// How long an entry lives after its put: a whole number with a unit (ms, s, m, h or d), as in 36h; `none`:
    /// entries never expire
    #[arg(value_name = "TIME", value_parser = parse_ttl)]
    ttl: Ttl,
    #[command(flatten)]
    write: WriteArgs,
}

/// A TTL on the command line; `None`: entries never expire.
#[derive(Clone, Copy, Debug)]
struct Ttl(Option<Duration>);

fn parse_ttl(text: &str) -> Result<Ttl, String> {
    if text == "none" { Ok(Ttl(None)) } else { text::parse_duration(text).map(|ttl| Ttl(Some(ttl))) }
}

/// Runs `pando ttl`.
pub fn ttl(args: &TtlArgs) -> Outcome {
    rows::refuse_reserved(&args.table)?;
    let Ttl(ttl) = args.ttl;
    if let Some(remote) = Remote::find(&args.dir)? {
        let change = serde_json::json!({ "ttl_ms": ttl.map(|ttl| ttl.as_millis() as u64) }).to_string();
        let path = Remote::table(&args.table);
        return remote.ask("PATCH", &path, Some(&mut change.as_bytes())).map(drop);
    }
    let db = args.write.builder().open(&args.dir)?;
    db.set_ttl(&args.table, ttl)?;
    Ok(db.close()?)
}

#[derive(Args, Debug)]
pub struct CompressionArgs {
    /// The directory of the database, or its address on a server: http://HOST:PORT/DATABASE
    dir: PathBuf,
    /// The name of the table
    table: String,
    /// How merges compress pages from now on, lz4 or none; pages that exist stay as they are until they are merged
    #[arg(value_name = "COMPRESSION")]
    compression: Compression,
    #[command(flatten)]
    write: WriteArgs,
}

/// Runs `pando compression`.
pub fn compression(args: &CompressionArgs) -> Outcome {
    if let Some(remote) = Remote::find(&args.dir)? {
        let change = serde_json::json!({ "compression": args.compression.name() }).to_string();
        let path = Remote::table(&args.table);
        return remote.ask("PATCH", &path, Some(&mut change.as_bytes())).map(drop);
    }
    let db = args.write.builder().open(&args.dir)?;
    db.set_compression(&args.table, args.compression)?;
    Ok(db.close()?)
}

/// Runs `pando tables`.
pub fn tables(args: &InspectArgs) -> Outcome {
    if let Some(remote) = Remote::find(&args.database.dir)? {
        return tables_remote(&remote, args);
    }
    let db = args.database.open()?;
    let snapshot = db.snapshot()?;
    let mut rows =
        Rows::new(output::stdout(), args.format.format(), &TABLE_COLUMNS).map_err(Failure::stdout)?;
    for table in snapshot.tables()? {
        let records = snapshot.approximate_len(&table)?;
        let words = [table.name(), table.layout().name(), table.compression().name()];
        table_row(&mut rows, words, (table.ttl(), table.has_ttl_by_key()), records)?;
    }
    rows.finish().map(drop).map_err(Failure::stdout)
}

const TABLE_COLUMNS: [&str; 5] = ["table", "layout", "ttl", "compression", "approximate_records"];

fn table_row(
    rows: &mut Rows<impl Write>,
    [name, layout, compression]: [&str; 3],
    (ttl, by_key): (Option<Duration>, bool),
    records: u64,
) -> Outcome {
    let others = if by_key { "by-key" } else { "none" };
    let ttl = ttl.map_or(others.to_owned(), text::show_duration);
    let words = [name, layout, &ttl, compression].map(|word| Cell::Bytes(word.as_bytes()));
    let cells: Vec<Cell<'_>> = words.into_iter().chain([Cell::Number(records)]).collect();
    rows.row(&cells).map_err(Failure::stdout)
}

fn tables_remote(remote: &Remote, args: &InspectArgs) -> Outcome {
    let mut rows =
        Rows::new(output::stdout(), args.format.format(), &TABLE_COLUMNS).map_err(Failure::stdout)?;
    let listed = remote.ask_json("GET", "/tables")?;
    for table in listed.get("tables").and_then(Value::as_array).into_iter().flatten() {
        let word = |name| table.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name| table.get(name).and_then(Value::as_u64);
        let ttl = number("ttl_ms").map(Duration::from_millis);
        let records = number("approximate_entries").unwrap_or(0);
        let by_key = table.get("ttl_by_key").and_then(Value::as_bool).unwrap_or_default();
        table_row(&mut rows, ["name", "layout", "compression"].map(word), (ttl, by_key), records)?;
    }
    rows.finish().map(drop).map_err(Failure::stdout)
}

/// Prints the numbers in a server's response.
pub fn write_numbers(answer: &Map<String, Value>, format: FormatArgs) -> Outcome {
    let numbers = answer.iter().filter_map(|(name, value)| Some((&name[..], Cell::Number(value.as_u64()?))));
    output::write_record(format.format(), &numbers.collect::<Vec<_>>())
}

/// Runs `pando stats`.
pub fn stats(args: &StatsArgs) -> Outcome {
    if let Some(remote) = Remote::find(&args.database.dir)? {
        if let Some(seconds) = args.watch {
            return watch::run(&remote, Duration::from_secs(seconds), args.times, args.format.format());
        }
        return write_numbers(&remote.ask_json("GET", "/stats")?, args.format);
    }
    if args.watch.is_some() {
        let message = "--watch needs a server (http://HOST:PORT/DATABASE): a database in a directory does not change while this command reads it";
        return Err(Failure::Usage(message.to_owned()));
    }
    let db = args.database.open()?;
    let numbers = db.stats()?.numbers();
    let fields: Vec<_> = numbers.iter().map(|(name, value)| (&name[..], Cell::Number(*value))).collect();
    output::write_record(args.format.format(), &fields)
}

/// The number of problems that are shown. All problems are counted.
const SHOWN: usize = 100;

/// Runs `pando check`.
pub fn check(args: &InspectArgs) -> Outcome {
    let began = Instant::now();
    if let Some(remote) = Remote::find(&args.database.dir)? {
        return check_remote(&remote, args, began);
    }
    let db = args.database.open()?;
    // Replay checks the content of the log; the trees are read here.
    let at_terminal = io::stderr().is_terminal();
    let found = db.check_all(|report| {
        if at_terminal {
            eprint!("\r{} records in {} pages ", report.records, report.leaves + report.inner_pages);
        }
    })?;
    let typed = rows::check(&db.snapshot()?, |report| {
        if at_terminal {
            eprint!("\r{} rows of typed tables, {} index entries ", report.rows, report.entries);
        }
    })?;
    if at_terminal {
        eprintln!();
    }
    if db.is_beside_writer() {
        eprintln!(
            "note: another process has the database open for writing, so the map of free space was not \
             compared with the pages in use; use --url to check in that process"
        );
    }
    let pages = found.report.leaves + found.report.inner_pages;
    let counts = check_fields(&found.report).into_iter().chain(typed_fields(&typed));
    let CheckReport { checkpoint, log_commits, log_changes, .. } = found.report;
    let mut fields = log_fields(checkpoint, log_commits, log_changes, args.format.format());
    fields.extend(counts.map(|(name, value)| (name, Cell::Number(value))));
    fields.push(("page_bytes_read", Cell::Number(pages * db.stats()?.page_bytes)));
    fields.push(("milliseconds", Cell::Number(began.elapsed().as_millis() as u64)));
    let count = found.count + typed.problem_count();
    fields.push(("problems", Cell::Number(count)));
    let problems = found.wrong.iter().map(ToString::to_string);
    let problems = problems.chain(typed.problems.iter().map(ToString::to_string));
    write_checked(fields, &problems.take(SHOWN).collect::<Vec<_>>(), count, args.format.format())
}

fn check_remote(remote: &Remote, args: &InspectArgs, began: Instant) -> Outcome {
    let found = remote.ask_json("POST", "/check")?;
    let number = |name: &str| found.get(name).and_then(Value::as_u64).unwrap_or_default();
    let page_bytes = remote.ask_json("GET", "/stats")?.get("page_bytes").and_then(Value::as_u64);
    let pages = number("leaf_pages") + number("inner_pages");
    let names = check_fields(&CheckReport::default()).into_iter().chain(typed_fields(&Default::default()));
    let of_log = ["checkpoint", "commits_in_log", "changes_in_log"].map(number);
    let mut fields: Vec<(&str, Cell<'_>)> = match found.get("checkpoint") {
        Some(_) => log_fields(of_log[0], of_log[1], of_log[2], args.format.format()),
        // An older server does not say.
        None => Vec::new(),
    };
    fields.extend(names.map(|(name, _)| (name, Cell::Number(number(name)))));
    fields.push(("page_bytes_read", Cell::Number(pages * page_bytes.unwrap_or_default())));
    fields.push(("milliseconds", Cell::Number(began.elapsed().as_millis() as u64)));
    fields.push(("problems", Cell::Number(number("problem_count"))));
    let problems = found.get("problems").and_then(Value::as_array).into_iter().flatten();
    let problems: Vec<String> = problems.filter_map(|problem| problem.as_str().map(str::to_owned)).collect();
    write_checked(fields, &problems, number("problem_count"), args.format.format())
}

/// Returns what says whether there are pages to check, and how much is in the log alone. Checkpoint 0 is none: a
/// database has it until its first checkpoint.
fn log_fields(
    checkpoint: u64,
    commits: u64,
    changes: u64,
    format: Format,
) -> Vec<(&'static str, Cell<'static>)> {
    let shown = match (checkpoint, format) {
        (0, Format::Table) => Cell::Bytes(b"none yet: everything is in the log"),
        (0, _) => Cell::Null,
        (checkpoint, _) => Cell::Number(checkpoint),
    };
    vec![
        ("checkpoint", shown),
        ("commits_in_log", Cell::Number(commits)),
        ("changes_in_log", Cell::Number(changes)),
    ]
}

/// Prints the findings of a check and fails if there are problems.
fn write_checked(fields: Vec<(&str, Cell<'_>)>, problems: &[String], count: u64, format: Format) -> Outcome {
    let names: Vec<String> = (1..=problems.len()).map(|number| format!("problem_{number}")).collect();
    let mut fields: Vec<(&str, Cell<'_>)> = fields;
    if format != Format::Table {
        let named = names.iter().zip(problems);
        fields.extend(named.map(|(name, text)| (&name[..], Cell::Bytes(text.as_bytes()))));
    }
    output::write_record(format, &fields)?;
    if count == 0 {
        return Ok(());
    }
    for problem in problems {
        eprintln!("problem: {problem}");
    }
    Err(Failure::Damaged(format!(
        "{count} problems found; keep the directory as it is, and restore a backup or run `pando salvage`"
    )))
}

/// Runs `pando checkpoint`.
pub fn checkpoint(args: &CheckpointArgs) -> Outcome {
    if let Some(remote) = Remote::find(&args.dir)? {
        return remote.ask("POST", "/checkpoint", None).map(drop);
    }
    let db = args.write.builder().open(&args.dir)?;
    db.checkpoint()?;
    Ok(db.close()?)
}

/// Returns the counts of a check of typed tables.
fn typed_fields(report: &rows::CheckReport) -> [(&'static str, u64); 3] {
    [("typed_tables", report.tables), ("typed_rows", report.rows), ("index_entries", report.entries)]
}

/// Returns the counts of a check.
pub fn check_fields(report: &CheckReport) -> [(&'static str, u64); 11] {
    [
        ("tables", report.tables),
        ("lsm_tables", report.lsm_tables),
        ("runs", report.runs),
        ("records_in_pages", report.records),
        ("record_bytes", report.record_bytes),
        ("saved_bytes", report.saved_bytes),
        ("leaf_pages", report.leaves),
        ("inner_pages", report.inner_pages),
        ("large_values", report.large_values),
        ("free_in_pages_bytes", report.free_in_pages_bytes),
        ("orphan_units", report.orphan_units),
    ]
}
