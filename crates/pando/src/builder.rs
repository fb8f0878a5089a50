//! How a database is opened: the options, one after another, then the directory. [`crate::options`] lists them.

use crate::available::{Available, available};
use crate::database::Database;
use crate::options::{self, Given, Id};
use crate::workers::ReaderWatch;
use base::budget::Budget;
use base::seams::Clock;
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
    pub(crate) options: Options,
    pub(crate) lazy_interval: Duration,
    pub(crate) transactions: TransactionOptions,
    pub(crate) watch: ReaderWatch,
    /// Which options were set.
    pub(crate) given: Given,
    /// What the default of the memory follows from.
    pub(crate) memory_from: &'static str,
}

impl Default for Builder {
    fn default() -> Self {
        let Available { bytes, from } = available();
        // Whatever the pages: the least that the largest of them take.
        let memory_bytes = (bytes / 4).max(limits::MAX_PAGE_BYTES * 64);
        Builder {
            options: Options { memory_bytes, ..Options::default() },
            lazy_interval: Duration::from_millis(200),
            transactions: TransactionOptions::default(),
            watch: ReaderWatch::default(),
            given: Given::default(),
            memory_from: from,
        }
    }
}

impl Builder {
    /// Bytes of a page. Stored: an existing database is opened with what it has, or not at all.
    ///
    /// Default: 16384, or what is stored. Range: 4096, 8192, 16384, 32768, 65536. Too small costs depth and room for
    /// long keys, too large costs write volume.
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.options.page_bytes = Some(bytes);
        self.given.note(Id::PageBytes);
        self
    }

    /// The clock by which entries of tables with a TTL expire: [`TableOptions::ttl`](crate::TableOptions::ttl). The
    /// system's, unless a test has one of its own. Nothing else goes by it.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = clock;
        self
    }

    /// The ceiling on the memory of page pool, memtables, uncommitted writes and checkpoints. Nothing is taken before
    /// it is used.
    ///
    /// Default: a quarter of the machine's memory, or of the control group's limit if that is less. Range: 1 MiB and
    /// more, and 128 pages. Too little costs disk reads and frequent checkpoints, too much costs the rest of the
    /// machine.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.options.memory_bytes = bytes;
        self.given.note(Id::MemoryBytes);
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

    /// The longest log segment.
    ///
    /// Default: 64 MiB; never above 1/16 of memory_bytes (1/64 of a shared budget). Range: 4 KiB to 1 GiB. Too small
    /// costs syncs, too large gives space back late.
    pub fn max_segment_bytes(mut self, bytes: u64) -> Self {
        self.options.max_segment_bytes = bytes;
        self.given.note(Id::MaxSegmentBytes);
        self
    }

    /// A checkpoint begins when this many bytes were written to memory.
    ///
    /// Default: 1/8 of memory_bytes, at most 128 MiB. Range: 1 KiB to 1024 GiB. Too small costs write volume, too large
    /// costs recovery time.
    pub fn checkpoint_bytes(mut self, bytes: usize) -> Self {
        self.options.seal_bytes = Some(bytes);
        self.given.note(Id::CheckpointBytes);
        self
    }

    /// A checkpoint begins when this many records were written. Bounds recovery time.
    ///
    /// Default: 4000000; never above 1/4 of max_log_records. Range: 1 and more. Too few costs write volume, too many
    /// costs recovery time.
    pub fn checkpoint_records(mut self, records: u64) -> Self {
        self.options.seal_records = records;
        self.given.note(Id::CheckpointRecords);
        self
    }

    /// The log that an opening after a crash would have to replay is kept below this. At a quarter of it a checkpoint
    /// is begun; writers are slowed as it fills, and wait when it is full. It is passed by what transactions under way
    /// then commit, at most.
    ///
    /// Default: 1 GiB. Range: 64 KiB and more. Too small costs write volume and delays writers, too large costs
    /// recovery time and disk.
    pub fn max_log_bytes(mut self, bytes: u64) -> Self {
        self.options.max_log_bytes = bytes;
        self.given.note(Id::MaxLogBytes);
        self
    }

    /// The same in records, of which a recovery replays about a million a second.
    ///
    /// Default: 16000000. Range: 100 and more. Too few costs write volume and delays writers, too many costs recovery
    /// time.
    pub fn max_log_records(mut self, records: u64) -> Self {
        self.options.max_log_records = records;
        self.given.note(Id::MaxLogRecords);
        self
    }

    /// The durability of transactions that name none.
    ///
    /// Default: sync. Range: sync, buffered, lazy. Too weak costs commits when power or process fail, too strong costs
    /// a flush for each.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.transactions.durability = durability;
        self.given.note(Id::Durability);
        self
    }

    /// The isolation of transactions that name none.
    ///
    /// Default: serializable. Range: serializable, snapshot. Too weak allows write skew, too strong costs conflicts
    /// over what was only read.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.transactions.isolation = isolation;
        self.given.note(Id::Isolation);
        self
    }

    /// How long a `Lazy` commit may wait for its sync, in whole milliseconds.
    ///
    /// Default: 200 ms. Range: 1 ms to 60 minutes. Too long costs that much of the newest Lazy commits, too short costs
    /// flushes.
    pub fn lazy_interval(mut self, interval: Duration) -> Self {
        self.lazy_interval = interval;
        self.given.note(Id::LazyInterval);
        self
    }

    /// Opens the database to read it alone, beside others who do the same: no file is written, nothing is created,
    /// and a log that was not closed in order is replayed into memory and left as it is. Works on a read-only file
    /// system. Every call that would write answers `ReadOnly`.
    ///
    /// Default: no. Range: no, yes. Needlessly no keeps all other openers out, needlessly yes refuses every write.
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
        self.given.note(Id::ReadOnly);
        self
    }

    /// How long a snapshot or transaction may stay open, to a quarter of a second. Past that it expires: its next call
    /// fails with `SnapshotTooOld`. Age by itself costs nothing, and what a reader keeps is bounded otherwise (by the
    /// memory ceiling, and [`Builder::max_pinned_space_bytes`]); this is for those who would rather hear of a forgotten
    /// snapshot early.
    ///
    /// Default: none. Range: 1 ms to 365 days. Too short costs long reads, too long leaves a forgotten snapshot
    /// unnoticed.
    pub fn max_snapshot_age(mut self, age: Duration) -> Self {
        self.options.max_snapshot_age = Some(age);
        self.given.note(Id::MaxSnapshotAge);
        self
    }

    /// How much of the data file may wait for snapshots and transactions to end. Past that the oldest expire, until the
    /// rest keeps less.
    ///
    /// Default: twice what is in use, at least 1 GiB. Range: 4 KiB and more. Too little costs long reads, too much
    /// costs disk space.
    pub fn max_pinned_space_bytes(mut self, bytes: u64) -> Self {
        self.options.max_pinned_space_bytes = Some(bytes);
        self.given.note(Id::MaxPinnedSpaceBytes);
        self
    }

    /// Has `told` called, on a thread of the database, with each snapshot or transaction that has been open for a
    /// minute (or half of [`Builder::max_snapshot_age`]), keeps more than half of what is allowed, or has just expired.
    /// Each comes once, and once more if it expires later. `told` should be brief: the thread syncs `Lazy` commits,
    /// too. A panic in it is printed, and changes nothing else.
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
        options::check(&self)?;
        #[cfg(feature = "tracing")]
        crate::trace::begin();
        let open = if create { store::open_or_create } else { store::open };
        Database::start(open(dir, &self.options)?, self)
    }
}
