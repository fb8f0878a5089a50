//! Transactions that hold back all other commits while they run.

use super::{Database, Shared};
use crate::transaction::Transaction;
use base::Result;
use std::sync::Arc;

/// The commit gate, held by a handle: nothing else commits until the handle is dropped. It belongs to no thread, and
/// can be sent to another one.
///
/// A thread that holds it must commit only through [`CommitHold::commit`]. Any other commit in that thread would wait
/// for the gate forever.
#[derive(Debug)]
#[must_use = "the gate opens again when this is dropped"]
pub struct CommitHold {
    shared: Arc<Shared>,
}

impl Database {
    /// Holds back all other commits from now on. A transaction that begins after this, and commits through
    /// [`CommitHold::commit`], has no conflict, except with commits that were already past the gate. Returns `None` if
    /// another handle or transaction holds commits back, and in a child process that inherited the database by a fork.
    ///
    /// Use it for what other databases call an exclusive or immediate transaction. Other writers wait without a limit
    /// of time, so hold it briefly. To run a closure until it succeeds, use [`Database::write`], which holds back other
    /// commits only if conflicts persist.
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
    /// Commits a transaction past the gate, and returns the number of the commit.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`]. `Invalid` if the transaction belongs to another database than this handle; the
    /// transaction is rolled back.
    pub fn commit(&self, transaction: Transaction) -> Result<u64> {
        self.admit(&transaction)?;
        transaction.commit_past_gate()
    }

    /// Checks that a transaction, which may have begun before the gate was held, conflicts with nothing that was
    /// committed since it began. If the check succeeds, [`CommitHold::commit`] has no conflict, either, because nothing
    /// else commits. The exceptions are commits that were already past the gate when it was taken, and what the
    /// transaction reads or writes after the check.
    ///
    /// The check takes as long as the same check in a commit: up to one look-up for each key that the transaction read.
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
