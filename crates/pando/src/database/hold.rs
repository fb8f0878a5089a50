//! Transactions that hold back the commits of all others while they run.

use super::{Database, Shared};
use crate::transaction::Transaction;
use base::Result;
use std::sync::Arc;

/// The commit gate, held by a handle: nothing else commits until it is dropped. It belongs to no thread, and can be
/// sent to another one.
///
/// A thread that holds one must not commit in another way: that commit would wait for the gate forever.
#[derive(Debug)]
#[must_use = "the gate opens again when this is dropped"]
pub struct CommitHold {
    shared: Arc<Shared>,
}

impl Database {
    /// Holds back all commits from now on, so that a transaction that begins after this, and commits through
    /// [`CommitHold::commit`], meets no conflict. Returns `None` if another transaction holds them back. Commits that
    /// are already past the gate can still interfere.
    ///
    /// It is for what other databases call an exclusive or immediate transaction. Other writers wait without a limit
    /// of time, so hold it briefly. To run a closure until it succeeds, use [`Database::write`], which needs no hold
    /// unless conflicts persist.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let db = pando::Database::builder().in_memory()?;
    /// let stock = db.ensure_table("stock")?;
    /// db.put(&stock, "apples", "17")?;
    /// let hold = db.try_hold_commits().expect("nobody else has asked for it");
    /// assert!(db.try_hold_commits().is_none());
    /// let mut tx = db.begin()?;
    /// assert_eq!(tx.get(&stock, "apples")?.as_deref(), Some(&b"17"[..]));
    /// tx.put(&stock, "apples", "16")?;
    /// hold.commit(tx)?;
    /// drop(hold);
    /// db.put(&stock, "pears", "3")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_hold_commits(&self) -> Option<CommitHold> {
        self.shared.gate.try_hold().then(|| CommitHold { shared: Arc::clone(&self.shared) })
    }
}

impl CommitHold {
    /// Commits a transaction past the gate. Returns the number of the commit.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`]. `Invalid` if the transaction belongs to another database than this handle; the
    /// transaction is rolled back.
    pub fn commit(&self, transaction: Transaction) -> Result<u64> {
        self.admit(&transaction)?;
        transaction.commit_past_gate()
    }

    /// Checks that a transaction, which may have begun before the gate was held, conflicts with nothing that was
    /// committed since it began. If it does not, it meets no conflict in [`CommitHold::commit`] either, because nothing
    /// else commits. The exceptions are commits that were already past the gate when it was taken, and what the
    /// transaction reads or writes after the check.
    ///
    /// It takes as long as the same check does in a commit: up to one look-up for each key that the transaction read.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// let db = pando::Database::builder().in_memory()?;
    /// let stock = db.ensure_table("stock")?;
    /// let [mut one, mut two] = [db.begin()?, db.begin()?];
    /// one.insert(&stock, "apples", "17")?;
    /// two.insert(&stock, "apples", "3")?;
    /// let hold = db.try_hold_commits().expect("nobody else has asked for it");
    /// hold.check(&mut one)?;
    /// hold.commit(one)?;
    /// assert_eq!(hold.check(&mut two).unwrap_err().kind(), pando::ErrorKind::Conflict);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Transaction::commit`] that are known before the commit: `Conflict`, `SnapshotTooOld`, `Latched`,
    /// `ReadOnly`. `Invalid` if the transaction belongs to another database than this handle.
    pub fn check(&self, transaction: &mut Transaction) -> Result<()> {
        self.admit(transaction)?;
        transaction.check()
    }

    fn admit(&self, transaction: &Transaction) -> Result<()> {
        if transaction.is_of(&self.shared) {
            return Ok(());
        }
        Err(base::Error::invalid(
            "the transaction belongs to another database than this CommitHold; begin it in the same one",
        ))
    }
}

impl Drop for CommitHold {
    fn drop(&mut self) {
        self.shared.gate.open();
    }
}
