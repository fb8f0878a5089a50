//! The input of an import in any format: a sequence of records, and the count of those that were put.

use crate::failure::{Failure, Outcome};
use crate::tree;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

/// How records are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    /// Comma-separated values with a header
    Csv,
    /// One JSON object on each line: {"key": ..., "value": ...}, or key_hex and value_hex
    Ndjson,
    /// A directory tree: the path of each file is the key, its content the value
    Tree,
    /// Apache Parquet: a typed table, or columns `key` and `value`
    #[cfg(feature = "arrow")]
    Parquet,
    /// Arrow IPC, also called Feather: a file, or a stream for standard input and output
    #[cfg(feature = "arrow")]
    Arrow,
}

impl RecordFormat {
    /// Returns the format that the name of a file has, if it is one of columns.
    pub fn of_columns(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            #[cfg(feature = "arrow")]
            "parquet" => Some(RecordFormat::Parquet),
            #[cfg(feature = "arrow")]
            "arrow" | "arrows" | "feather" => Some(RecordFormat::Arrow),
            _ => None,
        }
    }
}

/// A record to put.
pub enum Item {
    Record(Record),
    /// A file, which the writer reads, so that several are read at once.
    File(tree::Entry),
}

/// A record in memory.
#[derive(Debug)]
pub struct Record {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// How long the entry lives; `None`: until it is deleted, or as long as its table says.
    pub ttl: Option<Duration>,
}

impl Record {
    /// Creates a record without a TTL.
    pub fn new(key: Vec<u8>, value: Vec<u8>) -> Self {
        Record { key, value, ttl: None }
    }

    /// Returns the number of bytes of key and value.
    pub fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The records of an input, one after the other.
pub(super) type Items = Box<dyn Iterator<Item = Outcome<Item>>>;

pub(super) fn open_input(source: &Path) -> Outcome<Box<dyn Read>> {
    if source == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let refused = |cause| Failure::system(format_args!("open {}", source.display()), cause);
    Ok(Box::new(File::open(source).map_err(refused)?))
}

/// Returns a progress bar of records on standard error, if that is a terminal.
pub(super) fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} records, {per_sec}");
    let bar = ProgressBar::new_spinner().with_style(style.expect("the template is right"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The counts of what was put.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loaded {
    pub records: u64,
    /// The number of bytes of keys and values.
    pub bytes: u64,
    pub commits: u64,
}

impl Loaded {
    /// Returns a failure with what was committed before it.
    pub fn left_by(self, failure: Failure, is_in_order: bool) -> Failure {
        let Loaded { records, commits, .. } = self;
        let of = if is_in_order { "the first " } else { "" };
        let kept = match records {
            0 => "no record was imported".to_owned(),
            1 => format!("{of}1 record was imported before and is in the table"),
            _ => format!(
                "{of}{records} records were imported before, in {commits} commits, and are in the table"
            ),
        };
        failure.keeping(kept, "the batch that failed may also be in the table")
    }
}
