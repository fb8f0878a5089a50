//! Upkeep of the data file, of which each checkpoint does a part: how much, and where it continues. It is only in
//! memory.
//!
//! No other lock is taken under its locks.

use crate::state::options::{Options, SLICE_MEMTABLES};
use crate::state::requested::Requested;
use base::TableId;
use base::sync::lock;
use run::Run;
use run::resident::Loader;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The state of relocation, sweeps and compactions between checkpoints.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// The layouts that the catalog requests.
    pub wanted: Requested,
    /// The bytes that are merged of an LSM table at a time.
    pub slice_bytes: u64,
    /// The number of runs of a size that are merged into one.
    pub fan: usize,
    relocation: Mutex<Place>,
    swept: Mutex<Swept>,
    compacted: AtomicU32,
    keeping: Mutex<Option<Keeping>>,
}

/// The place where the next relocation continues: a table, one of its runs, and a key in it; `None`: the first table.
pub(crate) type Place = Option<(TableId, usize, Vec<u8>)>;

/// The places where sweeps continue.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// The next key of each table that checkpoints sweep.
    pub next: BTreeMap<TableId, Vec<u8>>,
    /// The place where a compaction continues; `None`: it is done.
    pub compacting: Option<(TableId, Vec<u8>)>,
}

/// A filter of which a part was read into memory.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub filter: Run,
    pub loader: Loader,
}

impl Upkeep {
    /// Creates the state in which everything begins anew. Memtables are sealed at `seal_bytes`.
    pub fn new(options: &Options, seal_bytes: usize) -> Upkeep {
        Upkeep {
            wanted: Requested::default(),
            slice_bytes: options.slice_bytes.min(SLICE_MEMTABLES * seal_bytes as u64),
            fan: options.fan,
            relocation: Mutex::default(),
            swept: Mutex::default(),
            compacted: AtomicU32::new(0),
            keeping: Mutex::default(),
        }
    }

    /// Returns the place where relocation continues.
    pub fn relocation(&self) -> MutexGuard<'_, Place> {
        lock(&self.relocation)
    }

    /// Returns the places where sweeps continue.
    pub fn swept(&self) -> MutexGuard<'_, Swept> {
        lock(&self.swept)
    }

    /// Returns the filter that is being read into memory.
    pub fn keeping(&self) -> MutexGuard<'_, Option<Keeping>> {
        lock(&self.keeping)
    }

    /// Returns the table that was compacted last: the next one comes first.
    pub fn last_compacted(&self) -> TableId {
        // Relaxed: the turn orders nothing.
        TableId(self.compacted.load(Ordering::Relaxed))
    }

    /// Notes that `table` is compacted.
    pub fn note_compacted(&self, table: TableId) {
        // Relaxed: as where it is loaded.
        self.compacted.store(table.0, Ordering::Relaxed);
    }
}
