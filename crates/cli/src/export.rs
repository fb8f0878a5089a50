//! `export`: writes a table as CSV, NDJSON or a directory tree, from one snapshot. An `import` of the result creates
//! the same table, for any bytes; a tree supports only keys that are paths. In a table with a TTL by key, each record
//! of CSV and NDJSON says how long it still lives.

#[cfg(feature = "arrow")]
use crate::columnar;
use crate::failure::{Failure, Outcome};
use crate::import::RecordFormat;
use crate::open::{self, Existing};
use crate::output::{Cell, Format, Rows};
use crate::remote::Remote;
use crate::target::{Target, is_stdout, refused};
use crate::{export_typed, text, tree, values};
use clap::Args;
use pando::{Cursor, Expiry, Snapshot, Span, Table};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando export shop colors colors.csv
  pando export shop colors | gzip > colors.ndjson.gz
  pando export shop people people.csv --typed
  pando export shop people people.parquet --typed    (with the feature `arrow`)")]
pub struct ExportArgs {
    #[command(flatten)]
    database: Existing,
    /// The name of the table
    pub table: String,
    /// A new file, `-` for standard output, or for `tree` a new or empty directory
    #[arg(default_value = "-")]
    pub target: PathBuf,
    /// The format of the records [default: from the name of TARGET, otherwise ndjson]
    #[arg(long, value_enum)]
    format: Option<RecordFormat>,
    /// Export a typed table, one column or field for each of its columns
    #[arg(long)]
    typed: bool,
}

/// Runs `pando export`.
pub fn run(args: &ExportArgs) -> Outcome {
    let format =
        args.format.unwrap_or_else(|| match args.target.extension().and_then(|name| name.to_str()) {
            Some("csv") => RecordFormat::Csv,
            _ => RecordFormat::of_columns(&args.target).unwrap_or(RecordFormat::Ndjson),
        });
    if let Some(remote) = Remote::find(&args.database.dir)? {
        return from_server(&remote, args, format);
    }
    #[cfg(feature = "arrow")]
    if let Some(format) = columnar::format_of(format, is_stdout(&args.target)) {
        let (db, typed) = (args.database.open()?, args.typed);
        let snapshot = db.snapshot()?;
        return if typed {
            columnar::export_typed(&snapshot, args, format)
        } else {
            let table = open::table(&snapshot, &args.table)?;
            columnar::export(&mut snapshot.cursor(&table, Span::all())?, args, format)
        };
    }
    let db = args.database.open()?;
    let snapshot = db.snapshot()?;
    if args.typed {
        return export_typed::from_snapshot(&snapshot, args, format);
    }
    let table = open::table(&snapshot, &args.table)?;
    let to_stdout = is_stdout(&args.target);
    let rows = match format {
        RecordFormat::Tree if to_stdout => {
            return Err(no_tree_on_stdout());
        }
        RecordFormat::Tree => return write_tree(&mut snapshot.cursor(&table, Span::all())?, &args.target),
        RecordFormat::Csv => Format::Csv,
        _ => Format::Ndjson,
    };
    write_rows(&snapshot, &table, &args.target, rows)
}

/// Exports from a server, which reads one snapshot.
fn from_server(remote: &Remote, args: &ExportArgs, format: RecordFormat) -> Outcome {
    if args.typed {
        return export_typed::from_server(remote, args, format);
    }
    let to_stdout = is_stdout(&args.target);
    let rows = match format {
        RecordFormat::Tree if to_stdout => return Err(no_tree_on_stdout()),
        RecordFormat::Tree => None,
        RecordFormat::Csv => Some(Format::Csv),
        RecordFormat::Ndjson => Some(Format::Ndjson),
        #[cfg(feature = "arrow")]
        RecordFormat::Parquet | RecordFormat::Arrow => return Err(no_columns_of_servers()),
    };
    // The server is asked before anything is created, so that a misspelt table creates no file.
    let about = remote.ask_json("GET", &Remote::table(&args.table))?;
    let by_key = about.get("ttl_by_key").and_then(serde_json::Value::as_bool).unwrap_or_default();
    let answer = remote.ask("GET", &format!("{}/entries", Remote::table(&args.table)), None)?;
    let Some(rows) = rows else {
        new_root(&args.target)?;
        return Remote::each_of(answer, |key, value| {
            let (path, mut file) = new_file(&args.target, key)?;
            file.write_all(value).map_err(refused(&path))
        });
    };
    let (mut target, refused) = (Target::create(&args.target)?, refused(&args.target));
    let mut rows = Rows::new(&mut target, rows, columns(by_key)).map_err(&refused)?;
    Remote::each_with_ttl(answer, |key, value, ttl_ms| {
        rows.row(&[Cell::Bytes(key), Cell::Bytes(value), ttl(ttl_ms)][..columns(by_key).len()])
            .map_err(&refused)
    })?;
    rows.finish().map_err(&refused)?;
    target.finish()
}

/// Returns the refusal of Arrow and Parquet together with the address of a server.
#[cfg(feature = "arrow")]
pub fn no_columns_of_servers() -> Failure {
    let message =
        "Arrow and Parquet work with the directory of a database, not with a server; use ndjson or csv";
    Failure::Usage(message.to_owned())
}

fn no_tree_on_stdout() -> Failure {
    Failure::Usage("--format tree writes to a directory: name a directory as TARGET".to_owned())
}

/// Returns the columns of the records of a table.
fn columns(by_key: bool) -> &'static [&'static str] {
    if by_key { &["key", "value", "ttl_ms"] } else { &["key", "value"] }
}

/// Returns the cell that says how many milliseconds an entry still lives; `None`: until it is deleted.
fn ttl(ms: Option<u64>) -> Cell<'static> {
    ms.map_or(Cell::Null, Cell::Number)
}

fn write_rows(snapshot: &Snapshot, table: &Table, path: &Path, format: Format) -> Outcome {
    let columns = columns(table.has_ttl_by_key());
    let (mut target, refused) = (Target::create(path)?, refused(path));
    let mut rows = Rows::new(&mut target, format, columns).map_err(&refused)?;
    let mut cursor = snapshot.cursor(table, Span::all())?;
    while let Some((key, value)) = cursor.next()? {
        let ttl_ms = match table.has_ttl_by_key().then(|| snapshot.expiry(table, key)).transpose()?.flatten()
        {
            Some(Expiry::In(ttl)) => Some(ttl.as_millis() as u64),
            Some(Expiry::Never) | None => None,
        };
        rows.row(&[Cell::Bytes(key), Cell::Bytes(value), ttl(ttl_ms)][..columns.len()]).map_err(&refused)?;
    }
    rows.finish().map_err(&refused)?;
    target.finish()
}

/// Writes a file for each record.
fn write_tree(cursor: &mut Cursor<'_>, root: &Path) -> Outcome {
    new_root(root)?;
    while cursor.advance()? {
        let (path, mut file) = new_file(root, cursor.key().unwrap_or_default())?;
        if let Some(value) = cursor.value_reader()? {
            let bytes = value.len_bytes();
            values::write_all(value, Some(bytes), &mut file, refused(&path))?;
        }
    }
    Ok(())
}

/// Creates the root of a tree. It must be new or empty, so that no link leads out of it and no existing file is
/// overwritten.
fn new_root(root: &Path) -> Outcome {
    fs::create_dir_all(root).map_err(refused(root))?;
    if fs::read_dir(root).map_err(refused(root))?.next().is_some() {
        return Err(Failure::Usage(format!("{} is not empty; name another directory", root.display())));
    }
    Ok(())
}

/// Creates the file of a record, and returns it with its path.
fn new_file(root: &Path, key: &[u8]) -> Outcome<(PathBuf, File)> {
    let no_path = || format!("key {} is not a path; export as ndjson or csv", text::name(key));
    let path = root.join(tree::path_of(key).ok_or_else(|| Failure::Failed(no_path()))?);
    let parent = path.parent().expect("it is below the root");
    fs::create_dir_all(parent).map_err(refused(parent))?;
    let file = File::create_new(&path).map_err(refused(&path))?;
    Ok((path, file))
}
