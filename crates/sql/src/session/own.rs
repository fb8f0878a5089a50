//! The transaction of a connection whose SQLite is another program's.
//!
//! SQLite calls every table when a transaction that writes begins and ends, but not when an explicit transaction reads.
//! So:
//! 1. A statement outside of a transaction reads from a snapshot, which the first cursor takes and the last one
//!    releases.
//! 2. A statement that writes begins a transaction (`begin`), and reads from it.
//! 3. A statement that reads within `BEGIN` first makes an empty write to the table [`MARKER`](super::MARKER). From
//!    then on that table is part of SQLite's transaction, whose callbacks report the end (`Host::execute` in
//!    [`Session::enter`]).
//! 4. `sync` commits when the first table gets it; `commit` to all tables then only cleans up.
//! 5. Savepoints, including SQLite's own for each statement, are numbered from 0 and reported to every table in turn.
//!    The first report of a number creates the engine's savepoint. -1 is the savepoint that began the transaction in
//!    place of `BEGIN`, and is reported to no table: the engine's is created with the transaction. A savepoint that
//!    began before the transaction has no engine's savepoint. Rolling back to it rolls back to the first one after it,
//!    which is at the transaction's begin, and which takes over its number once it is released itself.

use super::{JOIN, Session, Source, State};
use crate::failure::{Failure, Outcome};
use crate::vtab::Host;
use pando::any::{AnySnapshot, AnyTransaction};
use pando::{Savepoint, TransactionOptions, WriteTables};
use rows::Batch;
use rusqlite::ffi;
use std::sync::atomic::Ordering;

#[derive(Default)]
pub(super) struct Work {
    mode: Mode,
    /// The isolation and durability; the database's own if none are set.
    options: Option<TransactionOptions>,
    savepoints: Vec<(i32, Savepoint)>,
    /// The lowest number to which SQLite may roll back: -1 is a savepoint that began the transaction, in place of
    /// `BEGIN`. If there can be none, nothing must be kept of a transaction's begin.
    lowest: i32,
    /// Whether another program runs statements, so that it is unknown what began a transaction.
    is_attached: bool,
    open_cursors: usize,
}

#[derive(Default)]
enum Mode {
    #[default]
    Idle,
    /// A snapshot: for a statement, or for a transaction of a database that is open read-only.
    Reading(AnySnapshot),
    Writing(AnyTransaction),
}

impl Session {
    pub fn set_options(&self, options: TransactionOptions) {
        self.state().work.options = Some(options);
    }

    /// Runs `work` on the source from which the current statement reads.
    pub fn read<T>(&self, work: impl FnOnce(Source<'_>) -> Outcome<T>) -> Outcome<T> {
        let mut state = self.state();
        if let Mode::Idle = state.work.mode {
            state.work.mode = Mode::Reading(self.db.snapshot()?);
        }
        match &state.work.mode {
            Mode::Reading(snapshot) => work(Source::Snapshot(snapshot)),
            Mode::Writing(transaction) => work(Source::Transaction(transaction)),
            Mode::Idle => unreachable!("a snapshot was just taken"),
        }
    }

    /// Runs `work` in the transaction that the current statement has begun. Returns also whether the written rows are
    /// wanted.
    #[inline]
    pub fn write_row<T>(&self, work: impl FnOnce(&mut AnyTransaction) -> Outcome<T>) -> Outcome<(T, bool)> {
        let mut state = self.state();
        if let Mode::Writing(transaction) = &mut state.work.mode {
            let done = work(transaction)?;
            return Ok((done, state.watch.written.is_some()));
        }
        drop(state);
        self.check_writable()?;
        Err(Failure::new(ffi::SQLITE_READONLY, "the transaction is read-only"))
    }

    /// Commits a transaction beside the connection's own, which never excludes others.
    #[allow(clippy::unused_self, reason = "the other machine may exclude others")]
    pub fn commit_beside(&self, transaction: AnyTransaction) -> pando::Result<()> {
        transaction.commit().map(drop)
    }

    /// Returns whether the current statement reads from a transaction that can write.
    pub fn is_writing(&self) -> bool {
        matches!(self.state().work.mode, Mode::Writing(_))
    }

    /// Notes that a scan begins. Within an explicit transaction, the session must learn when that ends.
    pub fn enter(&self, host: Host) -> Outcome {
        let is_known = host.is_autocommit() || matches!(self.state().work.mode, Mode::Writing(_));
        if is_known { Ok(()) } else { host.execute(JOIN) }
    }

    /// Begins to write.
    pub fn enter_writing(&self, host: Host) -> Outcome {
        self.enter(host)
    }

    /// Notes a new cursor, and returns memory for its reads.
    pub fn cursor_opened(&self) -> Batch {
        let mut state = self.state();
        state.work.open_cursors += 1;
        state.spare.pop().unwrap_or_default()
    }

    /// Notes that a cursor was closed. The last one releases a statement's snapshot.
    pub fn cursor_closed(&self, host: Host, memory: Batch) {
        let mut state = self.state();
        state.keep(memory);
        state.work.open_cursors -= 1;
        if state.work.open_cursors == 0 && host.is_autocommit() {
            state.leave_snapshot();
        }
    }

    /// Releases a snapshot that a look at the catalog has left.
    pub fn rest(&self) {
        let mut state = self.state();
        if state.work.open_cursors == 0 {
            state.leave_snapshot();
        }
    }

    pub fn begin(&self) -> Outcome {
        let mut state = self.state();
        if let Mode::Writing(_) = state.work.mode {
            return Ok(());
        }
        if state.read_only || self.db.is_read_only() {
            state.work.mode = Mode::Reading(self.db.snapshot()?);
            return Ok(());
        }
        let options = state.work.options.unwrap_or_else(|| self.db.transaction_options());
        let mut transaction = self.db.begin_with(&options)?;
        if state.work.lowest < 0 {
            // SQLite reports no savepoint that begins a transaction, but rolls back to it by this number.
            state.work.savepoints = vec![(-1, transaction.savepoint())];
        }
        state.work.mode = Mode::Writing(transaction);
        Ok(())
    }

    /// Commits. The transaction is over in any case.
    pub fn sync(&self) -> pando::Result<()> {
        let mut state = self.state();
        state.work.savepoints.clear();
        if let Mode::Writing(transaction) = std::mem::take(&mut state.work.mode) {
            transaction.commit()?;
            state.changed_schemas = false;
        }
        Ok(())
    }

    /// Ends the transaction after a commit.
    pub fn committed(&self) {
        self.end();
    }

    /// Ends the transaction after a commit or a rollback.
    pub fn end(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.changed_schemas) {
            self.undid_schemas.store(true, Ordering::SeqCst);
        }
        state.work.savepoints.clear();
        state.work.mode = Mode::Idle;
        state.work.lowest = if state.work.is_attached { -1 } else { 0 };
    }

    /// Notes that a savepoint is going to begin a transaction.
    pub fn begins_by_savepoint(&self) {
        self.state().work.lowest = -1;
    }

    /// Notes that another program runs statements.
    pub fn attach(&self) {
        let mut state = self.state();
        (state.work.is_attached, state.work.lowest) = (true, -1);
        self.is_shared.store(true, Ordering::SeqCst);
    }

    pub fn savepoint(&self, number: i32) {
        let mut state = self.state();
        let Work { mode: Mode::Writing(transaction), savepoints, .. } = &mut state.work else { return };
        if savepoints.last().is_none_or(|(last, _)| *last < number) {
            savepoints.push((number, transaction.savepoint()));
        }
    }

    pub fn release(&self, number: i32) -> Outcome {
        let mut state = self.state();
        let Work { mode: Mode::Writing(transaction), savepoints, lowest, .. } = &mut state.work else {
            return Ok(());
        };
        let mut kept = savepoints.iter().take_while(|(known, _)| *known < number).count();
        // The savepoint below began before the transaction, so this one stands for it, too.
        let below = kept.checked_sub(1).map(|last| savepoints[last].0);
        if number > *lowest
            && below.is_none_or(|below| below < number - 1)
            && let Some((known, _)) = savepoints.get_mut(kept)
        {
            *known = number - 1;
            kept += 1;
        }
        if let Some((_, first)) = savepoints.get(kept) {
            transaction.release(first)?;
            savepoints.truncate(kept);
        }
        Ok(())
    }

    pub fn rollback_to(&self, number: i32) -> Outcome {
        let mut state = self.state();
        let Work { mode: Mode::Writing(transaction), savepoints, .. } = &mut state.work else {
            return Ok(());
        };
        let kept = savepoints.iter().take_while(|(known, _)| *known < number).count();
        if let Some((_, first)) = savepoints.get(kept) {
            transaction.rollback_to(first)?;
            savepoints.truncate(kept + 1);
            // Nothing was written between the two.
            savepoints[kept].0 = number;
        }
        if state.changed_schemas {
            self.undid_schemas.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl State {
    fn leave_snapshot(&mut self) {
        if let Mode::Reading(_) = self.work.mode {
            self.work.mode = Mode::Idle;
        }
    }
}
