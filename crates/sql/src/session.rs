//! A connection's side of the database: its transaction, as SQLite's callbacks begin, divide and end it.
//!
//! SQLite knows when a transaction that writes begins and ends, and tells every table of it. What it does not tell is
//! that an explicit transaction reads. So:
//! 1. A statement outside of a transaction reads from a snapshot, which the first cursor takes and the last gives back.
//! 2. A statement that writes begins a transaction of ours (`begin`), and reads from that.
//! 3. A statement that reads within `BEGIN` first writes nothing to the table [`MARKER`]: from then on that table is
//!    part of SQLite's transaction, and its callbacks tell us of the end (`Host::execute` in [`Session::enter`]).
//! 4. `sync`, which the first table gets, commits; `commit` to all tables then only tidies up.
//! 5. Savepoints, SQLite's own for each statement included, are numbered from 0 and come to every table in turn: the
//!    first to bring a number makes ours. -1 is the one that began the transaction, in place of `BEGIN`, and comes to
//!    no table: ours is made with the transaction. One that began before the transaction did has none; going back to it
//!    goes back to the first after it, which is at the transaction's begin, and takes over its number once it is
//!    released itself.

use crate::failure::{Failure, Outcome};
use crate::vtab::{Host, Reserved};
use pando::{Database, Savepoint, Snapshot, Transaction, TransactionOptions};
use rows::{Batch, Value};
use rusqlite::ffi;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The table that a reading transaction takes part with. It has no rows.
pub(crate) const MARKER: &str = "pando_transaction";
const JOIN: &std::ffi::CStr = c"DELETE FROM pando_transaction";

/// Memory of scans that a connection keeps: so many, each of so many bytes at most.
const SPARE_BATCHES: usize = 4;
const SPARE_BYTES: usize = 16 << 10;

/// What is read from.
pub(crate) enum Source<'a> {
    Snapshot(&'a Snapshot),
    Transaction(&'a Transaction),
}

/// Runs `$body` with `$reader` bound to what `$source` holds: a generic call for each.
macro_rules! with_reader {
    ($source:expr, $reader:ident => $body:expr) => {
        match $source {
            $crate::session::Source::Snapshot($reader) => $body,
            $crate::session::Source::Transaction($reader) => $body,
        }
    };
}
pub(crate) use with_reader;

/// What a connection and its tables share.
pub(crate) struct Session {
    pub db: Database,
    state: Mutex<State>,
    /// Whether a change of a schema was undone: what the connection knows of tables is no good then, as the next change
    /// may give the same version to another schema. Beside the state: it is asked for each row.
    undid_schemas: AtomicBool,
    /// Whether somebody else's connection runs statements, and whether it is one of ours that runs now.
    is_shared: AtomicBool,
    is_own: AtomicBool,
}

#[derive(Default)]
struct State {
    mode: Mode,
    /// Isolation and durability; those of the database if none are set.
    options: Option<TransactionOptions>,
    savepoints: Vec<(i32, Savepoint)>,
    /// The lowest number that SQLite may go back to: -1 is a savepoint that began the transaction, in place of `BEGIN`.
    /// Where there can be none, nothing need be remembered of a transaction's begin.
    lowest: i32,
    /// Whether statements are run by somebody else, so that nobody knows what began a transaction.
    is_attached: bool,
    open_cursors: usize,
    /// Memory of scans that are over, for the next ones.
    spare: Vec<Batch>,
    watch: Watch,
    /// Whether nothing is to be written, whatever the database allows.
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

/// What the thread that runs a statement watches it for.
#[derive(Default)]
pub(crate) struct Watch {
    /// Primary keys of rows that were inserted or updated, if somebody wants to know.
    pub written: Option<Vec<Vec<Value<'static>>>>,
    /// For `ON CONFLICT`: rows that break a unique constraint are collected here and left out.
    pub conflicts: Option<Conflicts>,
    /// What a statement in steps holds in memory, and the most that it may; `None`: no bound.
    pub held_bytes: usize,
    pub most_held_bytes: Option<usize>,
    /// As much of SQLite's memory, so that the bound of all connections holds for it.
    pub reserved: Vec<Reserved>,
}

/// What of it is reserved at a time. What is less is not.
const RESERVED_BYTES: usize = 256 << 10;

impl Watch {
    /// A statement in steps holds so much more.
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
    /// For each constraint that it breaks, that of the primary key first.
    pub found: Vec<Conflict>,
    /// The row broke another constraint.
    pub refused: Option<Failure>,
}

/// Why a row was left out.
pub(crate) struct Conflict {
    /// The columns that must be unique together.
    pub columns: Vec<String>,
    /// The primary key of the row that was there already.
    pub key: Vec<Value<'static>>,
    /// What it would be otherwise.
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
        // A panic in a callback ends the process, so nobody sees a state left half-way.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn set_options(&self, options: TransactionOptions) {
        self.state().options = Some(options);
    }

    /// From now on nothing is written, or, again, what the database allows.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// That something can be written.
    pub fn check_writable(&self) -> Outcome {
        let why = match () {
            () if self.state().read_only => "this connection is read-only",
            () if self.db.is_read_only() => "the database was opened read-only",
            () => return Ok(()),
        };
        Err(Failure::new(ffi::SQLITE_READONLY, why))
    }

    /// Runs `work` on what the current statement reads from.
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

    /// The same; also answers whether somebody wants to know which rows are written.
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

    /// Whether the current statement reads from a transaction that can write.
    pub fn is_writing(&self) -> bool {
        matches!(self.state().mode, Mode::Writing(_))
    }

    /// Notes that a scan begins: within an explicit transaction, it has to learn when that one ends.
    pub fn enter(&self, host: Host) -> Outcome {
        let is_known = host.is_autocommit() || matches!(self.state().mode, Mode::Writing(_));
        if is_known { Ok(()) } else { host.execute(JOIN) }
    }

    /// A cursor is there. Answers memory for what it reads.
    pub fn cursor_opened(&self) -> Batch {
        let mut state = self.state();
        state.open_cursors += 1;
        state.spare.pop().unwrap_or_default()
    }

    /// The last cursor gives the snapshot back, if it is a statement's.
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

    /// Gives back a snapshot that a look at the catalog has left.
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
            // SQLite does not tell tables of a savepoint that begins a transaction, but goes back to it by this number.
            state.savepoints = vec![(-1, transaction.savepoint())];
        }
        state.mode = Mode::Writing(transaction);
        Ok(())
    }

    /// Commits. Whatever comes of it, the transaction is over.
    pub fn sync(&self) -> pando::Result<()> {
        let mut state = self.state();
        state.savepoints.clear();
        if let Mode::Writing(transaction) = std::mem::take(&mut state.mode) {
            transaction.commit()?;
            state.changed_schemas = false;
        }
        Ok(())
    }

    /// Commit or rollback: nothing of the transaction is left.
    pub fn end(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.changed_schemas) {
            self.undid_schemas.store(true, Ordering::SeqCst);
        }
        state.savepoints.clear();
        state.mode = Mode::Idle;
        state.lowest = if state.is_attached { -1 } else { 0 };
    }

    /// A savepoint is going to begin a transaction.
    pub fn begins_by_savepoint(&self) {
        self.state().lowest = -1;
    }

    /// Statements are run by somebody else.
    #[cfg(feature = "loadable")]
    pub fn attach(&self) {
        let mut state = self.state();
        (state.is_attached, state.lowest) = (true, -1);
        self.is_shared.store(true, Ordering::SeqCst);
    }

    /// A statement of this crate's begins, or ends.
    pub fn set_own(&self, is_own: bool) {
        // Relaxed, here and below: read in callbacks, on this very thread.
        self.is_own.store(is_own, Ordering::Relaxed);
    }

    /// Whether the statement that runs is somebody else's, of which nothing is known but what SQLite hands on.
    #[inline]
    pub fn is_of_others(&self) -> bool {
        // Relaxed: as above.
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
        // The one below began before the transaction did: this one stands for it, too.
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

    /// The transaction changes a schema.
    pub fn changes_schemas(&self) {
        self.state().changed_schemas = true;
    }

    /// Whether a change of a schema was undone since this was asked last.
    pub fn take_undone(&self) -> bool {
        self.undid_schemas.load(Ordering::SeqCst) && self.undid_schemas.swap(false, Ordering::SeqCst)
    }

    /// What is watched for.
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
