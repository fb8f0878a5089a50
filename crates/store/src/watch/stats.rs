//! The counters and sizes of a database.

use crate::checkpoint::amplification::InPages;
use crate::state::memory::MemoryStats;
use crate::state::pacing::PacingStats;
use crate::state::store::Store;
use base::Result;
use base::latency::{Cause, Latency};
use base::limits::UNIT_BYTES;
use base::reads::Reads;
use base::sync::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Counters since the database was opened, and current sizes.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The number of the last commit.
    pub last_commit: u64,
    /// The number of the last commit that every reader sees.
    pub visible_commit: u64,
    /// Commits that wrote something.
    pub commits: u64,
    /// Transactions that failed with a conflict.
    pub conflicts: u64,
    /// Keys that were looked up, in all tables and the catalog.
    pub gets: u64,
    /// Cursors that were closed.
    pub scans: u64,
    /// Times that cursors moved: once for each record, and once past the last.
    pub cursor_moves: u64,
    /// Deleted and expired entries that cursors passed over one by one, counted where there were eight or more in a
    /// row.
    pub dead_passed: u64,
    /// Puts, deletes and range deletes that were committed; of spilled transactions only those still in memory.
    pub writes: u64,
    /// The waits of operations, by cause.
    pub latencies: Waits,
    /// The size of a page in bytes.
    pub page_bytes: u64,
    /// The number of the last checkpoint.
    pub checkpoint: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// Memtables sealed.
    pub seals: u64,
    /// Records that checkpoints merged.
    pub absorbed_records: u64,
    /// Snapshots and transactions that are open.
    pub readers: u64,
    /// Snapshots and transactions that have expired.
    pub expired_readers: u64,
    /// Views that are kept for readers, including the current one.
    pub views: u64,
    /// States that are being copied; their pages are kept, as for a reader.
    pub pinned: u64,
    /// Memory of memtables that are not merged yet, in bytes.
    pub memtable_bytes: u64,
    /// Sealed memtables that wait for a checkpoint.
    pub sealed_memtables: u64,
    /// Times that a transaction wrote to the data file before its commit, because it did not fit in memory.
    pub spills: u64,
    /// Runs of such transactions that wait for a checkpoint.
    pub attached_runs: u64,
    /// Runs of all LSM tables together.
    pub stacked_runs: u64,
    /// Bytes of records that merges of LSM tables moved, approximately.
    pub compacted_bytes: u64,
    /// Memory of the page pool, in bytes.
    pub pool_bytes: u64,
    /// Pages read from disk.
    pub pool_faults: u64,
    /// Pages evicted from the pool.
    pub pool_evictions: u64,
    /// Blocks appended to the log.
    pub log_appends: u64,
    /// Bytes appended to the log.
    pub log_appended_bytes: u64,
    /// Flushes of the log.
    pub log_flushes: u64,
    /// Calls that waited for a flush.
    pub log_flushes_asked: u64,
    /// Bytes of the log's files, including spare segments.
    pub log_file_bytes: u64,
    /// Bytes of the data file.
    pub data_file_bytes: u64,
    /// Bytes of the data file that are in use.
    pub data_used_bytes: u64,
    /// Bytes of the data file that stay in use until readers end.
    pub data_retired_bytes: u64,
    /// Free bytes of the data file for which the file system keeps no blocks, as far as is known since the database
    /// was opened.
    pub data_hole_bytes: u64,
    /// Free bytes of the data file that are reserved for checkpoints and deletes, in case the disk is full.
    pub data_reserve_bytes: u64,
    /// Whether writes fail because the disk is full.
    pub is_short_of_room: bool,
    /// Counters of what checkpoints did inside pages.
    pub edits: page::EditCounters,
    /// The use of the memory budget.
    pub memory: MemoryStats,
    /// The debt of merging, and the delays of writers because of it.
    pub pacing: PacingStats,
}

/// The waits of operations, by cause, since the database was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    by_cause: [Latency; Cause::COUNT],
}

impl Store {
    /// Returns the number of the last commit.
    pub fn last_commit(&self) -> u64 {
        self.clocks.applied().0
    }
}

impl Waits {
    /// Returns the waits for `cause`.
    pub fn get(&self, cause: Cause) -> Latency {
        self.by_cause[cause as usize]
    }
}

/// Counters of one table since the database was opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TableStats {
    /// The name of the table.
    pub name: String,
    /// Approximately how many records the table has; see
    /// [`Snapshot::approximate_len`](crate::Snapshot::approximate_len).
    pub approximate_records: u64,
    /// Keys that were looked up.
    pub gets: u64,
    /// Cursors that were closed.
    pub scans: u64,
    /// Times that cursors moved: once for each record, and once past the last.
    pub cursor_moves: u64,
    /// Commits that wrote to the table.
    pub commits: u64,
    /// Puts, deletes and range deletes in those commits; of spilled transactions only those still in memory.
    pub writes: u64,
    /// Bytes of keys and values in those commits, as logged, approximately.
    pub committed_bytes: u64,
    /// Bytes that checkpoints wrote to the data file for the table. Divided by
    /// [`committed_bytes`](TableStats::committed_bytes), plus 1 for the log, this is its write amplification.
    pub written_bytes: u64,
    /// Runs of the table, including those that wait for a checkpoint.
    pub runs: u64,
    /// Pages that a get reads if no memtable has the key: the read amplification.
    pub get_pages: u64,
    /// Bytes of keys and values in pages, including replaced and deleted versions.
    pub record_bytes: u64,
    /// Bytes of leaf pages and filters. Divided by [`record_bytes`](TableStats::record_bytes), this is the space
    /// amplification.
    pub stored_bytes: u64,
    /// The number of bytes that compression saves in these.
    pub saved_bytes: u64,
}

impl Store {
    /// Returns the counters of each table, ordered by name. O(tables + slots).
    pub fn table_stats(self: &Arc<Self>) -> Result<Vec<TableStats>> {
        let snapshot = self.snapshot()?;
        let (reads, written) = (self.slots.reads(), lock(&self.committer).written.clone());
        let written_bytes = lock(&self.tallies.written_bytes).clone();
        let (tables, sealed) =
            self.views.with_current(|view| (Arc::clone(&view.tables), view.sealed.clone()));
        let each = |table: crate::Table| {
            let reads = reads.get(&table.id()).copied().unwrap_or_default();
            let written = written.get(&table.id()).copied().unwrap_or_default();
            let attached = sealed.iter().flat_map(|sealed| sealed.attached_for(table.id(), snapshot.ts()));
            let in_pages = InPages::measure(&tables, attached, table.id(), self.page_bytes as u64);
            Ok(TableStats {
                approximate_records: snapshot.approximate_len(&table)?,
                name: table.name().to_owned(),
                gets: reads.gets,
                scans: reads.scans,
                cursor_moves: reads.cursor_moves,
                commits: written.commits,
                writes: written.operations,
                committed_bytes: written.bytes,
                written_bytes: written_bytes.get(&table.id()).copied().unwrap_or(0),
                runs: in_pages.runs,
                get_pages: in_pages.get_pages,
                record_bytes: in_pages.record_bytes,
                stored_bytes: in_pages.stored_bytes,
                saved_bytes: in_pages.saved_bytes,
            })
        };
        snapshot.tables()?.into_iter().map(each).collect()
    }

    /// Returns the [`Stats`]. It waits at most for a checkpoint's current step.
    pub fn stats(&self) -> Result<Stats> {
        self.check_open()?;
        let tallies = &self.tallies;
        // Relaxed throughout: tallies order nothing.
        let tally = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (pool, log, space) = (self.pool.stats(), self.log.stats(), lock(&self.space).stats());
        let pressure = self.pressure();
        let checkpoint = self.views.with_current(|view| view.checkpoint);
        let reads = self.slots.reads().into_values().fold(Reads::default(), Reads::plus);
        let writes = {
            let committer = lock(&self.committer);
            let of_tables = committer.written.values().map(|written| written.operations);
            of_tables.sum::<u64>() + committer.written_to_dropped.operations
        };
        Ok(Stats {
            last_commit: self.clocks.applied().0,
            visible_commit: self.clocks.visible().0,
            commits: tally(&tallies.commits),
            conflicts: tally(&tallies.conflicts),
            gets: reads.gets,
            scans: reads.scans,
            cursor_moves: reads.cursor_moves,
            dead_passed: tally(&tallies.dead_passed),
            writes,
            latencies: Waits { by_cause: Cause::ALL.map(|cause| self.slots.latencies.get(cause)) },
            page_bytes: self.page_bytes as u64,
            checkpoint: checkpoint.0,
            checkpoints: tally(&tallies.checkpoints),
            seals: tally(&tallies.seals),
            absorbed_records: tally(&tallies.absorbed_records),
            spills: tally(&tallies.spills),
            attached_runs: self.attached_runs() as u64,
            stacked_runs: self.stacked_runs(),
            compacted_bytes: tally(&tallies.compacted_bytes),
            readers: self.slots.held() as u64,
            expired_readers: self.expiry.count(),
            views: self.views.count() as u64,
            pinned: self.checkpoints.pins.count() as u64,
            memtable_bytes: pressure.memtables_bytes as u64,
            sealed_memtables: pressure.sealed as u64,
            pool_bytes: pool.bytes as u64,
            pool_faults: pool.faults,
            pool_evictions: pool.evictions,
            log_appends: log.appends,
            log_appended_bytes: log.appended_bytes,
            log_flushes: log.syncs,
            log_flushes_asked: log.syncs_asked,
            log_file_bytes: log.live_bytes + log.spare_bytes,
            data_file_bytes: space.total_units * UNIT_BYTES as u64,
            data_used_bytes: space.used_units * UNIT_BYTES as u64,
            data_retired_bytes: space.retired_units * UNIT_BYTES as u64,
            data_hole_bytes: space.hole_units * UNIT_BYTES as u64,
            data_reserve_bytes: self.reserve_room_bytes(),
            is_short_of_room: self.short_of_room().is_some(),
            edits: *lock(&tallies.edits),
            memory: self.memory.stats(),
            pacing: PacingStats {
                debt_permille: pressure.debt_permille(),
                unabsorbed_log_bytes: pressure.log_bytes,
                unabsorbed_records: pressure.records,
                ..PacingStats::default()
            },
        })
    }
}
