//! How a connection ends a transaction.

use super::{Open, State, Work, lent};
use crate::counters::{Counters, Settled};
use crate::failure::{ABORT, BUSY_SNAPSHOT, Failure, Outcome};
use crate::writers::{Excluding, Turn, Writers};
use pando::Transaction;
use pando::any::{AnySnapshot, AnyTransaction};

impl State {
    /// Makes certain that the commit of a statement outside of `BEGIN` meets no conflict, before the statement returns
    /// its first row: a program takes the row for what is committed, and seldom looks at the result of the reset that
    /// commits. From here on others are excluded, until the statement has ended.
    ///
    /// If the statement can still read or write in its commit, as virtual tables do, `is_final` is false: then nothing
    /// at all may have been committed since the transaction began.
    ///
    /// `SQLITE_BUSY` and [`BUSY_FOR_NOW`](crate::failure::BUSY_FOR_NOW): another connection excludes that, and it can
    /// be tried again. `SQLITE_BUSY_SNAPSHOT`: the transaction has a conflict, and can only be rolled back.
    pub(crate) fn secure(&mut self, is_final: bool) -> Outcome<()> {
        let Work::Open(open) = &mut self.work else { return Ok(()) };
        // A remote store cannot be asked before the commit, and what is repeated with its rows need not be certain.
        if open.is_secured || !open.is_writing || self.repeats_rows || self.db.native().is_none() {
            return Ok(());
        }
        let excluding = match &mut self.excluding {
            Some(excluding) => excluding,
            none => none.insert(self.writers.exclude(&self.db, Turn::Exclusive)?),
        };
        let checked = match (&open.counters, &open.transaction) {
            (Some(counters), AnyTransaction::Native(tx)) => self.writers.counted.check(tx, counters),
            _ => Ok(()),
        };
        let checked = checked.and_then(|()| excluding.check(&mut open.transaction));
        if let Err(error) = checked {
            self.note_conflict(&error);
            return Err(error.into());
        }
        if !is_final && self.db.snapshot()?.commit_number() != open.transaction.commit_number() {
            let message = "database is locked: there was a commit since the statement began";
            return Err(Failure::new(BUSY_SNAPSHOT, message));
        }
        open.is_secured = true;
        Ok(())
    }

    /// Commits what was written. `SQLITE_BUSY` and [`BUSY_FOR_NOW`]: another connection excludes that, and it can be
    /// tried again. After any other failure, the transaction can only be rolled back.
    pub(crate) fn commit(&mut self) -> Outcome<()> {
        self.note_number_read();
        let open = match std::mem::replace(&mut self.work, Work::Idle) {
            // What was read in a remote store is certain to fit a serial order once its transaction is committed.
            Work::Open(open) if open.is_writing || self.db.native().is_none() => open,
            other => {
                let failed = match &other {
                    // Nothing is left to commit: a statement only may not read on.
                    Work::Failed(failure) if failure.code == ABORT => Ok(()),
                    Work::Failed(failure) => Err(failure.clone()),
                    Work::Lent => Err(lent()),
                    _ => Ok(()),
                };
                self.work = other;
                return failed;
            }
        };
        let done = match &self.excluding {
            Some(excluding) => commit(&self.writers, open.transaction, open.counters, Some(excluding)),
            None => {
                let _running = match self.writers.begin_commit() {
                    Ok(running) => running,
                    Err(blocked) => {
                        self.work = Work::Open(open);
                        return Err(blocked.into());
                    }
                };
                commit(&self.writers, open.transaction, open.counters, None)
            }
        };
        drop(open.ticket);
        // Others are excluded until `end`, so that a statement that reads on does so from this commit.
        let number = match done {
            Ok(number) => number,
            Err(error) => {
                self.excluding = None;
                self.note_conflict(&error);
                let failure = Failure::from(error);
                self.roots.undo(|_| false);
                self.work = Work::Failed(failure.clone());
                return Err(failure);
            }
        };
        self.seen = self.seen.max(number);
        self.roots.keep();
        self.work = Work::Committed;
        Ok(())
    }

    /// Ends the transaction. Statements that still return rows read on: from its commit, or if it was not committed
    /// from the state that it saw.
    pub(crate) fn end(&mut self, is_reading: bool) {
        let stays = is_reading && !matches!(self.work, Work::Idle);
        if stays && matches!(self.work, Work::Reading(_)) {
            return;
        }
        self.note_number_read();
        self.metas = None;
        self.spare.forget_known();
        if !stays {
            self.work = Work::Idle;
            self.excluding = None;
            return;
        }
        self.work = match &self.work {
            // A store gives no snapshot of the moment of a commit.
            _ if self.db.native().is_none() => Work::Failed(ended()),
            // It was not committed: it wrote nothing, or that is undone.
            Work::Open(Open { transaction: AnyTransaction::Native(transaction), .. }) => {
                reading(transaction.snapshot().map(AnySnapshot::Native))
            }
            _ => reading(self.db.snapshot()),
        };
        // What cursors have read ahead is of the transaction, and this can be a later state.
        self.roots.touch();
        self.excluding = None;
    }

    /// Undoes everything.
    pub(crate) fn rollback(&mut self, is_reading: bool) {
        let is_open = matches!(self.work, Work::Open(_) | Work::Failed(_) | Work::Lent);
        self.end(is_reading);
        if is_open {
            self.roots.undo(|_| false);
        }
    }
}

/// Commits a transaction, past the gate that `excluding` holds, if any. Returns the number of the commit, or `None`
/// for a remote store.
fn commit(
    writers: &Writers,
    transaction: AnyTransaction,
    counters: Option<Counters>,
    excluding: Option<&Excluding>,
) -> pando::Result<Option<u64>> {
    let (mut transaction, counters) = match (transaction, counters) {
        (AnyTransaction::Native(transaction), Some(counters)) => (transaction, counters),
        // A remote store has no reads that do not count, so the counters are what they have to be.
        (transaction, _) => {
            return match excluding {
                None => transaction.commit(),
                Some(excluding) => excluding.commit(transaction),
            };
        }
    };
    let Some(excluding) = excluding else {
        let settle = |transaction: &mut Transaction| writers.counted.settle(transaction, &counters);
        return transaction.commit_placed(settle, Settled::note).map(Some);
    };
    let begin = transaction.commit_number();
    let settled = writers.counted.settle(&mut transaction, &counters)?;
    let number = excluding.commit(AnyTransaction::Native(transaction))?;
    if let Some(number) = number.filter(|&number| number > begin) {
        settled.note(number);
    }
    Ok(number)
}

/// Returns what statements read on from.
fn reading(snapshot: pando::Result<AnySnapshot>) -> Work {
    snapshot.map_or_else(|error| Work::Failed(error.into()), Work::Reading)
}

/// Returns the failure of a statement that reads on after its transaction over a store.
fn ended() -> Failure {
    let message = "over a remote store, a statement cannot read on after the end of its transaction: read \
                   its rows to their end, or reset it, before COMMIT or ROLLBACK";
    Failure::new(ABORT, message)
}
