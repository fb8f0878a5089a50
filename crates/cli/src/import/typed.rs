//! `import --typed`: imports rows of CSV or NDJSON into a typed table, in a directory or at a server.
//!
//! All rows are inserted in one transaction, which also creates the table if `--schema` asks for it. A failure names
//! line and column, and leaves nothing in the table. `--chunk N` commits every N rows instead; a failure then names the
//! line after which no row was imported. [`rows::Import`] does the work, in this process or in the server, to which the
//! input is sent unchanged.

use super::ImportArgs;
use super::items::{RecordFormat, open_input, progress};
use crate::failure::{Failure, Outcome};
use crate::open::{TableArgs, TableTtl};
use crate::output::say;
use crate::remote::{Remote, escape};
use crate::text;
use clap::{Args, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use pando::{Database, ErrorKind};
use rows::{
    Cause, Definition, Import, ImportError, ImportFailure, IndexDefinition, PartialImport, RowFormat,
    RowReader, RowSource, Storage,
};
use std::io::Read;
use std::time::{Duration, Instant};
use ureq::http::header::EXPECT;

#[derive(Args, Debug)]
pub struct TypedArgs {
    /// Import into a typed table: match columns by name, and read each value as its column's type. A failure imports no
    /// rows, unless --chunk is given
    #[arg(long)]
    typed: bool,
    /// Create the typed table with these columns, as in 'id int key, name text, age int null, town text default Ulm'.
    /// Types: any, bool, int, uint, float, timestamp, text, uuid, bytes, json
    #[arg(long, value_name = "COLUMNS")]
    schema: Option<String>,
    /// Create this index, as in 'by_town=town desc, name'; needs --schema, can be given several times
    #[arg(long, value_name = "NAME=COLUMNS", requires = "schema")]
    index: Vec<String>,
    /// Create this unique index, as in 'by_email=email'; needs --schema, can be given several times
    #[arg(long, value_name = "NAME=COLUMNS", requires = "schema")]
    unique: Vec<String>,
    /// Overwrite rows with the same primary key instead of failing; for typed tables
    #[arg(long)]
    upsert: bool,
    /// Commit after every N rows, so that a failure keeps the rows before it; for typed tables [default: all rows in
    /// one transaction]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    chunk: Option<u64>,
}

impl TypedArgs {
    /// Returns whether rows of a typed table are imported.
    pub fn is_asked_for(&self) -> bool {
        self.typed || self.schema.is_some() || self.upsert || self.chunk.is_some()
    }

    fn definition(&self, table: &str) -> Outcome<Option<Definition>> {
        let Some(schema) = &self.schema else { return Ok(None) };
        let mut definition = Definition::parse(table, schema)?;
        for index in &self.index {
            definition = definition.index(IndexDefinition::parse(index)?);
        }
        for index in &self.unique {
            definition = definition.index(IndexDefinition::parse(index)?.unique());
        }
        Ok(Some(definition))
    }
}

/// Runs `pando import --typed`.
pub fn run(args: &ImportArgs) -> Outcome {
    let definition = args.typed.definition(&args.table)?;
    if args.key.is_some() || args.value.is_some() || args.threads != 1 {
        return Err(Failure::Usage("--key, --value and --threads do not work with typed tables".to_owned()));
    }
    let format = match args.format()? {
        RecordFormat::Tree => {
            return Err(Failure::Usage("typed tables cannot be imported from directory trees".to_owned()));
        }
        RecordFormat::Csv => RowFormat::Csv,
        RecordFormat::Ndjson => RowFormat::Ndjson,
        #[cfg(feature = "arrow")]
        format => return columns(args, definition, format),
    };
    let input = open_input(&args.source)?;
    let begun = Instant::now();
    let rows = match Remote::find(&args.dir)? {
        Some(remote) => send(&remote, args, format, input)?,
        None => {
            if definition.is_none() && !args.dir.exists() {
                return Err(no_table(&args.table));
            }
            let mut input = match format {
                RowFormat::Csv => RowReader::delimited(input, args.delimiter),
                RowFormat::Ndjson => RowReader::new(input, format),
            };
            load(args, definition.as_ref(), &mut input)?
        }
    };
    report(rows, begun)
}

fn report(rows: u64, begun: Instant) -> Outcome {
    let (rows, seconds) = (text::count(rows), text::time(begun.elapsed()));
    say!("{rows} rows in {seconds}")
}

/// Imports the rows of Parquet or Arrow. A table that does not exist is created as the file describes it, if the file
/// was written by Pando and `--schema` is not given.
#[cfg(feature = "arrow")]
fn columns(args: &ImportArgs, definition: Option<Definition>, format: RecordFormat) -> Outcome {
    if Remote::find(&args.dir)?.is_some() {
        return Err(crate::export::no_columns_of_servers());
    }
    let mut input = arrow::RowBatches::new(crate::columnar::open(&args.source, format)?);
    let begun = Instant::now();
    let definition = match definition {
        Some(definition) => Some(definition),
        None if has_table(args)? => None,
        None => input.definition(&args.table)?,
    };
    if definition.is_none() && !args.dir.exists() {
        return Err(no_table(&args.table));
    }
    report(load(args, definition.as_ref(), &mut input)?, begun)
}

/// Returns whether the directory has the table.
#[cfg(feature = "arrow")]
fn has_table(args: &ImportArgs) -> Outcome<bool> {
    if !args.dir.exists() {
        return Ok(false);
    }
    let db: Database = args.create.create(&args.dir)?;
    let exists = rows::DynamicTable::open(&db.snapshot()?, &args.table)?.is_some();
    db.close()?;
    Ok(exists)
}

fn no_table(name: &str) -> Failure {
    Failure::Usage(format!("there is no typed table {name:?}; give its columns with --schema to create it"))
}

/// Imports into the directory. Returns how many rows there were.
fn load(args: &ImportArgs, definition: Option<&Definition>, input: &mut impl RowSource) -> Outcome<u64> {
    let db: Database = args.create.create(&args.dir)?;
    let import = Import {
        table: &args.table,
        definition,
        storage: storage(args.options)?,
        upsert: args.typed.upsert,
        chunk_rows: args.typed.chunk,
        options: db.transaction_options(),
    };
    let bar = progress();
    let imported = import.run(&db, input, |rows| bar.set_position(rows));
    bar.finish_and_clear();
    let imported = imported.map_err(|failure| failed(failure, args))?;
    db.close()?;
    Ok(imported.rows)
}

fn failed(failure: ImportFailure, args: &ImportArgs) -> Failure {
    if matches!(&failure.error, ImportError::Engine(error) if is_absent(error)) && args.typed.schema.is_none()
    {
        return no_table(&args.table);
    }
    let kept = failure.kept.map_or("no row was imported".to_owned(), |PartialImport { rows, line }| {
        format!("{rows} rows, through line {line}, were imported before and are in the table")
    });
    cause_of(failure.error).keeping(kept, "the rows after them may also be in the table")
}

fn cause_of(error: ImportError) -> Failure {
    match error {
        ImportError::Engine(error) => error.into(),
        ImportError::Wrong(message) => Failure::Failed(message),
        ImportError::Refused(error) => Failure::Failed(error.to_string()),
        ImportError::Unreadable(format, cause) => {
            Failure::system(format_args!("read the {format} input"), cause)
        }
    }
}

fn is_absent(error: &pando::Error) -> bool {
    error.kind() == ErrorKind::Missing && Cause::in_error(error).is_none()
}

/// Imports into a server. Returns how many rows there were.
fn send(remote: &Remote, args: &ImportArgs, format: RowFormat, input: Box<dyn Read>) -> Outcome<u64> {
    let typed = &args.typed;
    remote_database(remote, args)?;
    let mut query = format!(
        "format={}&insert={}&durability={}",
        format.to_string().to_lowercase(),
        !typed.upsert,
        args.create.write.durability.name()
    );
    let words = typed.schema.iter().map(|words| ("schema", words));
    let words = words.chain(typed.index.iter().map(|words| ("index", words)));
    for (name, words) in words.chain(typed.unique.iter().map(|words| ("unique", words))) {
        query.push_str(&format!("&{name}={}", escape(words.as_bytes())));
    }
    if args.delimiter != b',' {
        query.push_str(&format!("&delimiter={}", escape(&[args.delimiter])));
    }
    if let Some(rows) = typed.chunk {
        query.push_str(&format!("&chunk={rows}"));
    }
    query.push_str(&stored_so(args.options)?);
    let bar = bytes_sent();
    let path = format!("{}?{query}", Remote::documents(&args.table));
    // A missing table, or a token with too small a scope, is reported before anything is sent.
    let asks_first = [(EXPECT, "100-continue")];
    let answer = remote.ask_with("POST", &path, &asks_first, Some(&mut bar.wrap_read(input)));
    bar.finish_and_clear();
    let answer = answer.map_err(|failure| match failure {
        Failure::Engine(error) if error.kind() == ErrorKind::Missing && typed.schema.is_none() => {
            no_table(&args.table)
        }
        lost @ Failure::Unanswered(_) => {
            lost.keeping("the server did not respond".to_owned(), "rows that were sent may be in the table")
        }
        // Without chunks an import is one transaction. With them, the response says which rows are in the table.
        refused if typed.chunk.is_none() => refused.keeping("no row was imported".to_owned(), ""),
        refused => refused,
    })?;
    Ok(Remote::object(answer)?.get("records").and_then(serde_json::Value::as_u64).unwrap_or_default())
}

/// Returns the storage options of a typed table.
fn storage(options: TableArgs) -> Outcome<Storage> {
    let TableArgs { layout, ttl, compression } = options;
    let ttl = match ttl {
        Some(TableTtl::ByKey) => {
            let message =
                "--ttl by-key: rows of a typed table have no TTL of their own; name a time for all of them";
            return Err(Failure::Usage(message.to_owned()));
        }
        Some(TableTtl::AfterPut(ttl)) => Some(ttl),
        None => None,
    };
    Ok(Storage { layout, ttl, compression })
}

/// Returns the storage options in the form of a server's query.
fn stored_so(options: TableArgs) -> Outcome<String> {
    let Storage { layout, ttl, compression } = storage(options)?;
    let layout = layout.map(|layout| format!("&layout={}", layout.name()));
    let ttl = ttl.map(|ttl| format!("&ttl_ms={}", ttl.as_millis()));
    let compression = compression.map(|compression| format!("&compression={}", compression.name()));
    Ok([layout, ttl, compression].into_iter().flatten().collect())
}

/// Creates the database, as in a directory, if a table is to be created. An existing one must have the requested
/// options.
fn remote_database(remote: &Remote, args: &ImportArgs) -> Outcome {
    let (makes, sets) = (args.typed.schema.is_some(), args.create.page_size.is_some());
    if !makes && !sets {
        return Ok(());
    }
    match remote.ask("GET", "/documents", None) {
        Err(Failure::Engine(error)) if error.kind() == ErrorKind::Missing => match makes {
            true => remote.make_database(args.create),
            false => Ok(()),
        },
        Ok(_) if sets => remote.make_database(args.create),
        asked => asked.map(drop),
    }
}

/// Returns a progress bar of bytes, which is hidden if standard error is not a terminal.
fn bytes_sent() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {bytes} sent, {bytes_per_sec}");
    let bar = ProgressBar::new_spinner().with_style(style.expect("the template is right"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
