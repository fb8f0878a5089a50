//! The report of an export: how certain each record is, what is lost, and why.

use base::{CommitTs, Error, Result};

/// How far a record can be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// It is what the database held as of [`Report::commit`].
    Certain,
    /// It was committed once, and may have been changed or deleted since.
    Uncertain,
}

/// What takes the records.
pub trait Sink {
    /// Called once, before all else, with the page size of the database where it is known.
    fn begin(&mut self, page_bytes: Option<usize>) -> Result<()>;

    /// A table that certainly exists, before its records.
    fn table(&mut self, table: &str) -> Result<()>;

    /// A record of the table named `table`. Of each trust and table the keys ascend strictly.
    fn record(&mut self, trust: Trust, table: &str, key: &[u8], value: &[u8]) -> Result<()>;
}

/// Keys that could not be read where they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The first key that may be lost.
    pub low: Vec<u8>,
    /// The first key that is not; `None`: all to the end of the table.
    pub high: Option<Vec<u8>>,
    /// Why.
    pub why: String,
}

/// What became of a table.
#[derive(Clone, Debug, Default)]
pub struct TableReport {
    /// Its name, or `table-<id>` if its name is lost.
    pub name: String,
    /// Records exported as certain.
    pub certain: u64,
    /// Records exported as uncertain.
    pub uncertain: u64,
    /// What is not among the certain.
    pub lost: Vec<Lost>,
}

/// What was exported, and what was not.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The checkpoint from whose superblock trees were walked; `None`: no superblock could be read.
    pub checkpoint: Option<u64>,
    /// What is certain is the database as of this commit; `None`: nothing is.
    pub commit: Option<u64>,
    /// Commits taken from the log.
    pub log_commits: u64,
    /// Why the log was not read further, if not because it ends.
    pub log_stopped: Option<String>,
    /// Whether there may have been later states than that of [`Report::commit`].
    pub is_outdated: bool,
    /// Leaves that the scan found; `None`: none was needed.
    pub scanned_leaves: Option<u64>,
    /// What else was found wrong: superblocks, catalogs.
    pub damage: Vec<String>,
    /// The tables, by name.
    pub tables: Vec<TableReport>,
}

impl Report {
    /// Whether everything that the database held was exported as certain.
    pub fn is_complete(&self) -> bool {
        self.commit.is_some()
            && self.log_stopped.is_none()
            && !self.is_outdated
            && self.damage.is_empty()
            && self.tables.iter().all(|table| table.lost.is_empty())
    }
}

impl Lost {
    pub(super) fn all(why: &str) -> Self {
        Lost { low: Vec::new(), high: None, why: why.into() }
    }

    pub(super) fn one(key: &[u8], error: &Error) -> Self {
        Lost { low: key.to_vec(), high: Some([key, &[0]].concat()), why: error.to_string() }
    }

    /// Whether `key` is among the keys.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.low[..] <= *key && self.high.as_ref().is_none_or(|high| *key < high[..])
    }
}

/// The state that a timestamp stands for, in a report.
pub(super) fn number(ts: CommitTs) -> u64 {
    ts.0
}
