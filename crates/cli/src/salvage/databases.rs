//! The results as databases.

use super::Progress;
use super::results::Results;
use crate::failure::Outcome;
use crate::open::MemoryArgs;
use pando::salvage::{Sink, StoredOptions, StoredTtl, Trust};
use pando::{Compression, Database, Durability, Layout, Table, TableOptions, Transaction};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A database for each degree of trust, created with its first record.
pub struct Databases {
    memory: MemoryArgs,
    page_bytes: Option<usize>,
    /// The options that the tables had, as far as they are known.
    options: BTreeMap<String, StoredOptions>,
    made: [Option<Filling>; 2],
    progress: Progress,
    /// It comes after the databases, which are closed first.
    results: Results,
}

/// A database that is being filled.
struct Filling {
    db: Database,
    tables: BTreeMap<String, Table>,
    tx: Option<Transaction>,
    pending_bytes: usize,
}

/// The approximate limit of one transaction of the new database, in bytes.
const BATCH_BYTES: usize = 4 << 20;
/// The size of pages whose compression has no effect, because nothing is shorter on the disk.
const SHORTEST_PAGE_BYTES: usize = 4096;
/// A TTL with which nothing expires, for a moment. It is about 35,000 years.
const LONG_TTL: Duration = Duration::from_secs(1 << 40);

impl Databases {
    pub fn new(results: Results, memory: MemoryArgs) -> Self {
        let (options, progress) = (BTreeMap::new(), Progress::default());
        Databases { memory, page_bytes: None, options, made: [None, None], progress, results }
    }

    fn filling(&mut self, trust: Trust) -> pando::Result<&mut Filling> {
        let made = &mut self.made[trust as usize];
        if made.is_none() {
            let builder = self.memory.builder().durability(Durability::Buffered);
            let builder =
                self.page_bytes.into_iter().fold(builder, |builder, bytes| builder.page_bytes(bytes));
            let part = self.results.part(trust);
            let failed = |cause| pando::Error::io(format!("create {}", part.display()), cause);
            fs::create_dir(&part).map_err(failed)?;
            self.results.note(trust);
            let db = builder.create(&part)?;
            *made = Some(Filling { db, tables: BTreeMap::new(), tx: None, pending_bytes: 0 });
        }
        Ok(made.as_mut().expect("made above"))
    }

    /// Returns the database for `trust` and its table of this name. Creates what does not exist.
    fn table_in(&mut self, trust: Trust, name: &str) -> pando::Result<(&mut Filling, Table)> {
        let known = self.made[trust as usize].as_ref().and_then(|filling| filling.tables.get(name).cloned());
        if let Some(table) = known {
            return Ok((self.filling(trust)?, table));
        }
        let options = self.options.get(name).copied();
        let is_compressible = self.page_bytes.is_some_and(|bytes| bytes > SHORTEST_PAGE_BYTES);
        let filling = self.filling(trust)?;
        filling.commit()?;
        let table = create(&filling.db, name, options, is_compressible)?;
        filling.tables.insert(name.to_owned(), table.clone());
        Ok((filling, table))
    }

    /// Completes the results, and returns their names.
    pub fn finish(mut self) -> Outcome<Vec<PathBuf>> {
        for mut filling in self.made.iter_mut().filter_map(Option::take) {
            filling.commit()?;
            filling.db.checkpoint()?;
            filling.db.close()?;
        }
        self.results.complete()
    }
}

impl Filling {
    fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> pando::Result<()> {
        if self.tx.is_none() {
            self.tx = Some(self.db.begin()?);
        }
        self.tx.as_mut().expect("begun above").put(table, key, value)?;
        self.pending_bytes += key.len() + value.len();
        if self.pending_bytes >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> pando::Result<()> {
        self.pending_bytes = 0;
        self.tx.take().map_or(Ok(()), |tx| tx.commit().map(drop))
    }
}

/// Creates a table with the layout and the compression that it had. If its values had dates, it has dates, too, but its
/// entries do not expire: what was rescued must not disappear. A TTL can then be set for the new table.
fn create(
    db: &Database,
    name: &str,
    had: Option<StoredOptions>,
    is_compressible: bool,
) -> pando::Result<Table> {
    let Some(had) = had else { return db.ensure_table(name) };
    let compression = if is_compressible { had.compression } else { Compression::None };
    // A B+tree keeps the setting for the time when it is LSM again, but a table must be LSM to get it.
    let layout = if compression == Compression::None { had.layout } else { Layout::Lsm };
    let mut options = TableOptions::with_layout(layout).compression(compression);
    match had.ttl {
        StoredTtl::None => {}
        StoredTtl::ByTable(_) => options = options.ttl(LONG_TTL),
        StoredTtl::ByEntry => options = options.ttl_by_key(),
    }
    db.create_table(name, &options)?;
    if layout != had.layout {
        db.set_layout(name, had.layout)?;
    }
    if options.ttl.is_some() {
        db.set_ttl(name, None)?;
    }
    // A handle from before these changes is stale.
    db.ensure_table(name)
}

impl Sink for Databases {
    fn begin(&mut self, page_bytes: Option<usize>) -> pando::Result<()> {
        self.page_bytes = page_bytes;
        self.filling(Trust::Certain).map(drop)
    }

    fn table(&mut self, table: &str, options: &StoredOptions) -> pando::Result<()> {
        self.options.insert(table.to_owned(), *options);
        self.table_in(Trust::Certain, table).map(drop)
    }

    fn record(&mut self, trust: Trust, table: &str, key: &[u8], value: &[u8]) -> pando::Result<()> {
        self.progress.record();
        let (filling, table) = self.table_in(trust, table)?;
        filling.put(&table, key, value)
    }
}
