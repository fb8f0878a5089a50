//! `put`, `get`, `delete` and `scan`: single records, and records in order.

use crate::failure::{Failure, Outcome};
use crate::open::{self, CreateArgs, Existing, WriteArgs};
use crate::output::{self, Cell, FormatArgs, Rows};
use crate::text;
use clap::Args;
use pando::Span;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::Bound;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct PutArgs {
    /// The database's directory; created if it is missing
    dir: PathBuf,
    /// The table; made if it is missing
    table: String,
    key: String,
    /// The value, or `-` to read it from standard input, as it is
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// KEY and VALUE are hexadecimal
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    create: CreateArgs,
}

#[derive(Args, Debug)]
pub struct GetArgs {
    #[command(flatten)]
    database: Existing,
    table: String,
    key: String,
    /// KEY is hexadecimal
    #[arg(long)]
    hex: bool,
}

#[derive(Args, Debug)]
pub struct DeleteArgs {
    /// The database's directory
    dir: PathBuf,
    table: String,
    key: String,
    /// KEY is hexadecimal
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Args, Debug)]
pub struct ScanArgs {
    #[command(flatten)]
    database: Existing,
    table: String,
    /// The first key
    #[arg(long, value_name = "KEY")]
    start: Option<String>,
    /// The first key behind the last
    #[arg(long, value_name = "KEY")]
    end: Option<String>,
    /// Keys that begin so
    #[arg(long, value_name = "KEY", conflicts_with_all = ["start", "end"])]
    prefix: Option<String>,
    /// START, END and PREFIX are hexadecimal
    #[arg(long)]
    hex: bool,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// At most so many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Leave the values out
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// `pando put`.
pub fn put(args: &PutArgs) -> Outcome {
    let key = bytes(&args.key, args.hex)?;
    let value = match args.value.as_str() {
        "-" => read_stdin()?,
        value => bytes(value, args.hex)?,
    };
    let db = args.create.create(&args.dir)?;
    let table = db.table(&args.table)?;
    db.put(&table, &key, &value)?;
    Ok(db.close()?)
}

/// `pando get`.
pub fn get(args: &GetArgs) -> Outcome {
    let key = bytes(&args.key, args.hex)?;
    let db = args.database.open()?;
    let snapshot = db.snapshot()?;
    let table = open::table(&snapshot, &args.table)?;
    let value = snapshot.get(&table, &key)?.ok_or_else(|| absent(&args.table, &key))?;
    let mut out = io::stdout().lock();
    let write = |out: &mut io::StdoutLock<'_>| {
        out.write_all(&value)?;
        // At a terminal the prompt begins on a line of its own; a pipe gets the value and nothing else.
        if out.is_terminal() && !value.ends_with(b"\n") {
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    write(&mut out).map_err(Failure::stdout)
}

/// `pando delete`.
pub fn delete(args: &DeleteArgs) -> Outcome {
    let key = bytes(&args.key, args.hex)?;
    let db = args.write.builder().open(&args.dir)?;
    let table = open::table(&db.snapshot()?, &args.table)?;
    let removed = db.write(|tx| tx.remove(&table, &key))?;
    db.close()?;
    removed.map(drop).ok_or_else(|| absent(&args.table, &key))
}

/// `pando scan`.
pub fn scan(args: &ScanArgs) -> Outcome {
    let span = args.span()?;
    let db = args.database.open()?;
    let snapshot = db.snapshot()?;
    let table = open::table(&snapshot, &args.table)?;
    let mut cursor = snapshot.cursor(&table, span)?;
    let columns: &[&str] = if args.keys_only { &["key"] } else { &["key", "value"] };
    let mut rows = Rows::new(output::stdout(), args.format.format(), columns).map_err(Failure::stdout)?;
    for _ in 0..args.limit.unwrap_or(u64::MAX) {
        let record = if args.reverse { cursor.prev()? } else { cursor.next()? };
        let Some((key, value)) = record else { break };
        let cells = [Cell::Bytes(key), Cell::Bytes(value)];
        rows.row(&cells[..columns.len()]).map_err(Failure::stdout)?;
    }
    rows.finish().map(drop).map_err(Failure::stdout)
}

impl ScanArgs {
    fn span(&self) -> Outcome<Span> {
        let key = |text: &Option<String>| text.as_ref().map(|text| bytes(text, self.hex)).transpose();
        if let Some(prefix) = key(&self.prefix)? {
            return Ok(Span::prefix(&prefix));
        }
        let (start, end) = (key(&self.start)?, key(&self.end)?);
        let start = start.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        Ok(Span::between(start, end))
    }
}

/// A key or a value from the command line.
fn bytes(text: &str, hex: bool) -> Outcome<Vec<u8>> {
    if hex { text::from_hex(text).map_err(Failure::Usage) } else { Ok(text.as_bytes().to_vec()) }
}

fn absent(table: &str, key: &[u8]) -> Failure {
    Failure::Absent(format!("no key {} in table {table:?}", text::show(key)))
}

fn read_stdin() -> Outcome<Vec<u8>> {
    let mut value = Vec::new();
    // One byte more than the longest value is enough for the engine to refuse it.
    let most = pando::limits::MAX_VALUE_BYTES + 1;
    let read = io::stdin().lock().take(most).read_to_end(&mut value);
    read.map_err(|cause| Failure::system("read standard input", cause))?;
    Ok(value)
}
