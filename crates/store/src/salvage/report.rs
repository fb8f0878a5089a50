//! The report of an export: how certain each record is, what is lost, and why.

use crate::state::catalog::{Compression, RequestedLayout, TableRow};
use base::{CommitTs, Error, Result};
use std::time::Duration;

/// The reliability of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The database held the record as of [`Report::commit`].
    Certain,
    /// The record was committed once, and may have been changed or deleted since.
    Uncertain,
}

/// A receiver of exported records.
pub trait Sink {
    /// Receives the page size of the database in bytes, if it is known. It is called once, before all other calls.
    fn begin(&mut self, page_bytes: Option<usize>) -> Result<()>;

    /// Receives the name of a table that certainly exists, and the options that it had, before its records.
    fn table(&mut self, table: &str, options: &StoredOptions) -> Result<()>;

    /// Receives a record of the table named `table`. The keys of each trust and table ascend strictly.
    fn record(&mut self, trust: Trust, table: &str, key: &[u8], value: &[u8]) -> Result<()>;
}

/// The options of a table, as its row in the catalog has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredOptions {
    /// The layout of the table.
    pub layout: RequestedLayout,
    /// The compression of its pages while its layout is LSM.
    pub compression: Compression,
    /// How its entries expire.
    pub ttl: StoredTtl,
}

/// How the entries of a table expire. Salvage exports them without their dates, including those that have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredTtl {
    /// They do not, and the table was created without a TTL.
    None,
    /// A certain time after their put. Without a time, the table has dates, but its TTL was removed.
    ByTable(Option<Duration>),
    /// Each at a time of its own, or not.
    ByEntry,
}

impl StoredOptions {
    pub(super) fn of(row: &TableRow) -> Self {
        let ttl = match row.ttl {
            None => StoredTtl::None,
            Some(ttl) if ttl.is_by_key() => StoredTtl::ByEntry,
            Some(ttl) => StoredTtl::ByTable(ttl.duration()),
        };
        StoredOptions { layout: row.layout, compression: row.compression, ttl }
    }
}

/// Keys that should exist, but could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The first key that may be lost.
    pub low: Vec<u8>,
    /// The first key after the loss; `None` if the loss extends to the end of the table.
    pub high: Option<Vec<u8>>,
    /// The reason for the loss.
    pub why: String,
}

/// The result for one table.
#[derive(Clone, Debug, Default)]
pub struct TableReport {
    /// The name of the table, or `table-<id>` if the name is lost.
    pub name: String,
    /// The options of the table; `None` if they are lost.
    pub options: Option<StoredOptions>,
    /// The number of records exported as certain.
    pub certain: u64,
    /// The number of records exported as uncertain.
    pub uncertain: u64,
    /// The losses among the certain records.
    pub lost: Vec<Lost>,
}

/// The result of an export.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The checkpoint from whose superblock the trees were read; `None` if no superblock could be read.
    pub checkpoint: Option<u64>,
    /// The commit whose state the certain records show; `None` if no record is certain.
    pub commit: Option<u64>,
    /// The number of commits taken from the log.
    pub log_commits: u64,
    /// The reason why the log was not read to its end; `None` if it was.
    pub log_stopped: Option<String>,
    /// Whether the database may have had later commits than [`Report::commit`].
    pub is_outdated: bool,
    /// The number of leaves that the scan found; `None` if no scan was needed.
    pub scanned_leaves: Option<u64>,
    /// Damage outside of tables: in superblocks and catalogs.
    pub damage: Vec<String>,
    /// The tables, ordered by name.
    pub tables: Vec<TableReport>,
}

impl Report {
    /// Returns whether everything that the database held was exported as certain.
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

    /// Returns whether `key` is among the lost keys.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.low[..] <= *key && self.high.as_ref().is_none_or(|high| *key < high[..])
    }
}

/// Returns the number that represents a timestamp in a report.
pub(super) fn number(ts: CommitTs) -> u64 {
    ts.0
}
