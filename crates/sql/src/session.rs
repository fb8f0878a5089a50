//! A connection's side of the database: its transaction, which SQLite's callbacks begin, divide and end.
//!
//! SQLite tells every table when a transaction that writes begins and ends. It does not tell that an explicit
//! transaction reads. So:
//! 1. A statement outside of a transaction reads from a snapshot, which the first cursor takes and the last one
//!    releases.
//! 2. A statement that writes begins a transaction (`begin`), and reads from it.
//! 3. A statement that reads within `BEGIN` first makes an empty write to the table [`MARKER`]. From then on that table
//!    is part of SQLite's transaction, whose callbacks report the end (`Host::execute` in [`Session::enter`]).
//! 4. `sync` commits when the first table gets it; `commit` to all tables then only cleans up.
//! 5. Savepoints, including SQLite's own for each statement, are numbered from 0 and reported to every table in turn.
//!    The first report of a number creates the engine's savepoint. -1 is the savepoint that began the transaction in
//!    place of `BEGIN`, and is reported to no table: the engine's is created with the transaction. A savepoint that
//!    began before the transaction has no engine's savepoint. Rolling back to it rolls back to the first one after it,
//!    which is at the transaction's begin, and which takes over its number once it is released itself.

use crate::failure::{Failure, Outcome};
use crate::vtab::{Host, Reserved};
use pando::{Database, Savepoint, Snapshot, Transaction, TransactionOptions};
use rows::{Batch, Value};
use rusqlite::ffi;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The table by which a reading transaction participates. It has no rows.
pub(crate) const MARKER: &str = "pando_transaction";
const JOIN: &std::ffi::CStr = c"DELETE FROM pando_transaction";

/// The number of batches of scan memory that a connection keeps, and the largest size of each.
const SPARE_BATCHES: usize = 4;
const SPARE_BYTES: usize = 16 << 10;

/// The source of reads.
pub(crate) enum Source<'a> {
    Snapshot(&'a Snapshot),
    Transaction(&'a Transaction),
}

/// Runs `$body` with `$reader` bound to the reader in `$source`: a generic call for each kind.
macro_rules! with_reader {
    ($source:expr, $reader:ident => $body:expr) => {
        match $source {
            $crate::session::Source::Snapshot($reader) => $body,
            $crate::session::Source::Transaction($reader) => $body,
        }
    };
}
pub(crate) use with_reader;

/// The state that a connection and its tables share.
pub(crate) struct Session {
    pub db: Database,
    state: Mutex<State>,
    /// Whether a change of a schema was undone. What the connection knows of tables is then stale, because the next
    /// change may give the same version to another schema. It is outside of the mutex because it is read for each row.
    undid_schemas: AtomicBool,
    /// Whether another program's connection runs statements, and whether the running statement is one of this crate's.
    is_shared: AtomicBool,
    is_own: AtomicBool,
}

#[derive(Default)]
struct State {
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
    /// The memory of finished scans, for the next ones.
    spare: Vec<Batch>,
    watch: Watch,
    /// Whether nothing may be written, regardless of the database.
    read_only: bool,
    /// Whether the transaction has changed a schema.
    changed_schemas: bool,
}

#[derive(Default)]
enum Mode {
    #[default]
    Idle,
    /// A snapshot: for a statement, or for a transaction of a database that is open read-only.
    Reading(Snapshot),
    Writing(Transaction),
}

/// The record of the running statement.
#[derive(Default)]
pub(crate) struct Watch {
    /// The primary keys of inserted or updated rows, if they are wanted.
    pub written: Option<Vec<Vec<Value<'static>>>>,
    /// For `ON CONFLICT`: rows that break a unique constraint are collected here and left out.
    pub conflicts: Option<Conflicts>,
    /// The bytes that a statement in steps holds in memory, and the limit; `None`: no limit.
    pub held_bytes: usize,
    pub most_held_bytes: Option<usize>,
    /// The same amount of SQLite's memory, so that the limit of all connections includes it.
    pub reserved: Vec<Reserved>,
}

/// The step in which that memory is reserved. Less is not reserved.
const RESERVED_BYTES: usize = 256 << 10;

impl Watch {
    /// Notes that a statement in steps holds this many more bytes.
    pub fn hold(&mut self, bytes: usize) -> Outcome {
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        match self.most_held_bytes {
            Some(most) if self.held_bytes > most => Err(Failure::new(
                ffi::SQLITE_TOOBIG,
                format!(
                    "RETURNING and ON CONFLICT keep the statement's rows in memory, at most {most} bytes \
                     here: \
                     change fewer rows at a time"
                ),
            )),
            _ => self.reserve(),
        }
    }

    fn reserve(&mut self) -> Outcome {
        while self.held_bytes / RESERVED_BYTES > self.reserved.len() {
            let none =
                || Failure::new(ffi::SQLITE_NOMEM, "out of memory for the rows that a statement holds");
            self.reserved.push(Reserved::new(RESERVED_BYTES).ok_or_else(none)?);
        }
        Ok(())
    }
}

/// A row that was left out.
#[derive(Default)]
pub(crate) struct Conflicts {
    /// The broken constraints, that of the primary key first.
    pub found: Vec<Conflict>,
    /// Another constraint that the row broke.
    pub refused: Option<Failure>,
}

/// The reason why a row was left out.
pub(crate) struct Conflict {
    /// The columns that must be unique together.
    pub columns: Vec<String>,
    /// The primary key of the existing row.
    pub key: Vec<Value<'static>>,
    /// The failure without `ON CONFLICT`.
    pub failure: Failure,
}

impl Session {
    pub fn new(db: Database) -> Self {
        Session {
            db,
            state: Mutex::default(),
            undid_schemas: AtomicBool::new(false),
            is_shared: AtomicBool::new(false),
            is_own: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in a callback ends the process, so no code sees a half-changed state.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn set_options(&self, options: TransactionOptions) {
        self.state().options = Some(options);
    }

    /// Forbids writes, or allows again what the database allows.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// Checks that writes are allowed.
    pub fn check_writable(&self) -> Outcome {
        let why = match () {
            () if self.state().read_only => "this connection is read-only",
            () if self.db.is_read_only() => "the database was opened read-only",
            () => return Ok(()),
        };
        Err(Failure::new(ffi::SQLITE_READONLY, why))
    }

    /// Runs `work` on the source from which the current statement reads.
    pub fn read<T>(&self, work: impl FnOnce(Source<'_>) -> Outcome<T>) -> Outcome<T> {
        let mut state = self.state();
        if let Mode::Idle = state.mode {
            state.mode = Mode::Reading(self.db.snapshot()?);
        }
        match &state.mode {
            Mode::Reading(snapshot) => work(Source::Snapshot(snapshot)),
            Mode::Writing(transaction) => work(Source::Transaction(transaction)),
            Mode::Idle => unreachable!("a snapshot was just taken"),
        }
    }

    /// Runs `work` in the transaction that the current statement has begun.
    pub fn write<T>(&self, work: impl FnOnce(&mut Transaction) -> Outcome<T>) -> Outcome<T> {
        self.write_row(work).map(|(done, _)| done)
    }

    /// Same as [`Session::write`], and also returns whether the written rows are wanted.
    #[inline]
    pub fn write_row<T>(&self, work: impl FnOnce(&mut Transaction) -> Outcome<T>) -> Outcome<(T, bool)> {
        let mut state = self.state();
        if let Mode::Writing(transaction) = &mut state.mode {
            let done = work(transaction)?;
            return Ok((done, state.watch.written.is_some()));
        }
        drop(state);
        self.check_writable()?;
        Err(Failure::new(ffi::SQLITE_READONLY, "the transaction is read-only"))
    }

    /// Returns whether the current statement reads from a transaction that can write.
    pub fn is_writing(&self) -> bool {
        matches!(self.state().mode, Mode::Writing(_))
    }

    /// Notes that a scan begins. Within an explicit transaction, the session must learn when that ends.
    pub fn enter(&self, host: Host) -> Outcome {
        let is_known = host.is_autocommit() || matches!(self.state().mode, Mode::Writing(_));
        if is_known { Ok(()) } else { host.execute(JOIN) }
    }

    /// Notes a new cursor, and returns memory for its reads.
    pub fn cursor_opened(&self) -> Batch {
        let mut state = self.state();
        state.open_cursors += 1;
        state.spare.pop().unwrap_or_default()
    }

    /// Notes that a cursor was closed. The last one releases a statement's snapshot.
    pub fn cursor_closed(&self, host: Host, mut memory: Batch) {
        memory.clear();
        let mut state = self.state();
        state.open_cursors -= 1;
        if state.spare.len() < SPARE_BATCHES && memory.capacity() <= SPARE_BYTES {
            state.spare.push(memory);
        }
        if state.open_cursors == 0 && host.is_autocommit() {
            state.leave_snapshot();
        }
    }

    /// Releases a snapshot that a look at the catalog has left.
    pub fn rest(&self) {
        let mut state = self.state();
        if state.open_cursors == 0 {
            state.leave_snapshot();
        }
    }

    pub fn begin(&self) -> Outcome {
        let mut state = self.state();
        if let Mode::Writing(_) = state.mode {
            return Ok(());
        }
        if state.read_only || self.db.is_read_only() {
            state.mode = Mode::Reading(self.db.snapshot()?);
            return Ok(());
        }
        let options = state.options.unwrap_or_else(|| self.db.transaction_options());
        let mut transaction = self.db.begin_with(&options)?;
        if state.lowest < 0 {
            // SQLite reports no savepoint that begins a transaction, but rolls back to it by this number.
            state.savepoints = vec![(-1, transaction.savepoint())];
        }
        state.mode = Mode::Writing(transaction);
        Ok(())
    }

    /// Commits. The transaction is over in any case.
    pub fn sync(&self) -> pando::Result<()> {
        let mut state = self.state();
        state.savepoints.clear();
        if let Mode::Writing(transaction) = std::mem::take(&mut state.mode) {
            transaction.commit()?;
            state.changed_schemas = false;
        }
        Ok(())
    }

    /// Ends the transaction after a commit or a rollback.
    pub fn end(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.changed_schemas) {
            self.undid_schemas.store(true, Ordering::SeqCst);
        }
        state.savepoints.clear();
        state.mode = Mode::Idle;
        state.lowest = if state.is_attached { -1 } else { 0 };
    }

    /// Notes that a savepoint is going to begin a transaction.
    pub fn begins_by_savepoint(&self) {
        self.state().lowest = -1;
    }

    /// Notes that another program runs statements.
    #[cfg(feature = "loadable")]
    pub fn attach(&self) {
        let mut state = self.state();
        (state.is_attached, state.lowest) = (true, -1);
        self.is_shared.store(true, Ordering::SeqCst);
    }

    /// Notes that a statement of this crate begins or ends.
    pub fn set_own(&self, is_own: bool) {
        // Relaxed, here and below: it is read in callbacks on this thread.
        self.is_own.store(is_own, Ordering::Relaxed);
    }

    /// Returns whether the running statement is another program's, of which only SQLite's calls are known.
    #[inline]
    pub fn is_of_others(&self) -> bool {
        // Relaxed: see above.
        self.is_shared.load(Ordering::Relaxed) && !self.is_own.load(Ordering::Relaxed)
    }

    pub fn savepoint(&self, number: i32) {
        let mut state = self.state();
        let State { mode: Mode::Writing(transaction), savepoints, .. } = &mut *state else { return };
        if savepoints.last().is_none_or(|(last, _)| *last < number) {
            savepoints.push((number, transaction.savepoint()));
        }
    }

    pub fn release(&self, number: i32) -> Outcome {
        let mut state = self.state();
        let State { mode: Mode::Writing(transaction), savepoints, lowest, .. } = &mut *state else {
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
        let State { mode: Mode::Writing(transaction), savepoints, .. } = &mut *state else { return Ok(()) };
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

    /// Notes that the transaction changes a schema.
    pub fn changes_schemas(&self) {
        self.state().changed_schemas = true;
    }

    /// Returns whether a change of a schema was undone since the last call.
    pub fn take_undone(&self) -> bool {
        self.undid_schemas.load(Ordering::SeqCst) && self.undid_schemas.swap(false, Ordering::SeqCst)
    }

    /// Runs `with` on the record of the running statement.
    pub fn watch<T>(&self, with: impl FnOnce(&mut Watch) -> T) -> T {
        with(&mut self.state().watch)
    }
}

impl State {
    fn leave_snapshot(&mut self) {
        if let Mode::Reading(_) = self.mode {
            self.mode = Mode::Idle;
        }
    }
}
