//! Options with which commands open databases.

use crate::failure::{Failure, Outcome};
use crate::text;
use clap::{Args, ValueEnum};
use pando::{Builder, Compression, Database, Durability, ErrorKind, Layout, Snapshot, Table, TableOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The database of a command that only reads.
#[derive(Args, Debug)]
pub struct Existing {
    /// The directory of the database, or its address on a server: http://HOST:PORT/DATABASE
    pub dir: PathBuf,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

impl Existing {
    /// Opens the database for reading, together with other readers. It writes nothing.
    pub fn open(&self) -> Outcome<Database> {
        Ok(self.memory.builder().read_only(true).open(&self.dir)?)
    }
}

/// The memory ceiling.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct MemoryArgs {
    /// Use at most this much memory: bytes, or a number with K, M or G (powers of 1024), as in 64M [default: a quarter
    /// of the memory of the machine or control group]
    #[arg(long, value_name = "SIZE", value_parser = text::parse_size)]
    pub memory: Option<usize>,
}

impl MemoryArgs {
    pub fn builder(self) -> Builder {
        match self.memory {
            Some(bytes) => Database::builder().memory_bytes(bytes),
            None => Database::builder(),
        }
    }
}

/// What a commit survives, as the command line names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DurabilityName {
    /// Each commit survives a loss of power
    #[default]
    Sync,
    /// Each commit survives a killed process; a loss of power may undo the newest commits
    Buffered,
    /// Each commit is synced within 200 ms; until then a crash may undo it
    Lazy,
}

impl DurabilityName {
    /// Returns the name as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DurabilityName::Sync => "sync",
            DurabilityName::Buffered => "buffered",
            DurabilityName::Lazy => "lazy",
        }
    }
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Self {
        match name {
            DurabilityName::Sync => Durability::Sync,
            DurabilityName::Buffered => Durability::Buffered,
            DurabilityName::Lazy => Durability::Lazy,
        }
    }
}

/// Options of commands that write.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct WriteArgs {
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// What each commit survives; `buffered` and `lazy` are faster where losing the newest commits is acceptable
    #[arg(long, value_enum, default_value_t = DurabilityName::Sync)]
    pub durability: DurabilityName,
}

impl WriteArgs {
    /// Returns a builder with these options.
    pub fn builder(self) -> Builder {
        self.memory.builder().durability(self.durability.into())
    }
}

/// Options of commands that create a missing database.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct CreateArgs {
    #[command(flatten)]
    pub write: WriteArgs,
    /// Page size of a new database: 4K, 8K, 16K, 32K or 64K; must match if the database exists [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = text::parse_size)]
    pub page_size: Option<usize>,
}

impl CreateArgs {
    /// Opens the database in `dir`, and creates it if it does not exist.
    pub fn create(self, dir: &Path) -> Outcome<Database> {
        Ok(self.builder().create(dir)?)
    }

    /// Returns a builder with these options.
    pub fn builder(self) -> Builder {
        let builder = self.write.builder();
        match self.page_size {
            Some(bytes) => builder.page_bytes(bytes),
            None => builder,
        }
    }
}

/// How long the entries of a table live.
#[derive(Clone, Copy, Debug)]
pub enum TableTtl {
    /// So long after their put.
    AfterPut(Duration),
    /// Each as its put says.
    ByKey,
}

impl TableTtl {
    fn set(self, options: &mut TableOptions) {
        match self {
            TableTtl::AfterPut(ttl) => options.ttl = Some(ttl),
            TableTtl::ByKey => options.ttl_by_key = true,
        }
    }
}

fn parse_ttl(text: &str) -> Result<TableTtl, String> {
    if text == "by-key" {
        return Ok(TableTtl::ByKey);
    }
    text::parse_duration(text).map(TableTtl::AfterPut)
}

/// Options of commands that make a missing table.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct TableArgs {
    /// Layout of a new table: btree for reads and scans, lsm for writes far larger than memory; must match if the
    /// table exists [default: btree]
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<Layout>,
    /// How long entries of a new table live, as in 90s, 36h or 30d, or `by-key` if each put sets it; must match if the
    /// table exists. A typed table with a TTL cannot have indexes, and has no `by-key` [default: entries never expire]
    #[arg(long, value_name = "TIME", value_parser = parse_ttl)]
    pub ttl: Option<TableTtl>,
    /// Compression of the pages of a new LSM table, lz4 or none; must match if the table exists [default: none]
    #[arg(long, value_name = "COMPRESSION")]
    pub compression: Option<Compression>,
}

impl TableArgs {
    /// Returns the table named `name`, and creates it if it does not exist.
    pub fn table(self, db: &Database, name: &str) -> Outcome<Table> {
        let found = db.table(name)?;
        // Options that are not given stay as they are.
        let as_it_is = |found: &Table| {
            let mut options = TableOptions::with_layout(self.layout.unwrap_or(found.layout()));
            match self.ttl {
                Some(ttl) => ttl.set(&mut options),
                None => (options.ttl, options.ttl_by_key) = (found.ttl(), found.has_ttl_by_key()),
            }
            options.compression(self.compression.unwrap_or(found.compression()))
        };
        let mut options = TableOptions::with_layout(self.layout.unwrap_or_default());
        if let Some(ttl) = self.ttl {
            ttl.set(&mut options);
        }
        options.compression = self.compression.unwrap_or_default();
        let options = found.as_ref().map_or(options, as_it_is);
        Ok(db.ensure_table_with(name, &options)?)
    }
}

/// Returns the table of that name, as the snapshot sees it.
pub fn table(snapshot: &Snapshot, name: &str) -> Outcome<Table> {
    let missing = || pando::Error::new(ErrorKind::Missing, format!("there is no table {name:?}"));
    snapshot.table(name)?.ok_or_else(|| Failure::Engine(missing()))
}
