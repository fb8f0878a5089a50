//! The options with which a database is opened.

use base::budget::Budget;
use base::env::Clock;
use base::{DatabaseId, limits};
use std::sync::Arc;
use std::time::Duration;

/// Options of a [`crate::Store`]. The ones that are stored with the database are checked when it is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The size of a page in bytes: a power of two, 4-64 KiB. `None`: 16 KiB for a new database, the stored size for an
    /// old one.
    pub page_bytes: Option<usize>,
    /// The limit on memory in bytes: pool, memtables, transactions' writes and the checkpoint's dirty pages.
    pub memory_bytes: usize,
    /// The budget that this database shares with others, instead of a limit of its own.
    pub budget: Option<Arc<Budget>>,
    /// The longest log segment, in bytes.
    pub max_segment_bytes: u64,
    /// The value of [`log::Options::flush_worth_bytes`]. Simulations set a smaller value.
    pub flush_worth_bytes: u64,
    /// The number of records at which a memtable is sealed, so that recovery time is bounded as well as memory.
    pub seal_records: u64,
    /// The number of bytes at which a memtable is sealed; `None`: an eighth of the memory, at most 128 MiB.
    pub seal_bytes: Option<usize>,
    /// The age at which a snapshot or transaction expires; `None`: it does not expire because of its age.
    pub max_snapshot_age: Option<Duration>,
    /// The number of bytes of the data file that may wait for readers to end; beyond it the oldest expire. `None`:
    /// twice what is in use, at least 1 GiB.
    pub max_pinned_space_bytes: Option<u64>,
    /// The number of bytes that the log and the data file together may keep for readers of changes. Beyond it the
    /// slowest reader loses its position.
    pub max_changes_bytes: u64,
    /// The length of a value, in bytes, above which it is written to the data file before it is committed; at most
    /// [`limits::MAX_LOGGED_VALUE_BYTES`], which is the default. Simulations set a smaller value.
    pub large_bytes: usize,
    /// The size of the pieces of such values in bytes: whole units, at most [`limits::MAX_LOGGED_VALUE_BYTES`].
    /// Simulations set a smaller value.
    pub piece_bytes: usize,
    /// The limit on the log that a recovery would replay, in bytes. At a quarter a checkpoint is due, and writers are
    /// slowed so that only what is in progress can exceed it.
    pub max_log_bytes: u64,
    /// The limit on the log that a recovery would replay, in records, which bounds the time of a recovery.
    pub max_log_records: u64,
    /// The number of bytes that are merged of an LSM table at a time: checkpoints that writers wait for come between
    /// two of these. It is at most what eight memtables hold.
    pub slice_bytes: u64,
    /// The number of runs of a size that are merged into one, in an LSM table; 2 or more. Simulations set a smaller
    /// value.
    pub fan: usize,
    /// The memory for filters of LSM tables that are kept in memory; `None`: an eighth of `memory_bytes`, and nothing
    /// if that is less than 4 MiB. Simulations set a value.
    pub filters_bytes: Option<usize>,
    /// The memory that the writes of one transaction may hold before they are spilled; `None`: a sixteenth of the
    /// memory, at most 256 MiB. More than a block of the log holds (about 60 MiB of keys and values) is always spilled.
    pub write_set_bytes: Option<usize>,
    /// The identity of a new database; `None`: drawn at random. Simulations set it, because they must be repeatable.
    pub database: Option<DatabaseId>,
    /// The clock by which entries of tables with a TTL expire.
    pub clock: Clock,
    /// Whether the database is opened together with other readers, without any write.
    pub read_only: bool,
    /// Whether other processes may open the database for reading while this one writes. It costs a small file.
    pub admits_readers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            page_bytes: None,
            memory_bytes: 256 << 20,
            budget: None,
            max_segment_bytes: 64 << 20,
            flush_worth_bytes: log::Options::default().flush_worth_bytes,
            seal_records: 4_000_000,
            seal_bytes: None,
            max_snapshot_age: None,
            max_pinned_space_bytes: None,
            max_changes_bytes: 1 << 30,
            large_bytes: limits::MAX_LOGGED_VALUE_BYTES,
            piece_bytes: limits::PIECE_BYTES,
            max_log_bytes: 1 << 30,
            max_log_records: 16_000_000,
            slice_bytes: 32 << 20,
            fan: crate::state::stack::FAN,
            filters_bytes: None,
            write_set_bytes: None,
            database: None,
            clock: Clock::System,
            read_only: false,
            admits_readers: false,
        }
    }
}

/// The greatest number of sealed memtables that wait for a checkpoint. A read looks into each of them, and a scan
/// merges them, so more would make reads slow. At this number the open one continues to fill.
pub const MAX_SEALED: usize = 8;

/// The limit, in full memtables, on what is merged of an LSM table at a time: meanwhile others fill, and there is room
/// for two.
pub const SLICE_MEMTABLES: u64 = 8;

/// The shares of [`Options::memory_bytes`].
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// The size at which a memtable is sealed.
    pub seal_bytes: usize,
    /// The size of all memtables together at which writers wait for the checkpoint.
    pub memtables_bytes: usize,
    /// The dirty pages that a checkpoint holds before it writes some out.
    pub dirty_bytes: usize,
    /// The page pool, whatever else needs memory.
    pub pool_bytes: usize,
    /// The page pool, while nothing else needs memory and there are pages to read into it.
    pub largest_pool_bytes: usize,
    /// The memory that the writes of one transaction may hold before they are spilled.
    pub write_set_bytes: usize,
    /// The filters of LSM tables that are kept in memory, of all databases that share the budget.
    pub filters_bytes: usize,
    /// The most by which a memtable should grow at once, so that little of its memory is unused: an eighth.
    pub memtable_chunk_bytes: usize,
}

/// The least length of large values, in bytes, that is worth a checkpoint.
const LEAST_LARGE_BYTES: usize = 16 << 20;
/// The memory below which filters are only read from pages.
const LEAST_FOR_FILTERS: usize = 4 << 20;

impl Shares {
    /// Returns the number of used bytes at which a memtable is sealed. It is a little less than its share, which its
    /// chunks have reached by then: a few more records would need another chunk, an eighth of it, and leave that mostly
    /// empty.
    pub fn full_bytes(&self) -> usize {
        self.seal_bytes - self.seal_bytes / 64
    }

    /// Returns the length of the large values to which a memtable may refer, in bytes. Those that newer ones replace
    /// are only free after a checkpoint, however little memory their references take.
    pub fn large_bytes(&self) -> u64 {
        self.seal_bytes.max(LEAST_LARGE_BYTES) as u64
    }

    /// Returns the size of a transaction's read set at which neighbours are joined.
    pub fn read_set_bytes(&self) -> usize {
        self.write_set_bytes / 4
    }

    /// Returns the number of bytes of a run that are written at once.
    pub fn spill_buffer_bytes(&self) -> usize {
        (self.write_set_bytes / 4).min(1 << 20)
    }
}

impl Options {
    /// Returns the shares: half for pages, three eighths for memtables (one filling, two being absorbed), the rest for
    /// the checkpoint. Pages also get what memtables and checkpoint do not use, and give it back when these need it.
    /// Filters of LSM tables take up to an eighth of the memory, from whatever is free.
    pub fn shares(&self) -> Shares {
        let memory = self.ceiling_bytes();
        let seal_bytes = self.seal_bytes.unwrap_or((memory / 8).clamp(64 << 10, 128 << 20));
        Shares {
            seal_bytes,
            memtables_bytes: (memory / 8 * 3).max(seal_bytes * 3),
            dirty_bytes: (memory / 8).clamp(256 << 10, 64 << 20),
            pool_bytes: memory / 2,
            filters_bytes: self.filters_bytes.unwrap_or(if memory < LEAST_FOR_FILTERS {
                0
            } else {
                memory / 8
            }),
            largest_pool_bytes: memory / 8 * 7,
            write_set_bytes: self.write_set_bytes.unwrap_or((memory / 16).clamp(64 << 10, 256 << 20)),
            memtable_chunk_bytes: (seal_bytes / 8).max(4 << 10),
        }
    }

    /// Returns the limit on memory in bytes: of this database, or of all that share its budget.
    pub fn ceiling_bytes(&self) -> usize {
        self.budget.as_ref().map_or(self.memory_bytes, |budget| budget.limit_bytes())
    }

    /// Returns the page size of a new database.
    pub fn page_bytes_or_default(&self) -> usize {
        self.page_bytes.unwrap_or(limits::DEFAULT_PAGE_BYTES)
    }
}
