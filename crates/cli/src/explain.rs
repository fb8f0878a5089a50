//! `explain`: runs one operation and prints its steps.

use crate::failure::{Failure, Outcome};
use crate::open::{self, DurabilityName, MemoryArgs};
use crate::output::{self, Cell, FormatArgs, Rows};
use crate::remote::{self, Remote};
use clap::{Args, Subcommand};
use pando::explain::{Explanation, Step, Touched};
use pando::{Database, Span, Table, TransactionOptions};
use serde_json::{Map, Value};
use std::io::{self, BufRead};
use std::ops::Bound;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando explain DIR get TABLE KEY
  pando explain DIR scan TABLE --start a --limit 100 --json
  printf 'k1\\tv1\\nk2\\tv2\\n' | pando explain DIR commit TABLE

Each row is a step. Rows that begin with a dash are the pages that the step above them read.
The command opens the database, so the first run reads every page from the file. `--repeat 2` shows a run that finds
the pages in memory.")]
pub struct ExplainArgs {
    /// The directory of the database, or (for get and scan) its address on a server: http://HOST:PORT/DATABASE
    dir: PathBuf,
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Debug, Subcommand)]
enum Operation {
    /// Explain a look-up: memtables, filters, and the pages that were read
    Get {
        /// The name of the table
        table: String,
        /// The key
        key: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// Explain a scan in key order
    Scan {
        /// The name of the table
        table: String,
        /// Start at this key (inclusive) [default: the first key]
        #[arg(long, value_name = "KEY")]
        start: Option<String>,
        /// Stop before this key (exclusive) [default: after the last key]
        #[arg(long, value_name = "KEY")]
        end: Option<String>,
        /// Read at most N records
        #[arg(long, value_name = "N", default_value_t = 1000)]
        limit: u64,
        #[command(flatten)]
        shown: Shown,
    },
    /// Set a key and commit; the change is written to the database
    Put {
        /// The name of the table
        table: String,
        /// The key
        key: String,
        /// The value
        value: String,
        /// What the commit survives
        #[arg(long, value_enum, default_value_t = DurabilityName::Sync)]
        durability: DurabilityName,
        #[command(flatten)]
        shown: Shown,
    },
    /// Commit the lines of standard input in one transaction, each line a key, a tab and a value; the changes are
    /// written to the database
    Commit {
        /// The name of the table
        table: String,
        /// What the commit survives
        #[arg(long, value_enum, default_value_t = DurabilityName::Sync)]
        durability: DurabilityName,
        #[command(flatten)]
        shown: Shown,
    },
}

#[derive(Args, Debug)]
struct Shown {
    /// Run the operation N times and print the last run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// Runs `pando explain`.
pub fn run(args: &ExplainArgs) -> Outcome {
    if let Some(remote) = Remote::find(&args.dir)? {
        return of_server(&remote, &args.operation);
    }
    let reading = |shown: &Shown, table: &str| -> Outcome<(Database, Table)> {
        let db = shown.memory.builder().read_only(true).open(&args.dir)?;
        let table = open::table(&db.snapshot()?, table)?;
        Ok((db, table))
    };
    match &args.operation {
        Operation::Get { table, key, shown } => {
            let (db, table) = reading(shown, table)?;
            shown.print(|| Ok(db.explain_get(&table, key.as_bytes())?))
        }
        Operation::Scan { table, start, end, limit, shown } => {
            let (db, table) = reading(shown, table)?;
            let start = start.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(key.as_bytes()));
            let end = end.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_bytes()));
            shown.print(|| Ok(db.explain_scan(&table, Span::between(start, end), *limit)?))
        }
        Operation::Put { table, key, value, durability, shown } => {
            let record = (key.clone().into_bytes(), value.clone().into_bytes());
            commit(args, table, &[record], *durability, shown)
        }
        Operation::Commit { table, durability, shown } => commit(args, table, &lines()?, *durability, shown),
    }
}

/// Explains an operation of a server that only reads.
fn of_server(remote: &Remote, operation: &Operation) -> Outcome {
    let (table, query, shown) = match operation {
        Operation::Get { table, key, shown } => {
            (table, format!("key={}", remote::escape(key.as_bytes())), shown)
        }
        Operation::Scan { table, start, end, limit, shown } => {
            let mut query = format!("limit={limit}");
            for (name, key) in [("start", start), ("end", end)] {
                if let Some(key) = key {
                    query.push_str(&format!("&{name}={}", remote::escape(key.as_bytes())));
                }
            }
            (table, query, shown)
        }
        Operation::Put { .. } | Operation::Commit { .. } => {
            let message = "a server can explain only `get` and `scan`; `put` and `commit` need the \
                           directory of a database";
            return Err(Failure::Usage(message.to_owned()));
        }
    };
    let path = format!("{}/explain?{query}", Remote::table(table));
    shown.print(|| Ok(parse_explanation(&remote.ask_json("GET", &path)?)))
}

/// Parses the explanation in a server's response.
fn parse_explanation(answer: &Map<String, Value>) -> Explanation {
    let number = |value: &Value, name: &str| value[name].as_u64().unwrap_or_default();
    let word = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let listed = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let page = |page: &Value| Touched {
        unit: number(page, "unit"),
        level: number(page, "level") as u8,
        entries: number(page, "entries"),
        bytes: number(page, "bytes"),
        was_resident: page["was_resident"] == Value::Bool(true),
        ns: number(page, "ns"),
    };
    let step = |step: &Value| Step {
        what: word(step, "what"),
        outcome: word(step, "outcome"),
        pages: listed(step.get("pages")).iter().map(page).collect(),
        bytes: number(step, "bytes"),
        ns: number(step, "ns"),
    };
    Explanation { steps: listed(answer.get("steps")).iter().map(step).collect() }
}

fn commit(
    args: &ExplainArgs,
    table: &str,
    records: &[(Vec<u8>, Vec<u8>)],
    durability: DurabilityName,
    shown: &Shown,
) -> Outcome {
    let db = shown.memory.builder().open(&args.dir)?;
    let table = open::table(&db.snapshot()?, table)?;
    let options = TransactionOptions { durability: durability.into(), ..db.transaction_options() };
    shown.print(|| Ok(db.explain_commit(&table, records, options)?))?;
    Ok(db.close()?)
}

/// Reads records from standard input.
fn lines() -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
    let read = |line: io::Result<String>| {
        let line = line.map_err(|cause| Failure::system("read standard input", cause))?;
        let (key, value) = line
            .split_once('\t')
            .ok_or_else(|| Failure::Usage(format!("`{line}` is not a key, a tab and a value")))?;
        Ok((key.as_bytes().to_vec(), value.as_bytes().to_vec()))
    };
    io::stdin().lock().lines().map(read).collect()
}

impl Shown {
    fn print(&self, explain: impl Fn() -> Outcome<Explanation>) -> Outcome {
        for _ in 1..self.repeat {
            explain()?;
        }
        let explanation = explain()?;
        let columns = ["step", "outcome", "bytes", "ns"];
        let mut rows =
            Rows::new(output::stdout(), self.format.format(), &columns).map_err(Failure::stdout)?;
        let mut row = |step: &str, outcome: &str, bytes: u64, ns: u64| {
            let cells = [step.as_bytes(), outcome.as_bytes()].map(Cell::Bytes);
            rows.row(&[cells[0], cells[1], Cell::Number(bytes), Cell::Number(ns)]).map_err(Failure::stdout)
        };
        for step in &explanation.steps {
            row(&step.what, &step.outcome, step.bytes, step.ns)?;
            for page in &step.pages {
                let place = format!("- level {}, unit {}", page.level, page.unit);
                let from = if page.was_resident { "in memory" } else { "read from the file" };
                row(&place, &format!("{} entries, {from}", page.entries), page.bytes, page.ns)?;
            }
        }
        let (resident, read) = explanation.pages();
        row("in all", &format!("{resident} pages in memory, {read} read"), 0, explanation.total_ns())?;
        rows.finish().map(drop).map_err(Failure::stdout)
    }
}
