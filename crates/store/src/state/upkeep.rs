//! Upkeep of the data file that checkpoints do a part of each: how much, and where it goes on. Kept in memory alone.
//!
//! Under its locks nothing else is locked.

use crate::state::options::{Options, SLICE_MEMTABLES};
use crate::state::wanted::Wanted;
use base::TableId;
use base::sync::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What relocation, sweeps and compactions know from one checkpoint to the next.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// The layouts that the catalog asks for.
    pub wanted: Wanted,
    /// What is merged of an LSM table at a time, in bytes.
    pub slice_bytes: u64,
    /// So many runs of a size are merged into one.
    pub fan: usize,
    relocation: Mutex<Place>,
    swept: Mutex<Swept>,
    compacted: AtomicU32,
}

/// Where the next relocation goes on: a table, one of its runs, and a key in it; `None`: at the first table.
pub(crate) type Place = Option<(TableId, usize, Vec<u8>)>;

/// Where sweeps go on.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Of each table that checkpoints sweep, the next key.
    pub next: BTreeMap<TableId, Vec<u8>>,
    /// Where a compaction goes on; `None`: it is done.
    pub compacting: Option<(TableId, Vec<u8>)>,
}

impl Upkeep {
    /// Everything begins anew. Memtables are sealed at `seal_bytes`.
    pub fn new(options: &Options, seal_bytes: usize) -> Upkeep {
        Upkeep {
            wanted: Wanted::default(),
            slice_bytes: options.slice_bytes.min(SLICE_MEMTABLES * seal_bytes as u64),
            fan: options.fan,
            relocation: Mutex::default(),
            swept: Mutex::default(),
            compacted: AtomicU32::new(0),
        }
    }

    /// Where relocation goes on.
    pub fn relocation(&self) -> MutexGuard<'_, Place> {
        lock(&self.relocation)
    }

    /// Where sweeps go on.
    pub fn swept(&self) -> MutexGuard<'_, Swept> {
        lock(&self.swept)
    }

    /// The table that was compacted last: the next one's turn comes first.
    pub fn last_compacted(&self) -> TableId {
        // Relaxed: whose turn it is orders nothing.
        TableId(self.compacted.load(Ordering::Relaxed))
    }

    /// `table` is compacted.
    pub fn note_compacted(&self, table: TableId) {
        // Relaxed: as where it is loaded.
        self.compacted.store(table.0, Ordering::Relaxed);
    }
}
