//! Options of a database.

use crate::available::available_bytes;
use crate::database::Database;
use crate::workers::ReaderWatch;
use base::budget::Budget;
use base::{Error, Result, limits};
use io::{Dir, MemDir, OsDir};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{OpenReader, Options, TransactionOptions};
use txn::{Durability, Isolation};

/// Opens or creates a database with options. Those that are stored with it must agree with what is stored.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = pando::Database::builder().page_bytes(4096).memory_bytes(32 << 20).create(dir.path())?;
/// drop(db);
/// let other = pando::Database::builder().page_bytes(8192).open(dir.path());
/// assert_eq!(other.unwrap_err().kind(), pando::ErrorKind::Mismatch);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    options: Options,
    lazy_interval: Duration,
    transactions: TransactionOptions,
    watch: ReaderWatch,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            options: Options { memory_bytes: default_memory_bytes(), ..Options::default() },
            lazy_interval: Duration::from_millis(200),
            transactions: TransactionOptions::default(),
            watch: ReaderWatch::default(),
        }
    }
}

impl Builder {
    /// Bytes of a page: 4096 to 65536, a power of two; default 16384, or what an existing database has. Stored.
    /// Too small costs depth and space for long keys, too large costs write volume for scattered changes.
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.options.page_bytes = Some(bytes);
        self
    }

    /// The ceiling on the memory of page pool, memtables, uncommitted writes and checkpoints, in bytes; at least 1 MiB
    /// and 64 pages, default a quarter of the machine's memory or of the control group's limit. Nothing is taken
    /// before it is used. Too little costs disk reads and frequent checkpoints, too much costs the rest of the machine.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.options.memory_bytes = bytes;
        self
    }

    /// One ceiling on memory for this database and all others that are given a clone of the same budget. Each can take
    /// what the others do not use, and gives back what it has not used lately when another needs it. Takes the place of
    /// [`Builder::memory_bytes`].
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let budget = pando::Budget::new(64 << 20);
    /// let users = pando::Database::builder().budget(&budget).in_memory()?;
    /// let orders = pando::Database::builder().budget(&budget).page_bytes(4096).in_memory()?;
    /// assert_eq!(users.stats()?.memory.databases, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn budget(mut self, budget: &Arc<Budget>) -> Self {
        self.options.budget = Some(Arc::clone(budget));
        self
    }

    /// The longest log segment, in bytes; default 64 MiB, and not above 1/16 of the memory
    /// ceiling (1/64 of a shared one).
    /// Small segments give space back sooner, at more syncs.
    pub fn max_segment_bytes(mut self, bytes: u64) -> Self {
        self.options.max_segment_bytes = bytes;
        self
    }

    /// A checkpoint begins when this many bytes were written to memory; default an eighth of the memory ceiling,
    /// at most 128 MiB. Small costs write volume, large costs recovery time.
    pub fn checkpoint_bytes(mut self, bytes: usize) -> Self {
        self.options.seal_bytes = Some(bytes);
        self
    }

    /// A checkpoint begins when this many records were written; default 4,000,000. Bounds recovery time.
    pub fn checkpoint_records(mut self, records: u64) -> Self {
        self.options.seal_records = records;
        self
    }

    /// The log that an opening after a crash would have to replay is kept below this, in bytes; default 1 GiB. At a
    /// quarter of it a checkpoint is begun; writers are slowed as it fills, and wait when it is full. It is passed by
    /// what transactions under way then commit, at most. Small costs write volume, large costs recovery time and disk.
    pub fn max_log_bytes(mut self, bytes: u64) -> Self {
        self.options.max_log_bytes = bytes;
        self
    }

    /// The same in records; default 16,000,000, of which a recovery replays about a million a second.
    pub fn max_log_records(mut self, records: u64) -> Self {
        self.options.max_log_records = records;
        self
    }

    /// The durability of transactions that name none; default [`Durability::Sync`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.transactions.durability = durability;
        self
    }

    /// The isolation of transactions that name none; default [`Isolation::Serializable`].
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.transactions.isolation = isolation;
        self
    }

    /// How long a `Lazy` commit may wait for its sync; default 200 ms. That much can be lost.
    pub fn lazy_interval(mut self, interval: Duration) -> Self {
        self.lazy_interval = interval;
        self
    }

    /// Opens the database to read it alone, beside others who do the same: no file is written, nothing is created,
    /// and a log that was not closed in order is replayed into memory and left as it is. Works on a read-only file
    /// system. Every call that would write answers `ReadOnly`. Default: no.
    ///
    /// Half of the memory ceiling must hold what the log has beyond the last checkpoint; `Full` says how much would.
    /// Where the directory has no `lock` file and none can be made, nobody is excluded: then it must not change.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # pando::Database::create(dir.path())?.table("t")?;
    /// let one = pando::Database::builder().read_only(true).open(dir.path())?;
    /// let two = pando::Database::open_read_only(dir.path())?;
    /// let table = two.table("t")?;
    /// assert_eq!(two.put(&table, b"k", b"v").unwrap_err().kind(), pando::ErrorKind::ReadOnly);
    /// assert_eq!(pando::Database::open(dir.path()).unwrap_err().kind(), pando::ErrorKind::Locked);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.options.read_only = read_only;
        self
    }

    /// How long a snapshot or transaction may stay open, to a quarter of a second; default: as long as it likes. Past
    /// that it expires: its next call fails with `SnapshotTooOld`. Age by itself costs nothing, and what a reader
    /// keeps is bounded otherwise (by the memory ceiling, and [`Builder::max_pinned_space_bytes`]); this is for those
    /// who would rather hear of a forgotten snapshot early.
    pub fn max_snapshot_age(mut self, age: Duration) -> Self {
        self.options.max_snapshot_age = Some(age);
        self
    }

    /// How much of the data file may wait for snapshots and transactions to end, in bytes; default as much as is in
    /// use, and at least 1 GiB. Past that the oldest expire, until the rest keeps less. Too little costs long reads,
    /// too much costs disk space.
    pub fn max_pinned_space_bytes(mut self, bytes: u64) -> Self {
        self.options.max_pinned_space_bytes = Some(bytes);
        self
    }

    /// Has `told` called, on a thread of the database, with each snapshot or transaction that has been open for a
    /// minute (or half of [`Builder::max_snapshot_age`]), keeps more than half of what is allowed, or has just expired.
    /// Each comes once, and once more if it expires later. `told` should be brief, and must not drop the last handle.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder()
    ///     .on_long_reader(|reader| eprintln!("open for {:?}: {:?}", reader.age, reader.opened_at))
    ///     .in_memory()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_long_reader(mut self, told: impl Fn(&OpenReader) + Send + Sync + 'static) -> Self {
        self.watch = ReaderWatch(Some(Arc::new(told)));
        self
    }

    /// Opens the database in the directory `path`, or creates it, parents included.
    ///
    /// # Errors
    /// `Locked` if another process (or this one) has it open; `Mismatch` if an option contradicts what is stored;
    /// `Foreign` or `Corruption` if the files are not what they should be; `Invalid` if it was to be read-only.
    pub fn create(self, path: impl AsRef<Path>) -> Result<Database> {
        self.check_may_create()?;
        self.start(Arc::new(OsDir::create(path.as_ref())?), true)
    }

    /// Opens the database in the directory `path`.
    ///
    /// # Errors
    /// `Missing` if there is none; else as [`Builder::create`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database> {
        self.start(Arc::new(OsDir::open(path.as_ref())?), false)
    }

    /// A database that lives in memory alone and is gone when the last handle is.
    pub fn in_memory(self) -> Result<Database> {
        self.start(Arc::new(MemDir::new()), true)
    }

    /// A database in any directory that the `io` traits describe: how the engine is tested.
    #[doc(hidden)]
    pub fn create_in(self, dir: Arc<dyn Dir>) -> Result<Database> {
        self.start(dir, true)
    }

    /// Likewise, of a database that is there.
    #[doc(hidden)]
    pub fn open_in(self, dir: Arc<dyn Dir>) -> Result<Database> {
        self.start(dir, false)
    }

    fn check_may_create(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::invalid("a database that is read-only is opened, not created"));
        }
        Ok(())
    }

    fn start(self, dir: Arc<dyn Dir>, create: bool) -> Result<Database> {
        if create {
            self.check_may_create()?;
        }
        if self.lazy_interval.is_zero() {
            return Err(Error::invalid(
                "the lazy interval is longer than 0; for no delay use Durability::Sync",
            ));
        }
        let open = if create { store::open_or_create } else { store::open };
        Database::start(open(dir, &self.options)?, self.transactions, self.lazy_interval, self.watch)
    }
}

/// A quarter of the memory that this process may use: the machine's or its control group's, whichever is less.
fn default_memory_bytes() -> usize {
    (available_bytes() / 4).max(limits::MAX_PAGE_BYTES * 64)
}
