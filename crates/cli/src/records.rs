//! `put`, `get`, `delete` and `scan`: single records, and records in order.

use crate::failure::{Failure, Outcome};
use crate::open::{self, CreateArgs, Existing, TableArgs, TableTtl, WriteArgs};
use crate::output::{self, Cell, FormatArgs, Rows};
use crate::remote::{self, Remote};
use crate::text;
use crate::values::{self, Input};
use clap::Args;
use pando::Span;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::http::header::{CONTENT_LENGTH, EXPECT, IF_MATCH};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando put shop colors lemon yellow
  pando put shop photos lemon --file lemon.jpg
  pando put shop bytes 00ff 0a0b --hex
  pando put shop sessions ann in --expires-in 30m")]
pub struct PutArgs {
    /// The directory of the database, or its address on a server (http://HOST:PORT/DATABASE); created if it does not
    /// exist
    dir: PathBuf,
    /// The name of the table; created if it does not exist
    table: String,
    /// The key
    key: String,
    /// The value, or `-` to read it from standard input byte for byte
    #[arg(allow_hyphen_values = true, required_unless_present = "file")]
    value: Option<String>,
    /// Read the value from this file, or from standard input if FILE is `-`; use it for values of any length
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
    /// Read KEY and VALUE as hexadecimal digits, two for each byte
    #[arg(long)]
    hex: bool,
    /// Expire the entry after TIME, as in 90s, 36h or 30d. A table that does not exist is created with --ttl by-key
    #[arg(long, value_name = "TIME", value_parser = text::parse_duration)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    options: TableArgs,
    #[command(flatten)]
    create: CreateArgs,
}

#[derive(Args, Debug)]
pub struct GetArgs {
    #[command(flatten)]
    database: Existing,
    /// The name of the table
    table: String,
    /// The key
    key: String,
    /// Read KEY as hexadecimal digits, two for each byte
    #[arg(long)]
    hex: bool,
}

#[derive(Args, Debug)]
pub struct DeleteArgs {
    /// The directory of the database, or its address on a server: http://HOST:PORT/DATABASE
    dir: PathBuf,
    /// The name of the table
    table: String,
    /// The key
    key: String,
    /// Read KEY as hexadecimal digits, two for each byte
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando scan shop colors --limit 10
  pando scan shop colors --start a --end n
  pando scan shop colors --prefix le --reverse --json")]
pub struct ScanArgs {
    #[command(flatten)]
    database: Existing,
    /// The name of the table
    table: String,
    /// Start at this key (inclusive) [default: the first key]
    #[arg(long, value_name = "KEY")]
    start: Option<String>,
    /// Stop before this key (exclusive) [default: after the last key]
    #[arg(long, value_name = "KEY")]
    end: Option<String>,
    /// Print only records whose key begins with PREFIX
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["start", "end"])]
    prefix: Option<String>,
    /// Read the keys of --start, --end and --prefix as hexadecimal digits, two for each byte
    #[arg(long)]
    hex: bool,
    /// Print records in descending key order
    #[arg(long)]
    reverse: bool,
    /// Print at most N records [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print keys without their values
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Runs `pando put`.
pub fn put(args: &PutArgs) -> Outcome {
    rows::refuse_reserved(&args.table)?;
    let key = bytes(&args.key, args.hex)?;
    let Input { bytes: mut value, long_bytes } = match (&args.file, args.value.as_deref()) {
        (Some(file), _) => values::input(file)?,
        (None, Some("-")) => values::input(Path::new("-"))?,
        (None, value) => {
            let value = io::Cursor::new(bytes(value.unwrap_or_default(), args.hex)?);
            Input { bytes: Box::new(value), long_bytes: None }
        }
    };
    let mut options = args.options;
    if args.expires_in.is_some() {
        options.ttl = options.ttl.or(Some(TableTtl::ByKey));
    }
    if let Some(remote) = Remote::find(&args.dir)? {
        remote.make_table(&args.table, options, args.create)?;
        let durability = args.create.write.durability.name();
        let ttl = args.expires_in.map_or_else(String::new, |ttl| format!("&ttl_ms={}", ttl.as_millis()));
        let entry = format!("{}?durability={durability}{ttl}", Remote::entry(&args.table, &key));
        // A server that refuses the value for its length says so before anything is sent.
        let length = long_bytes.map(|bytes| bytes.to_string());
        let asks_first = length.as_deref().map(|length| [(CONTENT_LENGTH, length), (EXPECT, "100-continue")]);
        let headers = asks_first.as_ref().map_or(&[][..], |headers| headers);
        return remote.ask_with("PUT", &entry, headers, Some(&mut value)).map(drop);
    }
    let db = args.create.create(&args.dir)?;
    let table = options.table(&db, &args.table)?;
    // `write` could run twice, but the input can be read only once. A single put has no conflict.
    let mut tx = db.begin()?;
    match args.expires_in {
        Some(ttl) => tx.put_reader_with_ttl(&table, &key, &mut value, ttl)?,
        None => tx.put_reader(&table, &key, &mut value)?,
    };
    tx.commit()?;
    Ok(db.close()?)
}

/// Runs `pando get`.
pub fn get(args: &GetArgs) -> Outcome {
    let key = bytes(&args.key, args.hex)?;
    if let Some(remote) = Remote::find(&args.database.dir)? {
        return get_remote(&remote, &args.table, &key);
    }
    let db = args.database.open()?;
    let snapshot = db.snapshot()?;
    let table = open::table(&snapshot, &args.table)?;
    let value = snapshot.value_reader(&table, &key)?.ok_or_else(|| absent(&args.table, &key))?;
    let bytes = value.len_bytes();
    show_value(value, Some(bytes))
}

/// Writes a value to standard output without encoding.
fn show_value(value: impl Read, bytes: Option<u64>) -> Outcome {
    let mut out = io::stdout().lock();
    let last = values::write_all(value, bytes, &mut out, Failure::stdout)?;
    // At a terminal the prompt must begin on a new line. A pipe gets only the value.
    if out.is_terminal() && last != Some(b'\n') {
        out.write_all(b"\n").map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)
}

fn get_remote(remote: &Remote, table: &str, key: &[u8]) -> Outcome {
    let absent_there = |failure| match failure {
        // A missing table or database is reported with a message; a missing key has no message.
        Failure::Engine(error) if error.message().starts_with("404") => absent(table, key),
        other => other,
    };
    let response = remote.ask("GET", &Remote::entry(table, key), None).map_err(absent_there)?;
    let bytes =
        response.headers().get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
    show_value(response.into_body().into_reader(), bytes)
}

/// Runs `pando delete`.
pub fn delete(args: &DeleteArgs) -> Outcome {
    rows::refuse_reserved(&args.table)?;
    let key = bytes(&args.key, args.hex)?;
    if let Some(remote) = Remote::find(&args.dir)? {
        // The delete is conditional on an existing key, so that the result says whether there was one.
        let deleted = remote.ask_with("DELETE", &Remote::entry(&args.table, &key), &[(IF_MATCH, "*")], None);
        return match deleted {
            Err(Failure::Failed(message)) if message.ends_with("(412)") => Err(absent(&args.table, &key)),
            done => done.map(drop),
        };
    }
    let db = args.write.builder().open(&args.dir)?;
    let table = open::table(&db.snapshot()?, &args.table)?;
    let removed = db.write(|tx| tx.remove(&table, &key))?;
    db.close()?;
    removed.map(drop).ok_or_else(|| absent(&args.table, &key))
}

/// Runs `pando scan`.
pub fn scan(args: &ScanArgs) -> Outcome {
    let span = args.span()?;
    if let Some(remote) = Remote::find(&args.database.dir)? {
        return args.scan_remote(&remote, &span);
    }
    let db = args.database.open()?;
    let snapshot = db.snapshot()?;
    let table = open::table(&snapshot, &args.table)?;
    let mut cursor = snapshot.cursor(&table, span)?;
    let columns: &[&str] = if args.keys_only { &["key"] } else { &["key", "value"] };
    let mut rows = Rows::new(output::stdout(), args.format.format(), columns).map_err(Failure::stdout)?;
    for _ in 0..args.limit.unwrap_or(u64::MAX) {
        // The value is read only if it is shown.
        if !(if args.reverse { cursor.retreat()? } else { cursor.advance()? }) {
            break;
        }
        if !args.keys_only {
            cursor.value()?;
        }
        let (key, value) = (cursor.key().unwrap_or_default(), cursor.current().map(|(_, value)| value));
        let cells = [Cell::Bytes(key), Cell::Bytes(value.unwrap_or_default())];
        rows.row(&cells[..columns.len()]).map_err(Failure::stdout)?;
    }
    rows.finish().map(drop).map_err(Failure::stdout)
}

impl ScanArgs {
    fn scan_remote(&self, remote: &Remote, span: &Span) -> Outcome {
        let mut path =
            format!("{}/entries?start={}", Remote::table(&self.table), remote::escape(span.start()));
        if let Some(end) = span.end() {
            path.push_str(&format!("&end={}", remote::escape(end)));
        }
        path.push_str(&format!("&reverse={}&keys_only={}", self.reverse, self.keys_only));
        // A page must have at least one record; the request also checks that the table exists.
        if let Some(limit) = self.limit.map(|limit| limit.max(1)) {
            path.push_str(&format!("&limit={limit}"));
        }
        let columns: &[&str] = if self.keys_only { &["key"] } else { &["key", "value"] };
        let mut rows = Rows::new(output::stdout(), self.format.format(), columns).map_err(Failure::stdout)?;
        let is_wanted = self.limit != Some(0);
        remote.each_record(&path, |key, value| {
            if !is_wanted {
                return Ok(());
            }
            rows.row(&[Cell::Bytes(key), Cell::Bytes(value)][..columns.len()]).map_err(Failure::stdout)
        })?;
        rows.finish().map(drop).map_err(Failure::stdout)
    }

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

/// Parses a key or a value of the command line.
fn bytes(text: &str, hex: bool) -> Outcome<Vec<u8>> {
    if hex { text::from_hex(text).map_err(Failure::Usage) } else { Ok(text.as_bytes().to_vec()) }
}

fn absent(table: &str, key: &[u8]) -> Failure {
    Failure::Absent(format!("no key {} in table {table:?}", text::name(key)))
}
