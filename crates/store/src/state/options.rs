//! What a database is opened with.

use base::budget::Budget;
use base::seams::Clock;
use base::{DatabaseId, limits};
use std::sync::Arc;
use std::time::Duration;

/// Options of a [`crate::Store`]; the ones stored with the database are checked against it when it is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a page: a power of two, 4-64 KiB. `None`: 16 KiB for a new database, as stored for an old one.
    pub page_bytes: Option<usize>,
    /// The ceiling on memory: pool, memtables, transactions' writes and the checkpoint's dirty pages, in bytes.
    pub memory_bytes: usize,
    /// The budget that this database shares with others, in place of a ceiling of its own.
    pub budget: Option<Arc<Budget>>,
    /// The longest log segment, in bytes.
    pub max_segment_bytes: u64,
    /// [`log::Options::flush_worth_bytes`]. Smaller for simulations.
    pub flush_worth_bytes: u64,
    /// A memtable is sealed when it holds this many records, so that recovery time is bounded as well as memory.
    pub seal_records: u64,
    /// A memtable is sealed at this many bytes; `None`: an eighth of the memory, at most 128 MiB.
    pub seal_bytes: Option<usize>,
    /// A snapshot or transaction that is open longer than this expires; `None`: age alone expires nobody.
    pub max_snapshot_age: Option<Duration>,
    /// When more of the data file than this, in bytes, waits for readers to end, the oldest expire. `None`: as much
    /// as is in use, at least 1 GiB.
    pub max_pinned_space_bytes: Option<u64>,
    /// When the log and the data file together keep more than this for somebody who follows the changes, in bytes, the
    /// one that is furthest behind loses its place.
    pub max_changes_bytes: u64,
    /// Values longer than this lie in the data file before they are committed, in bytes; at most
    /// [`limits::MAX_LOGGED_VALUE_BYTES`], which is the default. Smaller for simulations.
    pub large_bytes: usize,
    /// Their pieces, in bytes: whole units, at most [`limits::MAX_LOGGED_VALUE_BYTES`]. Smaller for simulations.
    pub piece_bytes: usize,
    /// The log that a recovery would replay is kept below this, in bytes: at a quarter a checkpoint is due, and
    /// writers are slowed so that this is not passed by more than what is under way.
    pub max_log_bytes: u64,
    /// The same in records: what bounds the time that a recovery takes.
    pub max_log_records: u64,
    /// What is merged of an LSM table at a time, in bytes: between two of these, checkpoints that writers wait for
    /// come. No more than eight memtables hold.
    pub slice_bytes: u64,
    /// So many runs of a size are merged into one, of an LSM table; 2 or more. Fewer for simulations.
    pub fan: usize,
    /// What the writes of one transaction may hold in memory before they are spilled; `None`: a sixteenth of the
    /// memory, at most 256 MiB. More than a block of the log holds (about 60 MiB of keys and values) is spilled always.
    pub write_set_bytes: Option<usize>,
    /// The identity of a new database; `None`: drawn at random. For simulations, which must repeat themselves.
    pub database: Option<DatabaseId>,
    /// The clock by which entries of tables with a TTL expire.
    pub clock: Clock,
    /// Beside other openers of the same kind, and without a write of any sort.
    pub read_only: bool,
    /// Other processes may open the database for reading while this one writes. Costs a small file.
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
            write_set_bytes: None,
            database: None,
            clock: Clock::System,
            read_only: false,
            admits_readers: false,
        }
    }
}

/// Sealed memtables that may wait for a checkpoint. A read looks into each of them, and a scan merges them, so that
/// more would make reads slow; at this many the open one goes on filling instead of being sealed.
pub const MAX_SEALED: usize = 8;

/// What is merged of an LSM table at a time is no more than so many full memtables: while it is, others fill, and there
/// is room for two.
pub const SLICE_MEMTABLES: u64 = 8;

/// How [`Options::memory_bytes`] is shared out.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// A memtable is sealed when it is this large.
    pub seal_bytes: usize,
    /// Writers wait for the checkpoint when all memtables together are this large.
    pub memtables_bytes: usize,
    /// Dirty pages that a checkpoint holds before it writes some out.
    pub dirty_bytes: usize,
    /// The page pool, whatever else needs memory.
    pub pool_bytes: usize,
    /// The page pool, while nothing else needs memory and there are pages that would be read from it.
    pub largest_pool_bytes: usize,
    /// What the writes of one transaction may hold in memory before they are spilled.
    pub write_set_bytes: usize,
    /// A memtable grows by this much at most, so that little of what it holds lies idle.
    pub memtable_chunk_bytes: usize,
}

impl Shares {
    /// With so many bytes in use a memtable is sealed. A little less than its share, which its chunks come to then: a
    /// few records more would take another chunk, an eighth of it, and leave that empty.
    pub fn full_bytes(&self) -> usize {
        self.seal_bytes - self.seal_bytes / 64
    }

    /// What a transaction may note of what it has read, until neighbours are joined.
    pub fn read_set_bytes(&self) -> usize {
        self.write_set_bytes / 4
    }

    /// What is written at once of a run.
    pub fn spill_buffer_bytes(&self) -> usize {
        (self.write_set_bytes / 4).min(1 << 20)
    }
}

impl Options {
    /// Half for pages, three eighths for memtables (one filling, two being absorbed), the rest for the checkpoint.
    /// Pages also get what memtables and checkpoint do not use, and give it back when they do.
    pub fn shares(&self) -> Shares {
        let memory = self.ceiling_bytes();
        let seal_bytes = self.seal_bytes.unwrap_or((memory / 8).clamp(64 << 10, 128 << 20));
        Shares {
            seal_bytes,
            memtables_bytes: (memory / 8 * 3).max(seal_bytes * 3),
            dirty_bytes: (memory / 8).clamp(256 << 10, 64 << 20),
            pool_bytes: memory / 2,
            largest_pool_bytes: memory / 8 * 7,
            write_set_bytes: self.write_set_bytes.unwrap_or((memory / 16).clamp(64 << 10, 256 << 20)),
            memtable_chunk_bytes: (seal_bytes / 8).clamp(4 << 10, 1 << 20),
        }
    }

    /// The ceiling on memory, in bytes: of this database, or of all that share its budget.
    pub fn ceiling_bytes(&self) -> usize {
        self.budget.as_ref().map_or(self.memory_bytes, |budget| budget.limit_bytes())
    }

    /// The page size of a new database.
    pub fn page_bytes_or_default(&self) -> usize {
        self.page_bytes.unwrap_or(limits::DEFAULT_PAGE_BYTES)
    }
}
