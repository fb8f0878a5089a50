//! The store: everything that one open database consists of, and nothing that runs by itself.
//!
//! Lock order, outermost first: `checkpoint` → `space` → `committer` → the pins → the views' list → the log's own
//! locks. A thread that holds one takes only later ones. Under the lock of what is `known` of stretches, and of what
//! `time` suspects, nothing else is locked but the budget.

use crate::state::board::Board;
use crate::state::committer::Committer;
use crate::state::consumers::Consumers;
use crate::state::expiry::Expiry;
use crate::state::feeds::Feeds;
use crate::state::latch::Latch;
use crate::state::memory::Attended;
use crate::state::options::{Options, Shares};
use crate::state::pacing::{Merging, Progress};
use crate::state::pins::Pins;
use crate::state::room::Rooms;
use crate::state::rounds::Place;
use crate::state::rounds::Swept;
use crate::state::seats::Seat;
use crate::state::stretches::Known;
use crate::state::superblock::Superblock;
use crate::state::time::Time;
use crate::state::view::Views;
use crate::state::wanted::Wanted;
use base::budget::{Account, Charge, Holder};
use base::latency::{Cause, Latencies};
use base::slots::Slots;
use base::{DatabaseId, Error, ErrorKind, Lsn, Result, TableId};
use io::{Dir, File, Lock};
use log::Log;
use pool::Pool;
use space::Space;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;
use txn::Clocks;

pub use crate::state::pacing::Pressure;

/// An open database. Made by [`crate::recovery::open`] or [`crate::recovery::open_or_create`]; its background work is
/// done by the caller of [`Store::checkpoint`] and its siblings: a worker thread, or a simulation.
#[derive(Debug)]
pub struct Store {
    pub(crate) dir: Arc<dyn Dir>,
    pub(crate) data: Arc<dyn File>,
    pub(crate) database: DatabaseId,
    pub(crate) page_bytes: usize,
    /// What this database holds of its memory budget.
    pub(crate) account: Arc<Account>,
    pub(crate) attended: Attended,
    /// The mapping of the log's newest segment counts as memory.
    pub(crate) log_charge: Mutex<Charge>,
    pub(crate) shares: Shares,
    pub(crate) seal_records: u64,
    pub(crate) slots: Arc<Slots>,
    pub(crate) pool: Pool,
    pub(crate) log: Log,
    pub(crate) views: Views,
    pub(crate) clocks: Clocks,
    /// What time it is for entries that live for a time.
    pub(crate) time: Time,
    pub(crate) latch: Latch,
    pub(crate) space: Mutex<Space>,
    /// Values longer than this are written to the data file before their commit, in pieces of as many bytes.
    pub(crate) large_bytes: usize,
    pub(crate) piece_bytes: usize,
    /// Units of values that no commit refers to yet. Grows and shrinks under the space map's lock, and shrinks under
    /// the commit lock too, when they are committed.
    pub(crate) unpublished_units: AtomicU64,
    /// Read-locked while a piece of such a value is written; closing waits for these.
    pub(crate) streaming: RwLock<()>,
    /// One sync of the data file at a time.
    pub(crate) data_sync: Mutex<()>,
    pub(crate) committer: Mutex<Committer>,
    /// The superblock of the last checkpoint. Held for the length of a checkpoint: there is one at a time.
    pub(crate) checkpoint: Mutex<Superblock>,
    /// So many wait for it.
    pub(crate) checkpoint_waiters: AtomicU32,
    /// Where the next relocation goes on. Innermost: nothing is locked under it.
    pub(crate) relocation: Mutex<Place>,
    /// The layouts that the catalog asks for. Innermost, too.
    pub(crate) wanted: Wanted,
    /// Where sweeps for what has expired go on. Innermost, too.
    pub(crate) swept: Mutex<Swept>,
    /// The table that was compacted last: the next one's turn comes first.
    pub(crate) compacted: AtomicU32,
    /// What is merged of an LSM table at a time.
    pub(crate) slice_bytes: u64,
    /// So many runs of a size are merged into one.
    pub(crate) fan: usize,
    /// Checkpoints whose pages and log somebody copies.
    pub(crate) pins: Pins,
    /// Who follows the changes.
    pub(crate) feeds: Feeds,
    /// Those of them whose places outlive the process.
    pub(crate) consumers: Mutex<Consumers>,
    /// What may be kept for them, in bytes.
    pub(crate) max_changes_bytes: u64,
    /// The timestamp of the last commit that changed the catalog: a table handle resolved at or after it is good.
    pub(crate) catalog_changed: AtomicU64,
    /// The newest checkpoint that a durable log block names: what only older ones need may be freed.
    pub(crate) noted: AtomicU64,
    /// Where a recovery would begin to replay: the LSN that the last superblock names.
    pub(crate) replay_from: AtomicU64,
    pub(crate) max_log_bytes: u64,
    pub(crate) max_log_records: u64,
    pub(crate) merging: Merging,
    pub(crate) next_table: AtomicU32,
    /// The timestamp of the last commit that attached runs.
    pub(crate) attached: AtomicU64,
    pub(crate) closed: AtomicBool,
    pub(crate) expiry: Expiry,
    /// Stretches of keys that readers found empty.
    pub(crate) known: Known,
    /// The process that opened it: a child that was forked since is refused everything.
    pub(crate) origin: io::Origin,
    pub(crate) tallies: Tallies,
    pub(crate) rooms: Rooms,
    /// Where readers in other processes see how far they may read. `None`: there are no such readers.
    pub(crate) board: Option<Board>,
    /// What has another process keep what this store reads ([`crate::beside`]). `None`: no other process writes it.
    /// Here, so that snapshots find what they read also after closing.
    pub(crate) seat: Option<Mutex<Seat>>,
    /// Those of the lock file and of the data file. Released by closing, so that the directory can be opened again
    /// although snapshots still live.
    pub(crate) locks: Mutex<Option<[Box<dyn Lock>; 2]>>,
}

/// Counts of what happened since the database was opened.
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
    /// What checkpoints wrote for each table.
    pub written_bytes: Mutex<BTreeMap<TableId, u64>>,
}

impl Store {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        if self.is_closed() { Err(Self::closed()) } else { Ok(()) }
    }

    /// Refuses a child process that inherited this store. A load and a comparison, of what never changes.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.origin.is_forked() { Err(Self::forked()) } else { Ok(()) }
    }

    #[cold]
    fn forked() -> Error {
        let message = "the database was opened before this process was forked, and its threads run only \
                       in the \
                       parent; open the database in the child after the parent has closed it";
        Error::new(ErrorKind::Forked, message)
    }

    #[cold]
    pub(crate) fn closed() -> Error {
        Error::new(ErrorKind::Closed, "the database is closed; open it again")
    }

    /// The id of the next new table. Never given twice, also not when the transaction that asked aborts.
    pub(crate) fn claim_table_id(&self) -> TableId {
        TableId(self.next_table.fetch_add(1, Ordering::SeqCst))
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// How long operations waited for what.
    pub fn latencies(&self) -> &Arc<Latencies> {
        &self.slots.latencies
    }

    /// The directory, for messages.
    pub fn describe(&self) -> String {
        self.dir.describe()
    }

    /// Whether another process writes what this store reads; see [`crate::beside`].
    pub fn is_beside(&self) -> bool {
        self.seat.is_some()
    }

    /// Refuses what a store cannot do that reads beside another process.
    pub(crate) fn check_not_beside(&self, what: &str, call: &str) -> Result<()> {
        if self.seat.is_none() {
            return Ok(());
        }
        let message = format!(
            "{what} is not possible while another process has the database open for writing; call {call} in \
             that process, or try again after it has closed the database"
        );
        Err(Error::new(ErrorKind::Locked, message))
    }

    /// Shows readers in other processes what they may read, and wakes who follows the changes. The caller holds the
    /// commit lock.
    #[inline]
    pub(crate) fn show_readers(&self) {
        if let Some(board) = &self.board {
            board.show(self.clocks.visible());
        }
        self.feeds.wake();
    }

    /// Whether it was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.latch.is_read_only()
    }

    /// The failure that stopped all writing, if there was one.
    pub fn latched(&self) -> Option<&Error> {
        self.latch.cause()
    }

    /// Stops all writing, as after a failed write, because of `cause`: a thread that works for the store cannot
    /// go on.
    pub fn stop_writing(&self, cause: Error) {
        let _ = self.latch.set(cause);
    }

    /// Makes everything committed so far durable, `Buffered` and `Lazy` commits included.
    pub fn sync(&self) -> Result<()> {
        self.check_open()?;
        self.sync_log(self.log.end().lsn)
    }

    /// Syncs the log through `lsn` and publishes what that made visible. A failure latches.
    pub(crate) fn sync_log(&self, lsn: Lsn) -> Result<()> {
        self.latch.check()?;
        if self.log.synced() < lsn {
            let synced = self.slots.latencies.time(Cause::Sync, || self.log.sync(lsn));
            synced.map_err(|cause| self.latch.set(cause))?;
        }
        self.publish_synced();
        Ok(())
    }

    /// Readies the log's next segment if it will be needed soon, so that no commit has to. Answers whether it did.
    /// `pause` is called while there is time, for as long as the disk should be left to others at most, and says
    /// whether it waited.
    pub fn prepare_log(&self, pause: &dyn Fn(Duration) -> bool) -> Result<bool> {
        self.log.prepare_in_time(pause)
    }

    /// Gives back the disk space that the log keeps for a stream of writes, if that has ended; to be called four times
    /// a second. A failure concerns nobody: the files are tried again when the next segments are let go.
    pub fn rest_log(&self) {
        let _ = self.log.rest();
    }

    /// Readies a log segment with room for a commit record of `bytes` that is on its way. Answers whether it did.
    pub fn expect_record(&self, bytes: u64) -> Result<bool> {
        self.log.expect(bytes)
    }

    /// Notes what the last checkpoint took for its records, and from there to the switch, in nanoseconds: the thread
    /// that makes checkpoints measures it.
    pub fn note_checkpoint(&self, records_ns: u64, tail_ns: u64) {
        self.merging.note(records_ns, tail_ns);
    }

    /// The last superblock, held as long as there is to be no other checkpoint. A thread that waits for it hurries the
    /// one under way.
    pub(crate) fn claim_checkpoint(&self) -> MutexGuard<'_, Superblock> {
        self.checkpoint_waiters.fetch_add(1, Ordering::SeqCst);
        let superblock = base::sync::lock(&self.checkpoint);
        self.checkpoint_waiters.fetch_sub(1, Ordering::SeqCst);
        superblock
    }

    /// Whether somebody waits for the checkpoint under way to end.
    pub fn is_checkpoint_awaited(&self) -> bool {
        self.checkpoint_waiters.load(Ordering::SeqCst) > 0
    }

    /// How full the memtables are: the caller decides to wait or to work.
    pub fn pressure(&self) -> Pressure {
        let (memtables_bytes, records, sealed) = self.views.with_current(|view| {
            let bytes = view.memtables().map(memtable::Memtable::bytes).sum();
            (bytes, view.memtables().map(memtable::Memtable::records).sum(), view.sealed.len())
        });
        let Progress { merged_bytes, left_ns } = self.merging.progress();
        let log_bytes = self.log.end().lsn.0.saturating_sub(self.replay_from.load(Ordering::SeqCst));
        let (of_all, own) =
            (self.account.budget().held_as(Holder::Memtables), self.account.held().of(Holder::Memtables));
        // What only open readers keep is no debt, and cannot be merged away. What they may keep beyond the writers'
        // share takes the pool's room; excusing more would expire readers that slower writers leave alone.
        let excused = self.expiry.memory_bytes().saturating_sub(self.shares.memtables_bytes);
        let kept = own.saturating_sub(memtables_bytes).min(excused);
        Pressure {
            memtables_bytes,
            shared_bytes: of_all.saturating_sub(kept),
            others_bytes: of_all.saturating_sub(own),
            limit_bytes: self.shares.memtables_bytes,
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
    /// The longest log segment that the memory allows, in bytes.
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
