//! `import`: imports records from CSV, NDJSON or a directory tree.
//!
//! One thread reads the input and cuts it into batches. `--threads` writers commit one batch for each transaction, and
//! each batch is all or nothing. A failure stops the import and keeps the batches before it. It is safe to run the
//! import again, because a record is put under its key whether it exists or not. With `--bulk` all records are one
//! transaction. [`typed`] imports rows of typed tables, and [`server`] sends records to a server.

mod items;
mod csv_input;
mod ndjson_input;
mod bulk;
mod server;
mod typed;

#[cfg(feature = "arrow")]
use crate::columnar;
use crate::failure::{Failure, Outcome};
use crate::open::{CreateArgs, TableArgs};
use crate::output::say;
use crate::remote::Remote;
use crate::values::SHORT_BYTES;
use crate::{text, tree};
use clap::{Args, value_parser};
use indicatif::ProgressBar;
pub use items::RecordFormat;
use items::{Item, Items, Loaded, Record, open_input, progress};
use pando::{Database, Table};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando import shop colors colors.csv
  gunzip < colors.ndjson.gz | pando import shop colors - --format ndjson
  pando import shop people people.csv --typed --schema 'id int key, name text, age int null'
  pando import shop people people.parquet --typed    (with the feature `arrow`)")]
pub struct ImportArgs {
    /// The directory of the database, or its address on a server (http://HOST:PORT/DATABASE); created if it does not
    /// exist
    dir: PathBuf,
    /// The name of the table; created if it does not exist
    table: String,
    /// A file, `-` for standard input, or a directory
    source: PathBuf,
    /// The format of the records [default: from the name of SOURCE]
    #[arg(long, value_enum)]
    format: Option<RecordFormat>,
    /// The column or field that holds the key [default: CSV: the first column; NDJSON: key]
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// The column or field that holds the value [default: CSV: the second of two columns, otherwise the row as a JSON
    /// object; NDJSON: value, or the whole line if --key is given]
    #[arg(long, value_name = "COLUMN")]
    value: Option<String>,
    /// The separator between the fields of CSV: one character, or `tab`
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = parse_delimiter)]
    delimiter: u8,
    /// Import with N concurrent writers. With one, the last of several records with the same key wins; with more, any
    /// of them may win
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Commit after every N records; larger batches are faster and take more memory
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(1..))]
    batch: u32,
    /// Import all records in one transaction of any size: all or nothing, and fastest if the keys ascend
    #[arg(long, conflicts_with_all = ["threads", "batch"])]
    bulk: bool,
    #[command(flatten)]
    typed: typed::TypedArgs,
    #[command(flatten)]
    options: TableArgs,
    #[command(flatten)]
    create: CreateArgs,
}

/// Runs `pando import`.
pub fn run(args: &ImportArgs) -> Outcome {
    if args.typed.is_asked_for() {
        if args.bulk {
            return Err(Failure::Usage("--bulk does not work with typed tables; use --chunk".to_owned()));
        }
        return typed::run(args);
    }
    rows::refuse_reserved(&args.table)?;
    // The input is opened first, so that a misspelt name creates no database.
    let items = args.items()?;
    let begun = Instant::now();
    let loaded = match Remote::find(&args.dir)? {
        Some(remote) => args.send(&remote, items)?,
        None => args.load(items)?,
    };
    let (records, bytes) = (text::count(loaded.records), text::size(loaded.bytes));
    let (commits, seconds) = (text::count(loaded.commits), text::time(begun.elapsed()));
    say!("{records} records, {bytes}, in {commits} commits and {seconds}")
}

impl ImportArgs {
    /// Imports into the directory.
    fn load(&self, items: Items) -> Outcome<Loaded> {
        let db = self.create.create(&self.dir)?;
        let table = self.options.table(&db, &self.table)?;
        let bar = progress();
        let loaded = if self.bulk {
            let nothing = |failure| Loaded::default().left_by(failure, true);
            bulk::load(&db, &table, items, &bar).map_err(nothing)
        } else {
            self.loader(Target::Table { db: &db, table: &table }, &bar).run(items, self)
        };
        bar.finish_and_clear();
        let loaded = loaded?;
        db.close()?;
        Ok(loaded)
    }

    /// Imports into a server.
    fn send(&self, remote: &Remote, items: Items) -> Outcome<Loaded> {
        remote.make_table(&self.table, self.options, self.create)?;
        let durability = self.create.write.durability.name();
        let bar = progress();
        let table = server::ServerTable { remote, name: &self.table, durability };
        let loaded = match self.bulk {
            true => table.write_all(items, &bar).map_err(|failure| Loaded::default().left_by(failure, true)),
            false => self.loader(Target::Server(table), &bar).run(items, self),
        };
        bar.finish_and_clear();
        loaded
    }

    fn loader<'a>(&self, target: Target<'a>, bar: &'a ProgressBar) -> Loader<'a> {
        Loader { target, failed: AtomicBool::new(false), bar }
    }

    fn format(&self) -> Outcome<RecordFormat> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        if self.source.is_dir() {
            return Ok(RecordFormat::Tree);
        }
        match self.source.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(RecordFormat::Csv),
            Some("ndjson" | "jsonl") => Ok(RecordFormat::Ndjson),
            _ => RecordFormat::of_columns(&self.source).ok_or_else(|| {
                let message = "the format of the records is not known: give --format csv or --format ndjson";
                Failure::Usage(message.to_owned())
            }),
        }
    }

    fn items(&self) -> Outcome<Items> {
        let format = self.format()?;
        if format == RecordFormat::Tree {
            if self.bulk {
                return Err(Failure::Usage("--bulk works only with CSV and NDJSON".to_owned()));
            }
            if self.key.is_some() || self.value.is_some() {
                return Err(Failure::Usage("--key and --value work only with CSV and NDJSON".to_owned()));
            }
            let entries = tree::list(&self.source, tree::Limits::NONE)?;
            return Ok(Box::new(entries.into_iter().map(|entry| Ok(Item::File(entry)))));
        }
        let (key, value) = (self.key.as_deref(), self.value.as_deref());
        #[cfg(feature = "arrow")]
        if matches!(format, RecordFormat::Parquet | RecordFormat::Arrow) {
            let records = columnar::records(columnar::open(&self.source, format)?, key, value)?;
            return Ok(Box::new(
                records.map(|record| Ok(record.map(|(key, value)| Item::Record(Record::new(key, value)))?)),
            ));
        }
        let input = open_input(&self.source)?;
        Ok(match format {
            RecordFormat::Csv => Box::new(csv_input::Records::new(input, self.delimiter, key, value)?),
            _ => Box::new(ndjson_input::Records::new(input, key, value)?),
        })
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match (text, text.as_bytes()) {
        ("tab" | "\\t", _) => Ok(b'\t'),
        (_, [byte]) if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => {
            Err("a delimiter must be one ASCII character, as in ';', or `tab`, but not a quote or a line end"
                .to_owned())
        }
    }
}

/// The size at which a batch is cut, even if it has fewer records than asked for.
const MOST_BATCH_BYTES: u64 = 8 << 20;

/// The destination of records.
enum Target<'a> {
    Table { db: &'a Database, table: &'a Table },
    Server(server::ServerTable<'a>),
}

struct Loader<'a> {
    target: Target<'a>,
    /// Whether a writer failed, so that the others and the reader stop.
    failed: AtomicBool,
    bar: &'a ProgressBar,
}

impl Loader<'_> {
    /// Puts all items. Returns the first failure of reading or writing, if there is one, with what is in the table
    /// nevertheless.
    fn run(&self, items: Items, args: &ImportArgs) -> Outcome<Loaded> {
        let (writers, batch_records) = (usize::from(args.threads), args.batch as usize);
        let (sender, receiver) = sync_channel::<Vec<Item>>(writers);
        let receiver = Mutex::new(receiver);
        thread::scope(|scope| {
            let receiver = &receiver;
            let writers: Vec<_> =
                (0..writers).map(|_| scope.spawn(|| self.write_batches(receiver))).collect();
            let read = self.cut(items, batch_records, |batch| {
                // The receiver outlives this scope, so sending cannot fail.
                sender.send(batch).expect("the receiver is alive");
            });
            drop(sender);
            let (mut total, mut outcome) = (Loaded::default(), read);
            for writer in writers {
                let (written, done) = writer.join().expect("a writer does not panic");
                total.records += written.records;
                total.bytes += written.bytes;
                total.commits += written.commits;
                outcome = done.and(outcome);
            }
            outcome.map(|()| total).map_err(|failure| total.left_by(failure, args.threads == 1))
        })
    }

    fn cut(&self, items: Items, batch_records: usize, mut send: impl FnMut(Vec<Item>)) -> Outcome {
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        for item in items {
            let item = item.inspect_err(|_| self.failed.store(true, Ordering::SeqCst))?;
            if self.failed.load(Ordering::SeqCst) {
                return Ok(());
            }
            batch_bytes += match &item {
                Item::Record(record) => record.bytes(),
                Item::File(entry) => entry.bytes,
            };
            batch.push(item);
            if batch.len() == batch_records || batch_bytes >= MOST_BATCH_BYTES {
                send(std::mem::take(&mut batch));
                batch_bytes = 0;
            }
        }
        if !batch.is_empty() {
            send(batch);
        }
        Ok(())
    }

    /// Commits batches until none are left. After a failure the remaining ones are taken and dropped, so that the
    /// reader never waits for room.
    fn write_batches(&self, receiver: &Mutex<Receiver<Vec<Item>>>) -> (Loaded, Outcome) {
        let mut loaded = Loaded::default();
        let mut outcome = Ok(());
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = next else { return (loaded, outcome) };
            if self.failed.load(Ordering::SeqCst) {
                continue;
            }
            let written = self.write(batch, &mut loaded);
            if written.is_err() {
                self.failed.store(true, Ordering::SeqCst);
                outcome = written;
            }
        }
    }

    fn write(&self, batch: Vec<Item>, loaded: &mut Loaded) -> Outcome {
        let before = loaded.records;
        let written = match &self.target {
            Target::Table { db, table } => put(db, table, batch, loaded),
            Target::Server(table) => table.write(batch, loaded),
        };
        self.bar.inc(loaded.records - before);
        written
    }
}

/// Puts a batch in one transaction, and counts what is committed.
fn put(db: &Database, table: &Table, batch: Vec<Item>, loaded: &mut Loaded) -> Outcome {
    let read = batch.into_iter().map(|item| match item {
        Item::Record(Record { key, value, ttl }) => Ok((key, Content::Bytes(value, ttl))),
        Item::File(entry) if entry.bytes > SHORT_BYTES => Ok((entry.key, Content::File(entry.path))),
        Item::File(entry) => Ok((entry.key, Content::Bytes(tree::read(&entry.path)?, None))),
    });
    let records = read.collect::<Outcome<Vec<_>>>()?;
    let bytes = db.write(|tx| {
        let mut bytes = 0;
        for (key, content) in &records {
            let put = match content {
                Content::Bytes(value, ttl) => {
                    let put = match ttl {
                        Some(ttl) => tx.put_with_ttl(table, key, value, *ttl),
                        None => tx.put(table, key, value),
                    };
                    put.map(|()| value.len() as u64)
                }
                Content::File(path) => open_file(path).and_then(|file| tx.put_reader(table, key, file)),
            };
            let put = put.map_err(|error| error.within(format_args!("key {}", text::name(key))))?;
            bytes += key.len() as u64 + put;
        }
        Ok(bytes)
    })?;
    loaded.records += records.len() as u64;
    loaded.bytes += bytes;
    loaded.commits += 1;
    Ok(())
}

/// The value of a record.
enum Content {
    /// It is in memory, with its TTL.
    Bytes(Vec<u8>, Option<Duration>),
    /// A file that is too long for memory. It is read from its beginning each time that the transaction runs.
    File(PathBuf),
}

fn open_file(path: &Path) -> pando::Result<File> {
    File::open(path).map_err(|cause| pando::Error::io(format_args!("open {}", path.display()), cause))
}
