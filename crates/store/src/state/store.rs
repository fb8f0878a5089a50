//! The store: all parts of one open database, without threads of its own.
//!
//! Most of it is in parts, each with its own file, whose fields are private if possible:
//!
//! | part | contents |
//! |---|---|
//! | `memory` | what is charged to the budget, and each purpose's share of it |
//! | `views`, `clocks`, `slots`, `expiry`, `known` | what readers see, who reads, how long, and which keys are empty |
//! | `log`, `committer`, `catalog` | the commit path, the state under its lock, and the last change of the catalog |
//! | `space`, `reservations`, `early` | units of the data file: used, reserved, and written before their commit |
//! | `checkpoints`, `upkeep`, `merging` | the last superblock, other work of checkpoints, their progress |
//! | `processes` | locks, forks, and readers in other processes |
//! | `time`, `latch`, `tallies` | the time of entries that expire, the failure that stopped writing, and counts |
//!
//! A function that needs one part takes that part. The rest of `impl Store` uses several.
//!
//! The lock order, outermost first, is: `checkpoints` → `space` → `committer` → the pins → the views' list → the log's
//! own locks. A thread that holds one takes only later ones. Under the locks of `upkeep`, of the `known` stretches, and
//! of the suspicion in `time`, no other lock is taken except the budget's.

use crate::state::changes::CatalogChanges;
use crate::state::checkpoints::Checkpoints;
use crate::state::committer::Committer;
use crate::state::consumers::Consumers;
use crate::state::early::EarlyWrites;
use crate::state::expiry::Expiry;
use crate::state::feeds::Feeds;
use crate::state::latch::Latch;
use crate::state::memory::Memory;
use crate::state::options::Options;
use crate::state::pacing::{Merging, Progress};
use crate::state::processes::Processes;
use crate::state::reserve::Reservations;
use crate::state::stretches::Known;
use crate::state::time::Time;
use crate::state::upkeep::Upkeep;
use crate::state::view::Views;
use base::budget::MemoryCategory;
use base::latency::{Cause, Latencies};
use base::slots::Slots;
use base::{DatabaseId, Error, ErrorKind, Lsn, Result, TableId};
use io::{Dir, File};
use log::Log;
use pool::Pool;
use space::Space;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use txn::Clocks;

pub use crate::state::pacing::Pressure;

/// An open database. [`crate::recovery::open`] or [`crate::recovery::open_or_create`] creates it. The caller of
/// [`Store::checkpoint`] and similar functions does its background work: a worker thread, or a simulation.
#[derive(Debug)]
pub struct Store {
    pub(crate) dir: Arc<dyn Dir>,
    pub(crate) data: Arc<dyn File>,
    pub(crate) database: DatabaseId,
    pub(crate) page_bytes: usize,
    pub(crate) memory: Memory,
    pub(crate) seal_records: u64,
    pub(crate) slots: Arc<Slots>,
    pub(crate) pool: Pool,
    pub(crate) log: Log,
    pub(crate) views: Views,
    pub(crate) clocks: Clocks,
    /// The clock for entries with a TTL.
    pub(crate) time: Time,
    pub(crate) latch: Latch,
    pub(crate) space: Mutex<Space>,
    pub(crate) early: EarlyWrites,
    pub(crate) committer: Mutex<Committer>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) upkeep: Upkeep,
    pub(crate) catalog: CatalogChanges,
    /// The readers of changes.
    pub(crate) feeds: Feeds,
    /// The consumers, whose positions outlive the process.
    pub(crate) consumers: Mutex<Consumers>,
    /// The limit on what is kept for readers of changes, in bytes.
    pub(crate) max_changes_bytes: u64,
    pub(crate) max_log_bytes: u64,
    pub(crate) max_log_records: u64,
    pub(crate) merging: Merging,
    /// The timestamp of the last commit that attached runs.
    pub(crate) attached: AtomicU64,
    pub(crate) closed: AtomicBool,
    /// The result of closing, once that has ended.
    pub(crate) closing: Mutex<Option<Result<()>>>,
    pub(crate) expiry: Expiry,
    /// The stretches of keys that readers found empty.
    pub(crate) known: Known,
    pub(crate) processes: Processes,
    pub(crate) tallies: Tallies,
    pub(crate) reservations: Reservations,
}

/// Counts of events since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub commits: AtomicU64,
    pub conflicts: AtomicU64,
    pub checkpoints: AtomicU64,
    pub seals: AtomicU64,
    pub absorbed_records: AtomicU64,
    pub spills: AtomicU64,
    pub dead_passed: AtomicU64,
    pub compacted_bytes: AtomicU64,
    pub edits: Mutex<page::EditCounters>,
    /// The bytes that checkpoints wrote for each table.
    pub written_bytes: Mutex<BTreeMap<TableId, u64>>,
}

impl Store {
    /// Returns whether the store was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        if self.is_closed() { Err(Self::closed()) } else { Ok(()) }
    }

    /// Returns an error in a child process that inherited this store. It costs a load and a comparison of constant
    /// data.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        self.processes.check()
    }

    #[cold]
    pub(crate) fn closed() -> Error {
        Error::new(ErrorKind::Closed, "the database is closed; open it again")
    }

    /// Returns the size of a page in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns how long operations waited, by cause.
    pub fn latencies(&self) -> &Arc<Latencies> {
        &self.slots.latencies
    }

    /// Returns the directory, for messages.
    pub fn describe(&self) -> String {
        self.dir.describe()
    }

    /// Returns whether another process writes what this store reads, or has written it since the store was opened; see
    /// [`crate::beside`].
    pub fn is_beside(&self) -> bool {
        self.processes.is_beside()
    }

    /// Shows readers in other processes what they may read. The caller holds the commit lock. Readers of changes are
    /// woken after it.
    #[inline]
    pub(crate) fn show_readers(&self) {
        self.processes.show(self.clocks.visible());
    }

    /// Wakes readers of changes for what threads that held a lock have found. Call it four times a second, without a
    /// lock that a waker may need.
    pub fn wake_owed(&self) {
        self.feeds.wake_owed();
    }

    /// Returns whether it was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.latch.is_read_only()
    }

    /// Returns the failure that stopped all writing, if there was one.
    pub fn latched(&self) -> Option<&Error> {
        self.latch.cause()
    }

    /// Returns an error if the store is closed, read-only, or was stopped by a failure.
    pub fn check_writes(&self) -> Result<()> {
        self.check_open()?;
        self.latch.check()
    }

    /// Stops all writing because of `cause`, as after a failed write: a thread that works for the store cannot
    /// continue.
    pub fn stop_writing(&self, cause: Error) {
        let _ = self.latch.set(cause);
    }

    /// Makes everything committed so far durable, including `Buffered` and `Lazy` commits.
    pub fn sync(&self) -> Result<()> {
        self.check_open()?;
        self.sync_and_wake(self.log.end().lsn)
    }

    /// Syncs the log through `lsn`, publishes what that made visible, and wakes readers of changes. The caller holds no
    /// lock.
    pub(crate) fn sync_and_wake(&self, lsn: Lsn) -> Result<()> {
        self.sync_log(lsn)?;
        self.feeds.wake();
        Ok(())
    }

    /// Syncs the log through `lsn` and publishes what that made visible. A failure latches. The caller wakes readers of
    /// changes.
    pub(crate) fn sync_log(&self, lsn: Lsn) -> Result<()> {
        self.latch.check()?;
        if self.log.synced() < lsn {
            let synced = self.slots.latencies.time(Cause::Sync, || self.log.sync(lsn));
            synced.map_err(|cause| self.latch.set(cause))?;
        }
        self.publish_synced();
        Ok(())
    }

    /// Prepares the log's next segment if it will be needed soon, so that no commit has to. Returns whether it did.
    /// While there is time, it calls `pause` with the longest time for which the disk should be left to others; `pause`
    /// returns whether it waited.
    pub fn prepare_log(&self, pause: &dyn Fn(Duration) -> bool) -> Result<bool> {
        self.let_log_grow(0, false);
        self.log.prepare_in_time(pause)
    }

    /// Frees the disk space that the log keeps for a stream of writes, if that has ended. Call it four times a second.
    /// A failure is ignored: the files are tried again when the next segments are dropped.
    pub fn rest_log(&self) {
        let _ = self.log.rest();
    }

    /// Prepares a log segment with room for an expected commit record of `bytes`. Returns whether it did.
    pub fn expect_record(&self, bytes: u64) -> Result<bool> {
        // It is a guess, for which no segment is made that exceeds the options. A segment has room for its header, too.
        let bytes = bytes.min(self.log.most_segment_bytes() / 2);
        self.let_log_grow(bytes, false);
        self.log.expect(bytes.min(self.log.longest_segment_bytes() / 2))
    }

    /// Records the last checkpoint's time for its records, and from there to the switch, in nanoseconds. The thread
    /// that makes checkpoints measures it.
    pub fn note_checkpoint(&self, records_ns: u64, tail_ns: u64) {
        self.merging.note(records_ns, tail_ns);
    }

    /// Returns whether a thread waits for the end of the current checkpoint.
    pub fn is_checkpoint_awaited(&self) -> bool {
        self.checkpoints.is_awaited()
    }

    /// Returns how full the memtables are: the caller decides to wait or to work.
    pub fn pressure(&self) -> Pressure {
        let (memtables_bytes, records, sealed) = self.views.with_current(|view| {
            let bytes = view.memtables().map(memtable::Memtable::bytes).sum();
            (bytes, view.memtables().map(memtable::Memtable::records).sum(), view.sealed.len())
        });
        let Progress { merged_bytes, left_ns } = self.merging.progress();
        let log_bytes = self.log.end().lsn.0.saturating_sub(self.checkpoints.replay_from().0);
        let (of_all, own) = (
            self.memory.account.budget().held_as(MemoryCategory::Memtables),
            self.memory.account.held().bytes(MemoryCategory::Memtables),
        );
        // What only open readers keep is not debt, and cannot be merged. What they may keep beyond the writers' share
        // takes the pool's room; excusing more would expire readers that slower writers leave alone.
        let excused = self.expiry.memory_bytes().saturating_sub(self.memory.shares.memtables_bytes);
        let kept = own.saturating_sub(memtables_bytes).min(excused);
        Pressure {
            memtables_bytes,
            shared_bytes: of_all.saturating_sub(kept),
            others_bytes: of_all.saturating_sub(own),
            limit_bytes: self.memory.shares.memtables_bytes,
            sealed,
            merged_bytes,
            left_ns,
            log_bytes,
            max_log_bytes: self.max_log_bytes,
            records,
            max_log_records: self.max_log_records,
        }
    }
}

impl Options {
    /// Returns the length of the longest log segment that the memory allows, in bytes.
    pub fn log_map_bytes(&self) -> u64 {
        let share = if self.budget.is_some() { 64 } else { 16 };
        (self.ceiling_bytes() as u64 / share).max(64 << 10).min(self.max_segment_bytes)
    }

    pub(crate) fn log(&self) -> log::Options {
        // The log is written through a mapping of its newest segment, which counts as the process's memory.
        let share = self.log_map_bytes();
        log::Options {
            first_segment_bytes: 16 << 10,
            max_segment_bytes: self.max_segment_bytes.min(share),
            flush_worth_bytes: self.flush_worth_bytes,
        }
    }
}
