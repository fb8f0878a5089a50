//! What can be asked about an open database: whether it is whole, what it is set to, what it did, who reads.

use super::Database;
use crate::options::Setting;
use base::Result;
use store::OpenReader;
use store::advice::{Advice, Operations};
use store::check::{Findings, Report};
use store::stats::{Stats, TableStats};

impl Database {
    /// Reads every page, large value and space map entry that the newest view reaches, and checks every checksum
    /// and structural rule. Commits wait for nothing, checkpoints do.
    ///
    /// # Errors
    /// `Corruption` with the first thing found wrong.
    pub fn check(&self) -> Result<Report> {
        self.shared.store.check()
    }

    /// As [`Database::check`], but goes on after the first problem, beside it, and answers all that it counted and all
    /// that is wrong. `progress` is shown the counts after each table.
    ///
    /// # Errors
    /// `Closed`. What is wrong is no error here.
    pub fn check_all(&self, mut progress: impl FnMut(&Report)) -> Result<Findings> {
        self.shared.store.check_all(&mut progress)
    }

    /// What each option is set to, and who or what set it: see [`crate::options`].
    pub fn settings(&self) -> Result<Vec<Setting>> {
        self.shared.builder.settings(Some(self))
    }

    /// Counts and sizes.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = self.shared.store.stats()?;
        self.shared.signals.pacer.fill(&mut stats.pacing);
        Ok(stats)
    }

    /// What was done with each table, by name.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let fruit = db.table("fruit")?;
    /// db.put(&fruit, b"apple", b"red")?;
    /// db.get(&fruit, b"apple")?;
    /// let of_fruit = &db.table_stats()?[0];
    /// assert_eq!((of_fruit.gets, of_fruit.writes), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn table_stats(&self) -> Result<Vec<TableStats>> {
        self.shared.store.table_stats()
    }

    /// Which layout each table wants, by name, with what an operation costs in either and what a switch would: see
    /// [`Advice`]. From what was done with each table since the database was opened, or, with `assumed`, as if as much
    /// had been done with each.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let fruit = db.table("fruit")?;
    /// for _ in 0..2_000 {
    ///     db.get(&fruit, b"apple")?;
    /// }
    /// let advice = &db.advise(None)?[0];
    /// assert_eq!((advice.operations.gets, advice.advised), (2_000, Some(pando::Layout::BTree)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn advise(&self, assumed: Option<Operations>) -> Result<Vec<Advice>> {
        let measured = self.stats()?.pacing.absorbed_bytes_per_s;
        self.shared.store.advise(assumed, (measured > 0).then_some(measured))
    }

    /// The open snapshots and transactions, the oldest first: what each keeps from being freed, since when, and where
    /// in the program it was begun. Waits for a checkpoint's current step at most.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let snapshot = db.snapshot()?;
    /// let readers = db.readers()?;
    /// assert_eq!(readers[0].opened_at.unwrap().file(), file!());
    /// # drop(snapshot);
    /// # Ok(())
    /// # }
    /// ```
    pub fn readers(&self) -> Result<Vec<OpenReader>> {
        self.shared.store.readers()
    }
}
