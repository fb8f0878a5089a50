//! `Database::compact`, which makes the files as small as possible while the database is in use.

use crate::database::Database;
use crate::progress::ProgressResult;
use base::Result;
use store::relocate::Compaction;
use store::stats::Stats;

/// The progress of [`Database::compact`], or its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The size of the data file in bytes at the beginning.
    pub data_file_bytes_before: u64,
    /// The size of the data file in bytes now.
    pub data_file_bytes: u64,
    /// The number of bytes of the data file that are in use or kept for readers. The file cannot become smaller than
    /// this.
    pub data_used_bytes: u64,
    /// The size of the log's files in bytes at the beginning.
    pub log_file_bytes_before: u64,
    /// The size of the log's files in bytes now.
    pub log_file_bytes: u64,
    /// The number of passes over all tables.
    pub passes: u32,
    /// The number of checkpoints.
    pub checkpoints: u64,
}

impl Compacted {
    fn begin(stats: &Stats) -> Self {
        Compacted {
            data_file_bytes_before: stats.data_file_bytes,
            data_file_bytes: stats.data_file_bytes,
            data_used_bytes: stats.data_used_bytes + stats.data_retired_bytes,
            log_file_bytes_before: stats.log_file_bytes,
            log_file_bytes: stats.log_file_bytes,
            passes: 0,
            checkpoints: 0,
        }
    }

    fn now(self, stats: &Stats) -> Self {
        Compacted {
            data_file_bytes_before: self.data_file_bytes_before,
            log_file_bytes_before: self.log_file_bytes_before,
            passes: self.passes,
            checkpoints: self.checkpoints,
            ..Compacted::begin(stats)
        }
    }
}

impl Database {
    /// Merges all logged changes, and the runs of LSM tables that are due, until nothing is left to merge. A table
    /// whose layout was changed is then entirely in the new layout. Calls `progress` after each slice. The worker
    /// thread does the same work when it is idle; call this to wait for the end of it. Reads and commits continue.
    ///
    /// # Errors
    /// Those of a checkpoint. The work of earlier slices is kept.
    pub fn settle(&self, mut progress: impl FnMut()) -> Result<()> {
        self.checkpoint()?;
        loop {
            let fallback = self.shared.store.fallback_level();
            let Some(slice) = self.shared.store.begin_compaction()? else { break };
            match slice.finish() {
                Err(error) if self.shared.store.should_fall_back(&error, fallback) => continue,
                done => done?,
            }
            self.shared.signals.set_full(self.shared.store.pressure().is_full());
            progress();
        }
        Ok(())
    }

    /// Makes the files as small as possible: merges all logged changes and the runs of each LSM table into one, packs
    /// half-empty pages, moves pages from the end of the data file into gaps, and returns the rest to the file system.
    /// It reads every page of every table. Reads and commits continue. It calls `progress` after each round, which
    /// moves at most 64 MiB; `progress` [can end the compaction](ProgressResult).
    ///
    /// No database needs this call: freed space is used again, and checkpoints return it to the file system. Space that
    /// open snapshots still need is not freed until they end.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// # db.put(&table, b"k", b"v")?;
    /// let done = db.compact(|now| eprintln!("{} bytes", now.data_file_bytes))?;
    /// assert!(done.data_file_bytes <= done.data_file_bytes_before.max(done.data_used_bytes));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of a checkpoint and of `progress`. What earlier rounds freed stays free.
    pub fn compact<R: ProgressResult>(&self, mut progress: impl FnMut(&Compacted) -> R) -> Result<Compacted> {
        let store = &self.shared.store;
        self.checkpoint()?;
        let mut done = Compacted::begin(&self.stats()?);
        let mut compaction = Compaction::new();
        loop {
            let fallback = store.fallback_level();
            let Some(round) = compaction.next_round(store)? else { break };
            match round.finish() {
                // The disk is full: try again, in pieces for which there is room.
                Err(error) if store.should_fall_back(&error, fallback) => continue,
                done => done?,
            }
            self.shared.signals.set_full(store.pressure().is_full());
            done.checkpoints += 1;
            done.passes = compaction.passes();
            done = done.now(&self.stats()?);
            progress(&done).into_result()?;
        }
        Ok(done.now(&self.stats()?))
    }
}
