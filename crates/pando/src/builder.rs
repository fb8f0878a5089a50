//! A builder with the options for opening a database. [`crate::options`] lists them; `database::open` opens.

mod settings;

pub(crate) use settings::check;

use crate::available::{Available, available};
use crate::options::{Given, Id};
use crate::workers::ReaderWatch;
use base::budget::Budget;
use base::env::Clock;
use base::limits;
use std::sync::Arc;
use std::time::Duration;
use store::{OpenReader, Options, TransactionOptions};
use txn::{Durability, Isolation};

/// Opens or creates a database with options. An option that is stored in the database must match the stored value.
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
    /// The options that were set.
    pub(crate) given: Given,
    /// The source of the memory's default.
    pub(crate) memory_from: &'static str,
}

impl Default for Builder {
    fn default() -> Self {
        let Available { bytes, from } = available();
        // The least memory that the largest pages need, whatever the size of this database's pages.
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
    /// Sets the size of a page in bytes. The size is stored: an existing database opens only with its own.
    ///
    /// Default: 16384, or what is stored. Range: 4096, 8192, 16384, 32768, 65536. Small pages make trees deeper and
    /// keys shorter; large pages write more bytes for each change.
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.options.page_bytes = Some(bytes);
        self.given.note(Id::PageBytes);
        self
    }

    /// Sets the clock by which entries of tables with a TTL expire; see
    /// [`TableOptions::ttl`](crate::TableOptions::ttl). The default is the system's clock; tests can use their own.
    /// Nothing else uses this clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = clock;
        self
    }

    /// Limits the memory of page pool, memtables, uncommitted writes and checkpoints, in bytes. Memory is allocated
    /// only when it is used.
    ///
    /// Default: a quarter of the machine's memory, or of the control group's limit if that is less. Range: 1 MiB and
    /// more, and 128 pages. Too low a value causes more disk reads and checkpoints; too high a value takes memory
    /// from other programs.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.options.memory_bytes = bytes;
        self.given.note(Id::MemoryBytes);
        self
    }

    /// Shares one memory limit between this database and all others that get a clone of the same budget. Each can
    /// take what the others do not use, and returns what it has not used lately when another needs it. Replaces
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

    /// Limits the size of a log segment, in bytes.
    ///
    /// Default: 64 MiB; never above 1/16 of memory_bytes (1/64 of a shared budget). Range: 4 KiB to 1 GiB. Small
    /// segments need more syncs; large ones free log space later.
    pub fn max_segment_bytes(mut self, bytes: u64) -> Self {
        self.options.max_segment_bytes = bytes;
        self.given.note(Id::MaxSegmentBytes);
        self
    }

    /// Begins a checkpoint after this many bytes were written to memory.
    ///
    /// Default: 1/8 of memory_bytes, at most 128 MiB. Range: 1 KiB to 1024 GiB. A low value writes pages more often;
    /// a high value lengthens recovery.
    pub fn checkpoint_bytes(mut self, bytes: usize) -> Self {
        self.options.seal_bytes = Some(bytes);
        self.given.note(Id::CheckpointBytes);
        self
    }

    /// Begins a checkpoint after this many records were written. This bounds the recovery time.
    ///
    /// Default: 4000000; never above 1/4 of max_log_records. Range: 1 and more. A low value writes pages more often;
    /// a high value lengthens recovery.
    pub fn checkpoint_records(mut self, records: u64) -> Self {
        self.options.seal_records = records;
        self.given.note(Id::CheckpointRecords);
        self
    }

    /// Limits the log that recovery after a crash must replay, in bytes. A checkpoint begins when a quarter of the
    /// limit is used. Writers are slowed down as the log fills, and wait when it is full. Only transactions that are
    /// already in progress can exceed the limit.
    ///
    /// Default: 1 GiB. Range: 64 KiB and more. A low value writes pages more often and delays writers; a high value
    /// lengthens recovery and takes disk space.
    pub fn max_log_bytes(mut self, bytes: u64) -> Self {
        self.options.max_log_bytes = bytes;
        self.given.note(Id::MaxLogBytes);
        self
    }

    /// Limits the log that recovery must replay, in records. Recovery replays about a million records a second.
    ///
    /// Default: 16000000. Range: 100 and more. A low value writes pages more often and delays writers; a high value
    /// lengthens recovery.
    pub fn max_log_records(mut self, records: u64) -> Self {
        self.options.max_log_records = records;
        self.given.note(Id::MaxLogRecords);
        self
    }

    /// Sets the default durability of transactions.
    ///
    /// Default: sync. Range: sync, buffered, lazy. Too weak a durability can lose commits after a crash; a stronger
    /// one than needed waits for a flush at each commit.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.transactions.durability = durability;
        self.given.note(Id::Durability);
        self
    }

    /// Sets the default isolation of transactions.
    ///
    /// Default: serializable. Range: serializable, snapshot. Snapshot isolation allows write skew; serializable
    /// isolation has conflicts over keys that were only read.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.transactions.isolation = isolation;
        self.given.note(Id::Isolation);
        self
    }

    /// Sets how long a `Lazy` commit may wait for its sync, in whole milliseconds.
    ///
    /// Default: 200 ms. Range: 1 ms to 60 minutes. A crash can lose Lazy commits of this period; a short interval
    /// flushes more often.
    pub fn lazy_interval(mut self, interval: Duration) -> Self {
        self.lazy_interval = interval;
        self.given.note(Id::LazyInterval);
        self
    }

    /// Opens the database for reading only. Several processes can do so at the same time. Every call that would write
    /// returns `ReadOnly`.
    ///
    /// If no process has the database open for writing, no byte of it is changed, and a log that was not closed
    /// properly is replayed into memory and left as it is. This also works on a read-only file system, where no process
    /// can open the database for writing.
    ///
    /// If another process opens the database for writing, before or after this opening, this database follows that
    /// writer: within a few milliseconds, snapshots show what the writer has acknowledged, and
    /// [`Database::catch_up`](crate::Database::catch_up) waits for it. The writer keeps the pages and the log that this
    /// database's open snapshots need, within the writer's own bounds for readers. A snapshot that exceeds these bounds
    /// fails with `SnapshotTooOld`, and so does a snapshot that is still open when a third process takes over writing.
    /// This database keeps a small file in the directory, which it must be allowed to create. While it is open, a
    /// process that does not admit readers cannot open the database for writing. Following a writer works on Linux.
    ///
    /// Default: no. Range: no, yes. Set it when several processes must read the same database; a read-only database
    /// rejects every write.
    ///
    /// Half of the memory limit must hold the part of the log after the last checkpoint; otherwise opening fails with
    /// `Full`, and the message states how much memory is enough. If the directory has no `lock` file and none can be
    /// created, other processes are not kept from writing; the directory must not change then.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # pando::Database::create(dir.path())?.ensure_table("t")?;
    /// let one = pando::Database::builder().read_only(true).open(dir.path())?;
    /// let two = pando::Database::open_read_only(dir.path())?;
    /// let table = two.ensure_table("t")?;
    /// assert_eq!(two.put(&table, b"k", b"v").unwrap_err().kind(), pando::ErrorKind::ReadOnly);
    ///
    /// let writer = pando::Database::open(dir.path())?;
    /// writer.put(&table, b"k", b"v")?;
    /// two.catch_up()?;
    /// assert_eq!(two.get(&table, b"k")?.as_deref(), Some(&b"v"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.options.read_only = read_only;
        self.given.note(Id::ReadOnly);
        self
    }

    /// Limits how long a snapshot or transaction may stay open, to an accuracy of a quarter of a second. After that it
    /// expires: its next call fails with `SnapshotTooOld`. Age by itself costs nothing, because the memory limit and
    /// [`Builder::max_pinned_space_bytes`] bound what a reader keeps. Set an age to find a forgotten snapshot early.
    ///
    /// Default: none. Range: 1 ms to 365 days. A short age makes long reads fail; a long one finds a forgotten
    /// snapshot late.
    pub fn max_snapshot_age(mut self, age: Duration) -> Self {
        self.options.max_snapshot_age = Some(age);
        self.given.note(Id::MaxSnapshotAge);
        self
    }

    /// Limits how much of the data file may be kept for open snapshots and transactions, in bytes. Beyond the limit,
    /// the oldest of them expire until the others keep less.
    ///
    /// Default: twice what is in use, at least 1 GiB. Range: 4 KiB and more. A low value makes long reads fail; a
    /// high value lets them take more disk space.
    pub fn max_pinned_space_bytes(mut self, bytes: u64) -> Self {
        self.options.max_pinned_space_bytes = Some(bytes);
        self.given.note(Id::MaxPinnedSpaceBytes);
        self
    }

    /// Limits what is kept for a slow reader of changes, in bytes: the log from the reader's position on, and the
    /// values in the data file to which the commits there refer. Beyond the limit, the slowest reader fails with
    /// `TooOld`, and must begin again with a copy of the database. See [`Database::changes`](crate::Database::changes).
    ///
    /// Default: 1 GiB. Range: 64 KiB and more. A low value makes late readers of changes begin again; a high one takes
    /// disk space.
    pub fn max_changes_bytes(mut self, bytes: u64) -> Self {
        self.options.max_changes_bytes = bytes;
        self.given.note(Id::MaxChangesBytes);
        self
    }

    /// Calls `report` for each snapshot or transaction that has been open for a minute (or half of
    /// [`Builder::max_snapshot_age`]), that keeps more than half of what is allowed, or that has just expired. Each is
    /// reported once, and once more if it expires later. The call is on a thread of the database that also syncs `Lazy`
    /// commits, so `report` should be quick. A panic in it is printed and otherwise ignored.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder()
    ///     .on_long_reader(|reader| eprintln!("open for {:?}: {:?}", reader.age, reader.opened_at))
    ///     .in_memory()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_long_reader(mut self, report: impl Fn(&OpenReader) + Send + Sync + 'static) -> Self {
        self.watch = ReaderWatch(Some(Arc::new(report)));
        self
    }
}
