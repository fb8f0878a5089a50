//! `Database::compact`: as small as it gets, while it is in use.

use crate::database::Database;
use base::Result;
use store::relocate::Compaction;
use store::stats::Stats;

/// How far a compaction is, or what it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Bytes of the data file when it began.
    pub data_file_bytes_before: u64,
    /// Bytes of the data file now.
    pub data_file_bytes: u64,
    /// Of those, in use or waiting for readers to end: it cannot become smaller than this.
    pub data_used_bytes: u64,
    /// Bytes of the log's files when it began.
    pub log_file_bytes_before: u64,
    /// Bytes of the log's files now.
    pub log_file_bytes: u64,
    /// Passes over all tables.
    pub passes: u32,
    /// Checkpoints made for it.
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
    /// Merges what the log holds, and what is due of the runs of LSM tables, until nothing is: a table whose layout was
    /// changed is then wholly in the new one. `progress` is told after each slice. The worker thread does the same,
    /// when nothing else is to be done; this is for those who want to wait for it. Reads and commits go on.
    ///
    /// # Errors
    /// Those of a checkpoint. What earlier slices did stays done.
    pub fn settle(&self, mut progress: impl FnMut()) -> Result<()> {
        self.checkpoint()?;
        loop {
            let care = self.shared.store.care_taken();
            let Some(slice) = self.shared.store.begin_compaction()? else { break };
            match slice.finish() {
                Err(error) if self.shared.store.is_worth_more_care(&error, care) => continue,
                done => done?,
            }
            self.shared.signals.set_full(self.shared.store.pressure().is_full());
            progress();
        }
        Ok(())
    }

    /// Makes the files as small as they get: merges what the log holds and each LSM table's runs into one, packs
    /// half-empty pages, moves what lies at the end of the data file into gaps, and gives the rest back to the file
    /// system. `progress` is told after each round, which moves 64 MiB at most. Reads and commits go on; every page of
    /// every table is read.
    ///
    /// Never needed: freed space is used again, and given back as checkpoints go. What snapshots still see stays until
    /// they end, so that a compaction beside long readers gains less.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.table("t")?;
    /// # db.put(&table, b"k", b"v")?;
    /// let done = db.compact(|now| eprintln!("{} bytes", now.data_file_bytes))?;
    /// assert!(done.data_file_bytes <= done.data_file_bytes_before.max(done.data_used_bytes));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of a checkpoint. What earlier rounds gained is kept.
    pub fn compact(&self, mut progress: impl FnMut(&Compacted)) -> Result<Compacted> {
        let store = &self.shared.store;
        self.checkpoint()?;
        let mut done = Compacted::begin(&self.stats()?);
        let mut compaction = Compaction::new();
        loop {
            let care = store.care_taken();
            let Some(round) = compaction.next_round(store)? else { break };
            match round.finish() {
                // The disk is full: again, in pieces for which there is room.
                Err(error) if store.is_worth_more_care(&error, care) => continue,
                done => done?,
            }
            self.shared.signals.set_full(store.pressure().is_full());
            done.checkpoints += 1;
            done.passes = compaction.passes();
            done = done.now(&self.stats()?);
            progress(&done);
        }
        Ok(done.now(&self.stats()?))
    }
}
