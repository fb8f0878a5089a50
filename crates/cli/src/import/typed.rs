//! `import --typed`: rows of CSV or NDJSON into a typed table.
//!
//! 1. The columns that the input names must be the table's. One that it lacks is null or its default, if it may be.
//! 2. Each field is read as a value of its column's type: see `rows::ColumnType::parse`.
//! 3. All rows are inserted in one transaction, with the making of the table if `--schema` asks for it: after a
//!    failure, which names line and column, nothing is there. `--chunk N` commits every N rows instead; then a
//!    failure says behind which line nothing is.

use super::{ImportArgs, RecordFormat, open_input, progress};
use crate::failure::{Failure, Outcome};
use crate::output::say;
use crate::text;
use clap::{Args, value_parser};
use pando::{Database, Transaction};
use rows::{Column, Definition, DynamicRow, DynamicTable, IndexDefinition, Value};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

#[derive(Args, Debug)]
pub struct TypedArgs {
    /// Into a typed table: columns by name, values of their types; all rows or, after a failure, none
    #[arg(long)]
    typed: bool,
    /// Make the typed table: 'id int key, name text, age int null, town text default Ulm'. Types: any, bool, int,
    /// uint, float, timestamp, text, uuid, bytes, json
    #[arg(long, value_name = "COLUMNS")]
    schema: Option<String>,
    /// With --schema: an index, as 'by_town=town desc, name'
    #[arg(long, value_name = "NAME=COLUMNS", requires = "schema")]
    index: Vec<String>,
    /// With --schema: a unique index
    #[arg(long, value_name = "NAME=COLUMNS", requires = "schema")]
    unique: Vec<String>,
    /// Typed: overwrite rows that have the same primary key, instead of failing
    #[arg(long)]
    upsert: bool,
    /// Typed: commit every N rows; those before a failure stay
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    chunk: Option<u64>,
}

impl TypedArgs {
    /// Whether rows are meant.
    pub fn is_asked_for(&self) -> bool {
        self.typed || self.schema.is_some() || self.upsert || self.chunk.is_some()
    }

    fn definition(&self, table: &str) -> Outcome<Option<Definition>> {
        let Some(schema) = &self.schema else { return Ok(None) };
        let mut definition = Definition::parse(table, schema)?;
        let both = [(&self.index, false), (&self.unique, true)];
        for (index, unique) in
            both.into_iter().flat_map(|(all, unique)| all.iter().map(move |one| (one, unique)))
        {
            let (name, parts) = index
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("{index:?}: say NAME=COLUMNS, as by_town=town")))?;
            let index = IndexDefinition::of(name.trim(), parts);
            definition = definition.index(if unique { index.unique() } else { index });
        }
        Ok(Some(definition))
    }
}

/// `pando import --typed`.
pub fn run(args: &ImportArgs) -> Outcome {
    let typed = &args.typed;
    let definition = typed.definition(&args.table)?;
    if args.key.is_some() || args.value.is_some() || args.threads != 1 {
        return Err(Failure::Usage("--key, --value and --threads are not for typed tables".to_owned()));
    }
    let source = Source::open(&args.source, args.format()?)?;
    if definition.is_none() && !args.dir.exists() {
        return Err(no_table(&args.table));
    }
    let db = args.create.create(&args.dir)?;
    let begun = Instant::now();
    let bar = progress();
    let mut import = Import { db: &db, args, definition, rows: 0, committed: None };
    let imported = import.run(source, |rows| bar.set_position(rows));
    bar.finish_and_clear();
    let (rows, committed) = (import.rows, import.committed);
    match (imported, committed) {
        (Ok(()), _) => {}
        (Err(failure), None) => return Err(failure),
        (Err(failure), Some((line, rows))) => {
            let (rows, before) = (text::count(rows), failure.message());
            let message = format!("{before}\n{rows} rows, through line {line}, were imported before");
            return Err(Failure::Failed(message));
        }
    }
    db.close()?;
    let (rows, seconds) = (text::count(rows), text::time(begun.elapsed()));
    say!("{rows} rows in {seconds}")
}

fn no_table(name: &str) -> Failure {
    Failure::Usage(format!("there is no typed table {name:?}; say its columns with --schema to make it"))
}

struct Import<'a> {
    db: &'a Database,
    args: &'a ImportArgs,
    definition: Option<Definition>,
    rows: u64,
    /// The last line that is committed, and the rows through it; `None`: nothing is.
    committed: Option<(u64, u64)>,
}

impl Import<'_> {
    fn run(&mut self, mut source: Source, mut progress: impl FnMut(u64)) -> Outcome {
        let mut tx = self.db.begin()?;
        let table = self.table(&mut tx)?;
        source.match_columns(&table)?;
        while let Some(row) = source.next(&table)? {
            let put = match self.args.typed.upsert {
                true => table.upsert(&mut tx, &row),
                false => table.insert(&mut tx, &row),
            };
            put.map_err(|error| refused(error, &source))?;
            self.rows += 1;
            if self.rows.is_multiple_of(1000) {
                progress(self.rows);
            }
            if self.args.typed.chunk.is_some_and(|rows| self.rows.is_multiple_of(rows)) {
                tx.commit()?;
                self.committed = Some((source.line(), self.rows));
                tx = self.db.begin()?;
            }
        }
        tx.commit()?;
        Ok(())
    }

    fn table(&self, tx: &mut Transaction) -> Outcome<DynamicTable> {
        match &self.definition {
            Some(definition) => Ok(DynamicTable::create(tx, definition)?),
            None => DynamicTable::open(tx, &self.args.table)?.ok_or_else(|| no_table(&self.args.table)),
        }
    }
}

/// What the engine says of a row: that the row is wrong is the input's fault, the rest is not.
fn refused(error: pando::Error, source: &Source) -> Failure {
    let is_wrong = rows::Cause::of(&error).is_some();
    let error = error.within(source.place());
    if is_wrong { Failure::Failed(error.to_string()) } else { error.into() }
}

/// Rows of an input, one after the other.
enum Source {
    Csv { reader: Box<csv::Reader<Box<dyn Read>>>, header: Vec<String>, places: Vec<usize>, line: u64 },
    Ndjson { reader: BufReader<Box<dyn Read>>, line: u64 },
}

impl Source {
    fn open(source: &Path, format: RecordFormat) -> Outcome<Self> {
        if format == RecordFormat::Tree {
            return Err(Failure::Usage("typed tables are imported from CSV or NDJSON".to_owned()));
        }
        let input = open_input(source)?;
        if format == RecordFormat::Ndjson {
            return Ok(Source::Ndjson { reader: BufReader::new(input), line: 0 });
        }
        let mut reader = Box::new(csv::Reader::from_reader(input));
        let header = reader.headers().map_err(csv_failure)?.iter().map(str::to_owned).collect();
        Ok(Source::Csv { reader, header, places: Vec::new(), line: 1 })
    }

    fn line(&self) -> u64 {
        match self {
            Source::Csv { line, .. } | Source::Ndjson { line, .. } => *line,
        }
    }

    fn place(&self) -> String {
        let format = if matches!(self, Source::Csv { .. }) { "CSV" } else { "NDJSON" };
        format!("{format} line {}", self.line())
    }

    fn wrong(&self, column: &str, message: impl std::fmt::Display) -> Failure {
        Failure::Failed(format!("{}, column {column:?}: {message}", self.place()))
    }

    /// Finds the columns of a CSV header.
    fn match_columns(&mut self, table: &DynamicTable) -> Outcome {
        let Source::Csv { header, places, .. } = self else { return Ok(()) };
        for name in header.iter() {
            let place = table.schema().place(name).ok_or_else(|| unknown(table, name));
            let place = place.map_err(|message| Failure::Failed(format!("CSV line 1: {message}")))?;
            if places.contains(&place) {
                return Err(Failure::Failed(format!("CSV line 1: column {name:?} is there twice")));
            }
            places.push(place);
        }
        Ok(())
    }

    fn next(&mut self, table: &DynamicTable) -> Outcome<Option<DynamicRow>> {
        let mut row: Vec<Option<Value<'static>>> = vec![None; table.schema().columns().count()];
        let found = match self {
            Source::Csv { .. } => self.next_csv(table, &mut row)?,
            Source::Ndjson { .. } => self.next_ndjson(table, &mut row)?,
        };
        if !found {
            return Ok(None);
        }
        let filled = row.into_iter().zip(table.schema().columns()).map(|(value, column)| match value {
            Some(value) => Ok(value),
            None => absent(column).ok_or_else(|| self.wrong(column.name(), "is missing, and has no default")),
        });
        filled.collect::<Outcome<_>>().map(Some)
    }

    fn next_csv(&mut self, table: &DynamicTable, row: &mut [Option<Value<'static>>]) -> Outcome<bool> {
        let Source::Csv { reader, places, line, .. } = self else { return Ok(false) };
        let mut record = csv::ByteRecord::new();
        if !reader.read_byte_record(&mut record).map_err(csv_failure)? {
            return Ok(false);
        }
        *line = record.position().map_or(*line + 1, csv::Position::line);
        let columns: Vec<&Column> = table.schema().columns().collect();
        for (place, field) in places.clone().into_iter().zip(&record) {
            let column = columns[place];
            let text = std::str::from_utf8(field).map_err(|_| self.wrong(column.name(), "not UTF-8"))?;
            let value = column.column_type().parse(text);
            row[place] = Some(value.map_err(|message| self.wrong(column.name(), message))?);
        }
        Ok(true)
    }

    fn next_ndjson(&mut self, table: &DynamicTable, row: &mut [Option<Value<'static>>]) -> Outcome<bool> {
        let Source::Ndjson { reader, line } = self else { return Ok(false) };
        let mut text = Vec::new();
        while text.trim_ascii().is_empty() {
            text.clear();
            let failed = |cause| Failure::system("read the NDJSON input", cause);
            if reader.read_until(b'\n', &mut text).map_err(failed)? == 0 {
                return Ok(false);
            }
            *line += 1;
        }
        let wrong = |error: serde_json::Error| Failure::Failed(format!("{}: {error}", self.place()));
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&text).map_err(wrong)?;
        let columns: Vec<&Column> = table.schema().columns().collect();
        for (name, json) in &object {
            let place = table.schema().place(name);
            let place = place
                .ok_or_else(|| Failure::Failed(format!("{}: {}", self.place(), unknown(table, name))))?;
            let value = columns[place].column_type().parse_json(json);
            row[place] = Some(value.map_err(|message| self.wrong(name, message))?);
        }
        Ok(true)
    }
}

/// What a column has that the input lacks.
fn absent(column: &Column) -> Option<Value<'static>> {
    column.default_value().cloned().or(column.is_nullable().then_some(Value::Null))
}

fn unknown(table: &DynamicTable, name: &str) -> String {
    let known: Vec<_> = table.schema().columns().map(Column::name).collect();
    format!("column {name:?} is none of table {:?}, which has {}", table.name(), known.join(", "))
}

fn csv_failure(error: csv::Error) -> Failure {
    let message = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => Failure::system("read the CSV input", cause),
        _ => Failure::Failed(message),
    }
}
