//! The transaction of a connection on Pando's trees: that of SQLite's own tables in the main database.
//!
//! 1. A statement that names a typed table begins to read or to write in the main database before it calls the table,
//!    and SQLite commits, rolls back and divides that transaction. So the callbacks of tables for this do nothing.
//! 2. What reads while a statement is prepared, before its transaction begins, reads from a snapshot of its own. If a
//!    definition changes between the two, the table refuses, and SQLite prepares the statement again.
//! 3. A change of a typed definition is no statement of SQLite. It makes an empty write to the table
//!    [`MARKER`](super::MARKER) first, with which the transaction begins.

use super::{JOIN, Session, Source};
use crate::failure::{Failure, Outcome};
use crate::vtab::Host;
use pando::any::AnyTransaction;
use pando_sqlite::ffi::Source as Joined;
use rows::Batch;
use rusqlite::ffi;
use std::sync::atomic::Ordering;

/// What reads: within `BEGIN`, the transaction begins with it.
const READ: &std::ffi::CStr = c"SELECT 1 FROM sqlite_pando_transaction";

impl Session {
    /// Runs `work` on the source from which the current statement reads.
    pub fn read<T>(&self, work: impl FnOnce(Source<'_>) -> Outcome<T>) -> Outcome<T> {
        let mut work = Some(work);
        let mut run = |source: Source<'_>| work.take().map(|work| work(source));
        let done = self.host.join(|joined| {
            Ok::<_, Failure>(match joined.source()? {
                Some(Joined::Snapshot(snapshot)) => run(Source::Snapshot(snapshot)),
                Some(Joined::Transaction(transaction)) => run(Source::Transaction(transaction)),
                None => None,
            })
        })??;
        let done = match done {
            Some(done) => done,
            None => run(Source::Snapshot(&self.db.snapshot()?)).expect("it did not run yet"),
        };
        done.inspect_err(|failure| self.note(failure))
    }

    /// Returns SQLite's schema cookie as the current statement sees it.
    pub fn schema_cookie(&self) -> Outcome<u32> {
        self.host.schema_cookie().inspect_err(|failure| self.note(failure))
    }

    /// Lets the error of the statement say what the store said: SQLite has only a code and a message for it.
    fn note(&self, failure: &Failure) {
        if let Some(reason) = failure.reason {
            self.host.note(failure.code, &failure.message, reason);
        }
    }

    /// Runs `work` in the transaction that the current statement has begun. Returns also whether the written rows are
    /// wanted.
    #[inline]
    pub fn write_row<T>(&self, work: impl FnOnce(&mut AnyTransaction) -> Outcome<T>) -> Outcome<(T, bool)> {
        let is_wanted = self.state().watch.written.is_some();
        let done = self.host.join(|mut joined| match joined.transaction() {
            Ok(transaction) => work(transaction),
            Err(_) => {
                self.check_writable()?;
                Err(Failure::new(ffi::SQLITE_READONLY, "the transaction is read-only"))
            }
        })?;
        let done = done.inspect_err(|failure| self.note(failure))?;
        Ok((done, is_wanted))
    }

    /// Commits a transaction beside the connection's own, also while that excludes others.
    pub fn commit_beside(&self, transaction: AnyTransaction) -> pando::Result<()> {
        self.host.commit_beside(transaction)
    }

    /// Returns whether the current statement reads from a transaction that can write.
    pub fn is_writing(&self) -> bool {
        self.host.join(|mut joined| joined.transaction().is_ok()).unwrap_or(false)
    }

    /// Begins a transaction that reads within `BEGIN`, if none has begun.
    pub fn enter(&self, host: Host) -> Outcome {
        let has_begun = || self.host.join(|joined| joined.source().is_ok_and(|source| source.is_some()));
        if host.is_autocommit() || has_begun()? { Ok(()) } else { host.execute(READ) }
    }

    /// Begins to write.
    pub fn enter_writing(&self, host: Host) -> Outcome {
        host.execute(JOIN)
    }

    /// Returns memory for the reads of a new cursor.
    pub fn cursor_opened(&self) -> Batch {
        self.state().spare.pop().unwrap_or_default()
    }

    /// Keeps the memory of a cursor that was closed.
    pub fn cursor_closed(&self, _host: Host, memory: Batch) {
        self.state().keep(memory);
    }

    /// Does nothing: a look at the catalog leaves nothing.
    #[allow(clippy::unused_self, reason = "the other machine has to release a snapshot")]
    pub fn rest(&self) {}

    #[allow(clippy::unused_self, reason = "the other machine begins here")]
    pub fn begin(&self) -> Outcome {
        Ok(())
    }

    #[allow(clippy::unused_self, reason = "the other machine commits here")]
    pub fn sync(&self) -> pando::Result<()> {
        Ok(())
    }

    /// Notes that the transaction was committed.
    pub fn committed(&self) {
        self.state().changed_schemas = false;
    }

    /// Notes that the transaction was rolled back.
    pub fn end(&self) {
        if std::mem::take(&mut self.state().changed_schemas) {
            self.undid_schemas.store(true, Ordering::SeqCst);
        }
    }

    /// Does nothing: SQLite's own trees know what began a transaction.
    #[allow(clippy::unused_self, reason = "the other machine has to know it")]
    pub fn begins_by_savepoint(&self) {}

    #[allow(clippy::unused_self, reason = "the other machine divides its transaction here")]
    pub fn savepoint(&self, _number: i32) {}

    #[allow(clippy::unused_self, reason = "as above")]
    pub fn release(&self, _number: i32) -> Outcome {
        Ok(())
    }

    pub fn rollback_to(&self, _number: i32) -> Outcome {
        if self.state().changed_schemas {
            self.undid_schemas.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}
