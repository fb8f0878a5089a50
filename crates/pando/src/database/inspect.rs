//! Inspection of an open database: checks, settings, statistics and open readers.

use super::{Database, Identity};
use crate::options::Setting;
use crate::progress::ProgressResult;
use base::Result;
use store::advice::{Advice, Operations};
use store::check::{Findings, Report};
use store::stats::{Stats, TableStats};
use store::{OpenReader, ReaderId};

impl Database {
    /// Reads every page, large value and space map entry that the newest view reaches, and verifies every checksum
    /// and structural rule. Commits and checkpoints go on: what the view reaches is kept until the check ends, so the
    /// data file may grow as it does during a backup.
    ///
    /// # Errors
    /// `Corruption` with the first problem; `Closed`.
    pub fn check(&self) -> Result<Report> {
        self.shared.store.check()
    }

    /// Checks the database as [`Database::check`] does, but continues after a problem, and returns all counts and all
    /// problems. Calls `progress` with the counts after each table; `progress` [can end the check](ProgressResult), and
    /// may read and write. In it, [`Database::checkpoint`], `compact`, `check` and `close` fail with `Invalid`.
    ///
    /// # Errors
    /// `Closed`, also if another thread closes the database meanwhile, and those of `progress`. Problems are not errors
    /// here: the findings list them.
    pub fn check_all<R: ProgressResult>(&self, mut progress: impl FnMut(&Report) -> R) -> Result<Findings> {
        self.shared.store.check_all(&mut |report| progress(report).into_result())
    }

    /// Returns which database this is, and which copy of it.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = pando::Database::builder().in_memory()?;
    /// let mut backup = Vec::new();
    /// db.backup(pando::BackupOptions::default(), &mut backup)?;
    /// pando::restore_stream(&mut &backup[..], dir.path())?;
    /// let copy = pando::Database::open(dir.path())?;
    /// assert_eq!(copy.identity().database, db.identity().database);
    /// assert_ne!(copy.identity().fork, db.identity().fork);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.shared.store.lineage().into()
    }

    /// Returns the time of the database, in milliseconds since 1970. Entries expire and commits are dated by this time.
    /// It never goes back, and can be ahead of the wall clock.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let before = db.time_ms();
    /// assert!(db.time_ms() >= before);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn time_ms(&self) -> u64 {
        self.shared.store.time_ms()
    }

    /// Returns a number that distinguishes this database from all others that are open in this process, even from a
    /// copy with the same [identity](Database::identity). Clones of a handle have the same number. After the last of
    /// them is dropped, another database can get the number.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let (one, two) = (pando::Database::builder().in_memory()?, pando::Database::builder().in_memory()?);
    /// assert_eq!(one.instance(), one.clone().instance());
    /// assert_ne!(one.instance(), two.instance());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn instance(&self) -> usize {
        std::sync::Arc::as_ptr(&self.shared).addr()
    }

    /// Returns the value of each option and its origin; see [`crate::options`].
    pub fn settings(&self) -> Result<Vec<Setting>> {
        self.shared.builder.settings(Some(self))
    }

    /// Returns counters and sizes of the database.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = self.shared.store.stats()?;
        self.shared.signals.pacer.fill(&mut stats.pacing);
        Ok(stats)
    }

    /// Returns counters of each table, ordered by name.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let fruit = db.ensure_table("fruit")?;
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

    /// Returns the recommended layout of each table, ordered by name, with the estimated cost of operations in either
    /// layout and of a switch; see [`Advice`]. The estimate uses the operations on each table since the database was
    /// opened, or, if `assumed` is given, that many operations on each table.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let fruit = db.ensure_table("fruit")?;
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

    /// Returns the open snapshots and transactions, oldest first: what each keeps from being freed, since when it is
    /// open, and where in the program it was begun. It waits for at most the current step of a checkpoint.
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

    /// Makes an open snapshot or transaction expire, as one does that kept too much for too long: its next call fails
    /// with `SnapshotTooOld`, a transaction can no longer commit, and what only it kept is freed. A read or commit that
    /// is already in progress ends normally, and what an open cursor uses stays until the cursor is closed. Returns
    /// `false` if the snapshot or transaction has already ended or expired. O(open readers).
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// # let table = db.ensure_table("t")?;
    /// let snapshot = db.snapshot()?;
    /// let oldest = db.readers()?[0].id;
    /// assert!(db.expire_reader(oldest)?);
    /// assert_eq!(snapshot.get(&table, "k").unwrap_err().kind(), pando::ErrorKind::SnapshotTooOld);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed`.
    pub fn expire_reader(&self, id: ReaderId) -> Result<bool> {
        self.shared.store.expire_reader(id)
    }
}
