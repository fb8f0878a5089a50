//! A connection's side of the database: its transaction, and the record of the running statement.
//!
//! * `joined.rs`: the transaction is that of SQLite's own tables, on Pando's trees.
//! * `own.rs`: SQLite is that of a program that loads Pando as an extension, and typed tables have a transaction of
//!   their own, which SQLite's callbacks begin, divide and end.

#[cfg(not(feature = "loadable"))]
mod joined;
#[cfg(feature = "loadable")]
mod own;

#[cfg(feature = "loadable")]
use own::Work;

use crate::failure::{Failure, Outcome};
use crate::vtab::{Host, Reserved};
use pando::any::{AnyDatabase, AnySnapshot, AnyTransaction};
use rows::{Batch, Value};
use rusqlite::ffi;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The table by which a transaction participates without a typed table. It has no rows. SQLite gives no table a name
/// that begins like this, and looks up its own tables first: a statement about one of them would change that one.
pub(crate) const MARKER: &str = "sqlite_pando_transaction";
/// What begins to write.
const JOIN: &std::ffi::CStr = c"DELETE FROM sqlite_pando_transaction";

/// The number of batches of scan memory that a connection keeps, and the largest size of each.
const SPARE_BATCHES: usize = 4;
const SPARE_BYTES: usize = 16 << 10;

/// The source of reads.
pub(crate) enum Source<'a> {
    Snapshot(&'a AnySnapshot),
    Transaction(&'a AnyTransaction),
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
    pub db: AnyDatabase,
    #[cfg(not(feature = "loadable"))]
    host: Host,
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
    #[cfg(feature = "loadable")]
    work: Work,
    /// The memory of finished scans, for the next ones.
    spare: Vec<Batch>,
    watch: Watch,
    /// Whether nothing may be written, regardless of the database.
    read_only: bool,
    /// Whether the transaction has changed a schema.
    changed_schemas: bool,
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
    /// Whether the statement was stopped because there is no room for more.
    pub is_full: bool,
    /// Reservations of SQLite's memory for the held bytes, so that the limit of all connections includes them.
    pub reserved: Vec<Reserved>,
}

/// The step in which that memory is reserved. Less is not reserved.
const RESERVED_BYTES: usize = 256 << 10;

impl Watch {
    /// Notes that a statement in steps holds this many more bytes.
    pub fn hold(&mut self, bytes: usize) -> Outcome {
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        let held = self.check_held();
        self.is_full |= held.is_err();
        held
    }

    fn check_held(&mut self) -> Outcome {
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
    pub fn new(db: AnyDatabase, #[cfg_attr(feature = "loadable", expect(unused))] host: Host) -> Self {
        Session {
            db,
            #[cfg(not(feature = "loadable"))]
            host,
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

    /// Runs `work` in the transaction that the current statement has begun.
    pub fn write<T>(&self, work: impl FnOnce(&mut AnyTransaction) -> Outcome<T>) -> Outcome<T> {
        self.write_row(work).map(|(done, _)| done)
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
    /// Keeps the memory of a scan.
    fn keep(&mut self, mut memory: Batch) {
        memory.clear();
        if self.spare.len() < SPARE_BATCHES && memory.capacity() <= SPARE_BYTES {
            self.spare.push(memory);
        }
    }
}
