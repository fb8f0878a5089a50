//! A connection's view of one database: its transaction, its savepoints, its trees.
//!
//! # Transactions
//! 1. *Idle*: nothing is read. No cursor exists.
//! 2. *Reading*: a statement outside of `BEGIN` reads from a snapshot, which costs less than a transaction.
//! 3. *Open*: a transaction of Pando. Within `BEGIN` it begins with the first statement, even if that only reads,
//!    because a later write must not be committed if what was read before has changed.
//! 4. *Committed*: SQLite commits in two phases; this is between them.
//! 5. *Failed*: the commit was refused, or there is no snapshot. Everything is refused until SQLite rolls back, which
//!    it does at once after a failed commit.
//!
//! *Reading* turns into *open* if the connection writes while a statement still returns rows. As in SQLite with a
//! WAL, that is refused with `SQLITE_BUSY_SNAPSHOT` if there was a commit since the snapshot, and it excludes other
//! writers up to the end of the transaction: what the statement has returned is not in the transaction's read set.
//!
//! # Trees
//! The root page of a table or an index is a number that is never used again, and the name of a table of Pando:
//! `sql:7`. Root 1 is `sqlite_schema`. The table `sql:meta` has the meta values of a database, and the last root. The
//! empty table `sql:schema-5` has the schema cookie in its name; a change of a definition renames it.

mod begin;
mod conflict;
mod definitions;
mod end;
mod repeat;
mod roots;
#[cfg(test)]
mod tests;
mod version;

pub(crate) use begin::Begin;
pub use conflict::Conflict;
pub(crate) use repeat::pause;
pub(crate) use roots::Tree;

use crate::counters::Counters;
use crate::failure::{BUSY, BUSY_FOR_NOW, CONSTRAINT_PINNED, ERROR, FULL, Failure, IOERR, Outcome};
use crate::files::{self, How, Shared};
use crate::memory::Spare;
use crate::sys::{PandoCursor, counter};
use crate::writers::{Blocked, Excluding, Ticket, Writers};
use conflict::Place;
use definitions::ensure_unless_read_only;
use pando::any::{AnyDatabase, AnySnapshot, AnyTransaction};
use pando::remote::Capability;
use pando::remote::Reason;
use pando::{Database, ErrorKind, ReadTables, Savepoint, Table, TransactionOptions, WriteTables};
use roots::{Moment, Roots};
use sqlite_format::names;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int};
use std::path::Path;
use std::sync::Arc;

/// What a connection reads from. A connection has one, and a box would be an allocation for each transaction.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(crate) enum Work {
    Idle,
    Reading(AnySnapshot),
    Open(Open),
    Committed,
    Failed(Failure),
    /// It is lent to a table of the program's, which is not to use the connection meanwhile.
    #[cfg_attr(feature = "drop-in", expect(dead_code, reason = "C has no such tables"))]
    Lent,
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct Open {
    pub transaction: AnyTransaction,
    /// Dropped after the transaction has ended.
    pub ticket: Ticket,
    /// Whether SQLite has announced writes.
    is_writing: bool,
    /// Its beginning, for `ROLLBACK TO` an outermost savepoint, which begins a transaction.
    beginning: Option<Savepoint>,
    /// Savepoints and statements, outermost first. SQLite knows them by their place.
    savepoints: Vec<Savepoint>,
    /// What it did to the counters of `AUTOINCREMENT`.
    counters: Option<Counters>,
    /// The last root before the first tree that it created: later ones are its own.
    created_after: Option<u32>,
    /// Whether its commit can meet no conflict: see [`State::secure`].
    is_secured: bool,
}

impl Open {
    fn new(transaction: AnyTransaction, ticket: Ticket) -> Open {
        let (beginning, savepoints) = (None, Vec::new());
        Open {
            transaction,
            ticket,
            is_writing: false,
            beginning,
            savepoints,
            counters: None,
            created_after: None,
            is_secured: false,
        }
    }

    /// Notes that the row with a key of a tree is written, or all its rows. `kind` says whether that is
    /// `sqlite_sequence`.
    pub(crate) fn note_counter(&mut self, kind: u8, tree: &Tree, key: &[u8]) {
        if kind == counter::OWN || kind == counter::SQL {
            self.counters_of(tree).note(kind, key);
        }
    }

    /// Returns what the transaction did to the counters, which are in this tree.
    pub(crate) fn counters_of(&mut self, tree: &Tree) -> &mut Counters {
        self.counters.get_or_insert_with(|| Counters::new(tree.table.clone()))
    }

    /// Returns whether SQLite has announced writes.
    #[cfg(not(feature = "drop-in"))]
    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing
    }
}

/// What a connection has of one database.
#[derive(Debug)]
pub(crate) struct State {
    pub db: AnyDatabase,
    pub work: Work,
    /// The table of the meta values. `None`: nothing of SQL was created in the database yet.
    meta: Option<Table>,
    roots: Roots,
    /// The cursors that are open. Their memory is SQLite's; `calls` alone looks at it.
    pub cursors: Vec<*mut PandoCursor>,
    /// Those of them that are handles of blobs.
    pub handles: Vec<*mut PandoCursor>,
    /// The one that has written to a record which was not put yet, or null.
    pub writing: *mut PandoCursor,
    /// The memory of cursors that were closed.
    pub spare: Spare,
    /// Cursors that do not allow writes to their tree by others, each with the address of its tree's version.
    pub pins: Vec<(*const PandoCursor, *const u64)>,
    /// The last error, whose message SQLite has no room for.
    pub failure: Option<Failure>,
    /// The message of the last error, as C has asked for it.
    shown: CString,
    writers: Arc<Writers>,
    /// Held from `BEGIN IMMEDIATE` on.
    excluding: Option<Excluding>,
    /// Whether the next write excludes other writers: a transaction is repeated for the last time.
    insists: bool,
    /// Whether a check reads all pages.
    pub(crate) checks_pages: bool,
    /// Whether what runs is an attempt of a transaction that is repeated after a conflict.
    pub is_repeated: bool,
    /// Whether it is repeated with everything that it returns, so that its rows can be of an attempt that fails.
    pub repeats_rows: bool,
    /// Whether each transaction begins with no tables, so that its commit replaces everything that SQL made.
    replaces: bool,
    /// Whether `BEGIN IMMEDIATE` excludes no other writer.
    pub shares_immediate: bool,
    /// Over a store, what the table of the meta values has: SQLite asks for them where nothing can fail.
    metas: Option<BTreeMap<Vec<u8>, u32>>,
    /// The schema cookie, and when it was read. `None`: it may have changed since.
    cookie: Cell<Option<(Moment, u32)>>,
    /// How many transactions and snapshots it has begun.
    begun: u64,
    /// The number of the commit whose state was read last, or of the connection's own if that came later.
    seen: Option<u64>,
    /// The key up to which a tree is counted.
    pub counted: Vec<u8>,
    /// Where the last commit met a conflict, until C has found the names.
    conflict: Option<Place>,
    /// Where the last commit met a conflict, with its names.
    pub met: Option<Conflict>,
    /// The options of transactions; the database's own if none are set.
    pub options: Option<TransactionOptions>,
    /// Whether the program opened this connection, or its database, for reading only.
    is_read_only: bool,
    /// The name that SQLite opened, as a name of its own kind: with zeros before and after it.
    name: Vec<u8>,
    /// What keeps the database open. It is the last field, because dropping it closes the database.
    shared: Option<Shared>,
}

/// The zeros before a name and after it: where SQLite keeps the parameters of a URI and the names of journals.
const NAME_BEFORE: usize = 4;
const NAME_AFTER: usize = 8;

impl State {
    /// Opens a database, and creates the tables of an empty one.
    pub(crate) fn new(db: AnyDatabase) -> Outcome<State> {
        let is_read_only = db.is_read_only();
        Self::with_name(db, "", is_read_only, None)
    }

    /// Opens the database in a directory.
    pub(crate) fn in_directory(path: &str, how: How) -> Outcome<State> {
        let (db, shared) = files::open(Path::new(path), how)?;
        let is_read_only = how.is_read_only || shared.is_forbidden;
        // Programs ask for the name after they have changed their directory, too.
        let name = std::path::absolute(path).unwrap_or_else(|_| path.into());
        Self::with_name(db.into(), &name.to_string_lossy(), is_read_only, Some(shared))
    }

    /// Opens the same database once more, for another connection. If it `replaces`, each of its transactions begins
    /// with no tables, and excludes other writers.
    pub(crate) fn again(&self, replaces: bool) -> Outcome<State> {
        let shared = self.shared.as_ref().map(Shared::again);
        let name = self.name().to_string_lossy();
        let state = Self::with_name(self.db.clone(), &name, self.is_read_only, shared)?;
        Ok(State { replaces, options: self.options, ..state })
    }

    fn with_name(db: AnyDatabase, name: &str, is_read_only: bool, shared: Option<Shared>) -> Outcome<State> {
        ensure_unless_read_only(&db)?;
        let meta = db.table(names::META)?;
        let (roots, cursors, handles, pins) = (Roots::default(), Vec::new(), Vec::new(), Vec::new());
        Ok(State {
            writers: Writers::of(&db),
            db,
            work: Work::Idle,
            meta,
            roots,
            cursors,
            handles,
            writing: std::ptr::null_mut(),
            spare: Spare::default(),
            pins,
            failure: None,
            shown: CString::default(),
            excluding: None,
            insists: false,
            checks_pages: true,
            is_repeated: false,
            repeats_rows: false,
            replaces: false,
            shares_immediate: false,
            metas: None,
            cookie: Cell::new(None),
            begun: 0,
            seen: None,
            counted: Vec::new(),
            conflict: None,
            met: None,
            options: None,
            is_read_only,
            name: [&[0; NAME_BEFORE], name.as_bytes(), &[0; NAME_AFTER]].concat(),
            shared,
        })
    }

    /// Returns the name that SQLite opened, a string of C. It is empty for a database that the program had opened.
    pub(crate) fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name[NAME_BEFORE..]).unwrap_or_default()
    }

    /// Returns whether another directory, or none, has the name that SQLite opened.
    pub(crate) fn has_moved(&self) -> bool {
        let path = self.name().to_string_lossy();
        self.shared.as_ref().is_some_and(|shared| shared.has_moved(Path::new(&*path)))
    }

    /// Returns the size of the pages in bytes, or `None` if that is not known.
    pub(crate) fn page_bytes(&self) -> Option<u64> {
        Some(self.db.native()?.stats().ok()?.page_bytes)
    }

    /// Returns whether nothing of SQL was created in the database yet. It can only be read then.
    pub(crate) fn is_bare(&self) -> bool {
        self.meta.is_none()
    }

    /// Returns whether SQL has made no table in the database yet.
    pub(crate) fn is_new(&self) -> Outcome<bool> {
        Ok(!self.has_trees(&self.db.snapshot()?)?)
    }

    /// Returns whether the database was closed by another handle.
    pub(crate) fn is_closed(&self) -> bool {
        self.db.native().is_some_and(Database::is_closed)
    }

    /// Returns whether nothing can be written.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only || self.db.is_read_only()
    }

    /// Forbids writes from the next transaction on, or allows again what the database allows.
    #[cfg(not(feature = "drop-in"))]
    pub(crate) fn set_read_only(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    /// Returns the database if it is one of the engine, for what a remote store does not have.
    fn native(&self) -> Outcome<&Database> {
        self.db.native().ok_or_else(|| Capability::Maintenance.refusal().into())
    }

    /// Gives space back to the file system, which `VACUUM` asks for.
    pub(crate) fn compact(&self) -> Outcome<()> {
        if self.is_read_only() {
            return Err(self.read_only());
        }
        self.native()?.compact(|_| {})?;
        Ok(())
    }

    /// Returns the transaction.
    #[inline]
    pub(crate) fn writable(&mut self) -> Outcome<&mut Open> {
        match &mut self.work {
            Work::Open(open) => Ok(open),
            other => Err(not_writable(other)),
        }
    }

    /// Opens savepoints until there are `count`.
    pub(crate) fn open_savepoints(&mut self, count: usize) -> Outcome<()> {
        let open = self.writable()?;
        while open.savepoints.len() < count {
            let savepoint = open.transaction.savepoint();
            open.savepoints.push(savepoint);
        }
        Ok(())
    }

    /// Releases savepoint `at` and those after it, or rolls back to it and keeps it. `None`: the beginning.
    pub(crate) fn savepoint(&mut self, is_rollback: bool, at: Option<usize>) -> Outcome<()> {
        let open = match &mut self.work {
            Work::Open(open) => open,
            Work::Lent => return Err(lent()),
            _ => return Ok(()),
        };
        if !is_rollback {
            let at = at.unwrap_or(0);
            if let Some(first) = open.savepoints.get(at) {
                open.transaction.release(first)?;
                open.savepoints.truncate(at);
            }
            return Ok(());
        }
        let target = match at {
            Some(at) => {
                open.savepoints.truncate(at + 1);
                open.savepoints.get(at)
            }
            None => {
                open.savepoints.clear();
                open.beginning.as_ref()
            }
        };
        // Without it, nothing was written since.
        if let Some(savepoint) = target {
            open.transaction.rollback_to(savepoint)?;
            let has_metas = self.metas.is_some();
            let transaction = &open.transaction;
            let remains = |name: &str| transaction.table(name).is_ok_and(|table| table.is_some());
            // `sqlite_sequence` may have been created since.
            open.counters.take_if(|counters| !remains(counters.table_name()));
            self.roots.undo(remains);
            self.forget_cookie();
            if has_metas {
                self.read_metas()?;
            }
        }
        Ok(())
    }

    /// Returns SQLite's number for the state of the transaction: 0 none, 1 reading, 2 writing.
    pub(crate) fn txn_state(&self) -> c_int {
        match &self.work {
            Work::Idle => 0,
            Work::Reading(_) | Work::Committed => 1,
            Work::Open(open) => 1 + c_int::from(open.is_writing),
            Work::Failed(_) | Work::Lent => 2,
        }
    }

    /// Checks all pages of the last committed state, unless the program has. Returns what is wrong.
    pub(crate) fn check(&self) -> Outcome<Option<String>> {
        if !self.checks_pages {
            return Ok(None);
        }
        // A remote store checks its pages itself.
        let Some(db) = self.db.native() else { return Ok(None) };
        let findings = db.check_all(|_| {})?;
        Ok(findings.wrong.first().map(ToString::to_string))
    }

    /// Refuses a write to a tree on which another cursor than `writer` is pinned.
    pub(crate) fn check_pins(&self, tree: &Tree, writer: *const PandoCursor) -> Outcome<()> {
        let version: *const u64 = tree.version.as_ptr();
        if self.pins.iter().any(|&(pinned, of)| of == version && pinned != writer) {
            return Err(Failure::new(CONSTRAINT_PINNED, "constraint failed"));
        }
        Ok(())
    }

    /// Notes a failure, and returns its code.
    ///
    /// After some codes SQLite undoes the whole transaction, and statements that follow would commit by themselves. A
    /// connection to a store can be lost at any statement, so over one these codes are not used: the transaction stays
    /// until the program ends it, and its commit fails.
    pub(crate) fn note(&mut self, mut failure: Failure) -> c_int {
        if self.db.native().is_none() && [IOERR, FULL].contains(&failure.code) {
            let kind = if failure.code == FULL { ErrorKind::Full } else { ErrorKind::Io };
            failure.reason.get_or_insert(Reason::Other(kind));
            failure.code = ERROR;
        }
        let code = failure.code;
        self.failure = Some(failure);
        code
    }

    /// Takes the noted failure of a remote store, if SQLite's code stands for it. The code for exhausted memory does,
    /// too: some functions of SQLite's can return no other.
    #[cfg(not(feature = "drop-in"))]
    pub(crate) fn take_failure_of_store(&mut self, code: c_int) -> Option<Failure> {
        let is_it = |failure: &mut Failure| {
            failure.reason.is_some() && [failure.code, crate::failure::NOMEM].contains(&code)
        };
        self.failure.take_if(is_it)
    }

    /// Returns the message of the noted failure as a string of C, if SQLite's code stands for that failure, or if it is
    /// 0. The string is valid until the next call.
    pub(crate) fn explain(&mut self, code: c_int) -> Option<&CStr> {
        let failure = self.failure.as_ref().filter(|failure| code == 0 || failure.code == code)?;
        self.shown = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
        Some(&self.shown)
    }
}

#[cold]
fn not_writable(work: &Work) -> Failure {
    match work {
        Work::Failed(failure) => failure.clone(),
        Work::Lent => lent(),
        _ => Failure::new(crate::failure::INTERNAL, "no transaction"),
    }
}

/// Returns the failure of what uses a connection whose transaction is lent.
#[cold]
pub(crate) fn lent() -> Failure {
    Failure::new(crate::failure::INTERNAL, "a table of the program's uses its own connection")
}

impl From<Blocked> for Failure {
    fn from(blocked: Blocked) -> Failure {
        match blocked {
            Blocked::Excluded => busy(),
            Blocked::ForNow => Failure::new(BUSY_FOR_NOW, String::new()),
        }
    }
}

fn busy() -> Failure {
    let message = "database is locked: another connection excludes other writers, as BEGIN IMMEDIATE does; \
                   try again after its transaction, or set a busy timeout";
    Failure::new(BUSY, message)
}

/// Calls with `$reader` bound to what is read from, a snapshot or a transaction.
macro_rules! read {
    ($state:expr, $reader:ident => $then:expr) => {
        match &$state.work {
            $crate::state::Work::Reading($reader) => $then,
            $crate::state::Work::Open(open) => {
                let $reader = &open.transaction;
                $then
            }
            $crate::state::Work::Failed(failure) => Err(failure.clone()),
            $crate::state::Work::Lent => Err($crate::state::lent()),
            $crate::state::Work::Idle | $crate::state::Work::Committed => {
                Err($crate::failure::Failure::new($crate::failure::INTERNAL, "no transaction"))
            }
        }
    };
}
pub(crate) use read;
