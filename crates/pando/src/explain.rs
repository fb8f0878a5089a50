//! Operations that return a description of their steps.

use crate::cursor::Span;
use crate::database::Database;
use base::Result;
pub use base::explain::{Explanation, Step, Touched};
use base::latency::Cause;
use store::stats::Stats;
use store::{Table, TransactionOptions};

impl Database {
    /// Looks up `key` in a new snapshot and returns the steps of the look-up: the view, the memtables and runs that
    /// were searched, the filters that excluded the key, the pages that were read and whether they were in memory, and
    /// the time of each step.
    ///
    /// # Errors
    /// As for [`Database::get`].
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let fruit = db.ensure_table("fruit")?;
    /// db.put(&fruit, b"apple", b"red")?;
    /// let explanation = db.explain_get(&fruit, b"apple")?;
    /// assert_eq!(explanation.steps.last().unwrap().outcome, "a value of 3 bytes");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn explain_get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Explanation> {
        self.shared.store.explain_get(table, key.as_ref())
    }

    /// Reads at most `limit` records of `span` and returns the steps of the scan. The count of pages read is that of
    /// the whole database during the scan.
    ///
    /// # Errors
    /// As for [`Snapshot::cursor`](crate::Snapshot::cursor).
    #[track_caller]
    pub fn explain_scan(&self, table: &Table, span: impl Into<Span>, limit: u64) -> Result<Explanation> {
        self.shared.store.explain_scan(table, span.into(), limit)
    }

    /// Puts `records` in a transaction of their own, commits it, and returns how long each phase took and what it
    /// waited for. The counts include commits that other threads made at the same time.
    ///
    /// # Errors
    /// Those of a commit. A conflict is not retried.
    #[track_caller]
    pub fn explain_commit(
        &self,
        table: &Table,
        records: &[(Vec<u8>, Vec<u8>)],
        options: TransactionOptions,
    ) -> Result<Explanation> {
        let mut explanation = Explanation::default();
        let mut tx = explanation.step("begin a transaction", |step| {
            step.outcome = format!("{:?}, {:?}", options.isolation, options.durability).to_lowercase();
            self.begin_with(&options)
        })?;
        explanation.step("put into the write set", |step| {
            step.outcome = format!("{} records; this reads nothing and takes no lock", records.len());
            step.bytes = records.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
            records.iter().try_for_each(|(key, value)| tx.put(table, key, value))
        })?;
        let before = self.stats()?;
        explanation.step("commit", |step| {
            "encoded, validated, appended, applied, acknowledged".clone_into(&mut step.outcome);
            tx.commit()
        })?;
        self.note_commit(&before, &mut explanation)?;
        Ok(explanation)
    }

    /// Adds the parts of the commit's time as details of the step before.
    fn note_commit(&self, before: &Stats, explanation: &mut Explanation) -> Result<()> {
        let after = self.stats()?;
        explanation.step("of it: log", |step| {
            step.bytes = after.log_appended_bytes - before.log_appended_bytes;
            let blocks = after.log_appends - before.log_appends;
            let flushes = after.log_flushes - before.log_flushes;
            step.outcome = format!("{blocks} blocks appended, {flushes} flushes");
        });
        for cause in [Cause::LogRoom, Cause::CommitQueue, Cause::Sync, Cause::Debt, Cause::MemoryFull] {
            let (was, is) = (before.latencies.get(cause), after.latencies.get(cause));
            if is.count > was.count {
                explanation.step(format!("of it: waited for {}", cause.name()), |step| {
                    step.outcome = format!("{} times", is.count - was.count);
                });
                explanation.steps.last_mut().expect("a step was just added").ns = is.total_ns - was.total_ns;
            }
        }
        Ok(())
    }
}
