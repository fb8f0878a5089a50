//! SQLite's C interface for virtual tables, for a Rust program that adds its own tables to a
//! [`Connection`](crate::Connection); and the connection's transaction, for the reads and writes of these tables.
//!
//! The functions are those of the SQLite that is compiled into this crate, whose symbols have the prefix `pando_`. The
//! types and constants are those of [`libsqlite3_sys`], whose functions belong to another SQLite: never pass a handle
//! from one to the other. [SQLite's documentation](https://www.sqlite.org/vtab.html) describes the interface.
//!
//! # One transaction
//! A statement that names a virtual table begins to read or to write in the main database before it calls the table. So
//! a table that reads from [`Joined::source`] and writes to [`Joined::transaction`] needs nothing else: its functions
//! for transactions and savepoints do nothing, one commit has what was written to it and to the tables of SQL, and a
//! statement that fails is undone in both.

pub use libsqlite3_sys::{
    SQLITE_ABORT, SQLITE_AUTH, SQLITE_BLOB, SQLITE_BUSY, SQLITE_BUSY_SNAPSHOT, SQLITE_CANTOPEN,
    SQLITE_CONSTRAINT, SQLITE_CORRUPT, SQLITE_DBCONFIG_DEFENSIVE, SQLITE_ERROR, SQLITE_FAIL, SQLITE_FLOAT,
    SQLITE_FULL, SQLITE_IGNORE, SQLITE_INDEX_CONSTRAINT_EQ, SQLITE_INDEX_CONSTRAINT_GE,
    SQLITE_INDEX_CONSTRAINT_GT, SQLITE_INDEX_CONSTRAINT_IS, SQLITE_INDEX_CONSTRAINT_ISNULL,
    SQLITE_INDEX_CONSTRAINT_LE, SQLITE_INDEX_CONSTRAINT_LIMIT, SQLITE_INDEX_CONSTRAINT_LT,
    SQLITE_INDEX_CONSTRAINT_OFFSET, SQLITE_INDEX_SCAN_UNIQUE, SQLITE_INTEGER, SQLITE_INTERRUPT, SQLITE_IOERR,
    SQLITE_LOCKED, SQLITE_MISMATCH, SQLITE_NOMEM, SQLITE_NOTADB, SQLITE_NULL, SQLITE_OK, SQLITE_READONLY,
    SQLITE_REPLACE, SQLITE_ROLLBACK, SQLITE_SCHEMA, SQLITE_TEXT, SQLITE_TOOBIG, SQLITE_TRANSIENT,
    SQLITE_UTF8, SQLITE_VTAB_CONSTRAINT_SUPPORT, sqlite3, sqlite3_context, sqlite3_index_info, sqlite3_int64,
    sqlite3_module, sqlite3_stmt, sqlite3_value, sqlite3_vtab, sqlite3_vtab_cursor,
};

use crate::connection::Error;
use crate::failure::{Failure, INTERNAL, READONLY};
use crate::state::{State, Work, lent};
use crate::sys;
use pando::ErrorKind;
use pando::any::{AnySnapshot, AnyTransaction};
use pando::remote::Reason;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::mem;
use std::time::Duration;

/// A function with which SQLite frees memory. [`SQLITE_TRANSIENT`] makes SQLite copy the bytes.
// SAFETY: SQLite alone calls it.
pub type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
/// A function that SQLite calls at the end of an aggregate.
// SAFETY: SQLite alone calls it.
pub type FinishCallback = Option<unsafe extern "C" fn(*mut sqlite3_context)>;
/// A function that SQLite calls for each call of a function of SQL.
// SAFETY: SQLite alone calls it.
pub type FunctionCallback =
    Option<unsafe extern "C" fn(*mut sqlite3_context, c_int, *mut *mut sqlite3_value)>;
/// A function that SQLite calls for each row of `sqlite3_exec`.
// SAFETY: SQLite alone calls it.
pub type RowCallback =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int>;

// SAFETY: the signatures are those of SQLite's header.
#[allow(missing_docs, reason = "SQLite's documentation has each under its name")]
unsafe extern "C" {
    #[link_name = "pando_sqlite3_create_module_v2"]
    pub fn sqlite3_create_module_v2(
        db: *mut sqlite3,
        name: *const c_char,
        module: *const sqlite3_module,
        context: *mut c_void,
        destroy: Destructor,
    ) -> c_int;
    #[link_name = "pando_sqlite3_create_function_v2"]
    pub fn sqlite3_create_function_v2(
        db: *mut sqlite3,
        name: *const c_char,
        arguments: c_int,
        encoding: c_int,
        context: *mut c_void,
        call: FunctionCallback,
        step: FunctionCallback,
        finish: FinishCallback,
        destroy: Destructor,
    ) -> c_int;
    #[link_name = "pando_sqlite3_user_data"]
    pub fn sqlite3_user_data(context: *mut sqlite3_context) -> *mut c_void;
    #[link_name = "pando_sqlite3_result_error"]
    pub fn sqlite3_result_error(context: *mut sqlite3_context, message: *const c_char, bytes: c_int);
    #[link_name = "pando_sqlite3_declare_vtab"]
    pub fn sqlite3_declare_vtab(db: *mut sqlite3, sql: *const c_char) -> c_int;
    #[link_name = "pando_sqlite3_is_interrupted"]
    pub fn sqlite3_is_interrupted(db: *mut sqlite3) -> c_int;
    #[link_name = "pando_sqlite3_vtab_config"]
    pub fn sqlite3_vtab_config(db: *mut sqlite3, operation: c_int, ...) -> c_int;
    #[link_name = "pando_sqlite3_db_config"]
    pub fn sqlite3_db_config(db: *mut sqlite3, operation: c_int, ...) -> c_int;
    #[link_name = "pando_sqlite3_vtab_on_conflict"]
    pub fn sqlite3_vtab_on_conflict(db: *mut sqlite3) -> c_int;
    #[link_name = "pando_sqlite3_vtab_collation"]
    pub fn sqlite3_vtab_collation(info: *mut sqlite3_index_info, at: c_int) -> *const c_char;
    #[link_name = "pando_sqlite3_vtab_in"]
    pub fn sqlite3_vtab_in(info: *mut sqlite3_index_info, at: c_int, handle: c_int) -> c_int;
    #[link_name = "pando_sqlite3_result_null"]
    pub fn sqlite3_result_null(context: *mut sqlite3_context);
    #[link_name = "pando_sqlite3_result_int64"]
    pub fn sqlite3_result_int64(context: *mut sqlite3_context, value: sqlite3_int64);
    #[link_name = "pando_sqlite3_result_double"]
    pub fn sqlite3_result_double(context: *mut sqlite3_context, value: f64);
    #[link_name = "pando_sqlite3_result_text64"]
    pub fn sqlite3_result_text64(
        context: *mut sqlite3_context,
        text: *const c_char,
        bytes: u64,
        destructor: Destructor,
        encoding: c_uchar,
    );
    #[link_name = "pando_sqlite3_result_blob64"]
    pub fn sqlite3_result_blob64(
        context: *mut sqlite3_context,
        bytes: *const c_void,
        len: u64,
        destructor: Destructor,
    );
    #[link_name = "pando_sqlite3_value_type"]
    pub fn sqlite3_value_type(value: *mut sqlite3_value) -> c_int;
    #[link_name = "pando_sqlite3_value_int64"]
    pub fn sqlite3_value_int64(value: *mut sqlite3_value) -> sqlite3_int64;
    #[link_name = "pando_sqlite3_value_double"]
    pub fn sqlite3_value_double(value: *mut sqlite3_value) -> f64;
    #[link_name = "pando_sqlite3_value_text"]
    pub fn sqlite3_value_text(value: *mut sqlite3_value) -> *const c_uchar;
    #[link_name = "pando_sqlite3_value_blob"]
    pub fn sqlite3_value_blob(value: *mut sqlite3_value) -> *const c_void;
    #[link_name = "pando_sqlite3_value_bytes"]
    pub fn sqlite3_value_bytes(value: *mut sqlite3_value) -> c_int;
    #[link_name = "pando_sqlite3_value_encoding"]
    pub fn sqlite3_value_encoding(value: *mut sqlite3_value) -> c_int;
    #[link_name = "pando_sqlite3_malloc64"]
    pub fn sqlite3_malloc64(bytes: u64) -> *mut c_void;
    #[link_name = "pando_sqlite3_free"]
    pub fn sqlite3_free(memory: *mut c_void);
    #[link_name = "pando_sqlite3_exec"]
    pub fn sqlite3_exec(
        db: *mut sqlite3,
        sql: *const c_char,
        callback: RowCallback,
        context: *mut c_void,
        message: *mut *mut c_char,
    ) -> c_int;
    #[link_name = "pando_sqlite3_errmsg"]
    pub fn sqlite3_errmsg(db: *mut sqlite3) -> *const c_char;
    #[link_name = "pando_sqlite3_get_autocommit"]
    pub fn sqlite3_get_autocommit(db: *mut sqlite3) -> c_int;
    #[link_name = "pando_sqlite3_last_insert_rowid"]
    pub fn sqlite3_last_insert_rowid(db: *mut sqlite3) -> sqlite3_int64;
    #[link_name = "pando_sqlite3_changes"]
    pub fn sqlite3_changes(db: *mut sqlite3) -> c_int;
    #[link_name = "pando_sqlite3_next_stmt"]
    pub fn sqlite3_next_stmt(db: *mut sqlite3, statement: *mut sqlite3_stmt) -> *mut sqlite3_stmt;
    #[link_name = "pando_sqlite3_stmt_busy"]
    pub fn sqlite3_stmt_busy(statement: *mut sqlite3_stmt) -> c_int;
    #[link_name = "pando_sqlite3_stmt_readonly"]
    pub fn sqlite3_stmt_readonly(statement: *mut sqlite3_stmt) -> c_int;
    #[link_name = "pando_sqlite3_column_count"]
    pub fn sqlite3_column_count(statement: *mut sqlite3_stmt) -> c_int;
}

/// The source from which a statement reads.
#[derive(Clone, Copy, Debug)]
pub enum Source<'t> {
    /// A snapshot, for a statement outside of `BEGIN` that only reads, and for a read-only connection.
    Snapshot(&'t AnySnapshot),
    /// A transaction, for all other statements.
    Transaction(&'t AnyTransaction),
}

/// The transaction of a connection's main database, lent to [`join`].
#[derive(Debug)]
pub struct Joined<'t> {
    work: &'t mut Work,
    is_written: &'t mut bool,
}

impl Joined<'_> {
    /// Returns the source from which the running statement reads. Returns `None` if no statement that uses the main
    /// database is running, for example because SQLite is preparing one.
    ///
    /// # Errors
    /// The error of a transaction that failed and is not rolled back yet.
    pub fn source(&self) -> Result<Option<Source<'_>>, Error> {
        match &*self.work {
            Work::Idle | Work::Committed => Ok(None),
            Work::Reading(snapshot) => Ok(Some(Source::Snapshot(snapshot))),
            Work::Open(open) => Ok(Some(Source::Transaction(&open.transaction))),
            Work::Failed(failure) => Err(failure.clone().into()),
            Work::Lent => Err(lent().into()),
        }
    }

    /// Returns the transaction to which the running statement writes. Do not use its savepoints after the call of
    /// [`join`]: SQLite releases and undoes its own around them. Do not write to tables that SQLite made either:
    /// cursors of running statements have already read rows of them, and would return these rows.
    ///
    /// # Errors
    /// `SQLITE_READONLY` if the running statement only reads; the error of a transaction that failed and is not rolled
    /// back yet.
    pub fn transaction(&mut self) -> Result<&mut AnyTransaction, Error> {
        match &mut *self.work {
            Work::Open(open) if open.is_writing() => {
                *self.is_written = true;
                Ok(&mut open.transaction)
            }
            Work::Failed(failure) => Err(failure.clone().into()),
            _ => Err(Error::new(READONLY, "the running statement only reads")),
        }
    }
}

/// Lends the transaction of a connection's main database to `work`. Call it from a function of a virtual table or from
/// a function of SQL. Calls of the connection within `work` fail.
///
/// # Errors
/// An error if the main database is not Pando's.
///
/// # Safety
/// `db` is an open connection, and stays open during the call: that of
/// [`Connection::as_ptr`](crate::Connection::as_ptr). The caller is in a callback of this connection, or in the only
/// thread that uses it.
pub unsafe fn join<T>(db: *mut sqlite3, work: impl FnOnce(Joined<'_>) -> T) -> Result<T, Error> {
    let not_ours = || Failure::new(INTERNAL, "the main database of the connection is not Pando's");
    // SAFETY: the connection is open, as the caller promises, and its state is alive. Nothing else uses that: no
    // function of `calls` is running, because none of them calls back.
    let state = unsafe { sys::pando_state(db.cast(), 0).cast::<State>().as_mut() }.ok_or_else(not_ours)?;
    if let Work::Lent = state.work {
        return Err(lent().into());
    }
    // The state is not borrowed during the call: what uses the connection meanwhile finds that its transaction is lent.
    let mut given_back = GivenBack { db, work: mem::replace(&mut state.work, Work::Lent), is_written: false };
    let GivenBack { work: lent, is_written, .. } = &mut given_back;
    Ok(work(Joined { work: lent, is_written }))
}

/// Returns the schema cookie as the connection's transaction sees it, or, if none has begun, that of the last commit.
/// Every change of a definition changes it. It is 0 before SQL has created anything. Within a transaction only the
/// first call reads.
///
/// # Errors
/// An error if the main database is not Pando's; errors of reading; the error of a transaction that failed and is not
/// rolled back yet.
///
/// # Safety
/// As for [`join`].
pub unsafe fn schema_cookie(db: *mut sqlite3) -> Result<u32, Error> {
    let not_ours = || Failure::new(INTERNAL, "the main database of the connection is not Pando's");
    // SAFETY: as in `join`.
    let state = unsafe { sys::pando_state(db.cast(), 0).cast::<State>().as_mut() }.ok_or_else(not_ours)?;
    Ok(state.schema_cookie()?)
}

/// Commits a transaction of the same database beside the connection's own, from a function of a virtual table. If the
/// connection excludes other writers at the moment, an ordinary commit would wait for the end of the transaction that
/// is calling. If another connection excludes writers until the end of its transaction, this waits up to `patience`. Do
/// not call it within [`join`].
///
/// # Errors
/// Those of [`AnyTransaction::commit`]; `Locked` if the other connection still excludes writers; `Invalid` if the main
/// database is not Pando's.
///
/// # Safety
/// As for [`join`].
pub unsafe fn commit_beside(
    db: *mut sqlite3,
    transaction: AnyTransaction,
    patience: Duration,
) -> pando::Result<()> {
    // SAFETY: as in `join`. The commit does not call back.
    let state = unsafe { sys::pando_state(db.cast(), 0).cast::<State>().as_ref() };
    let state =
        state.ok_or_else(|| pando::Error::new(ErrorKind::Invalid, "the main database is not Pando's"))?;
    state.commit_beside(transaction, patience)
}

/// Stores what the failure of a virtual table says about the remote store in which the database is, so that
/// [`Error::reason`](crate::Error::reason) returns it. `code` and `message` must be those that the table returns. Do
/// not call it within [`join`].
///
/// # Safety
/// As for [`join`].
pub unsafe fn note(db: *mut sqlite3, code: c_int, message: &str, reason: Reason) {
    // SAFETY: as in `join`.
    let state = unsafe { sys::pando_state(db.cast(), 0).cast::<State>().as_mut() };
    if let Some(state) = state {
        state.note(Failure { reason: Some(reason), ..Failure::new(code, message) });
    }
}

/// Returns whether another handle has closed the main database. Closing interrupts the connection, so
/// `SQLITE_INTERRUPT` can mean that the database is closed.
///
/// # Safety
/// As for [`join`].
#[must_use]
pub unsafe fn is_closed(db: *mut sqlite3) -> bool {
    // SAFETY: as in `join`.
    let state = unsafe { sys::pando_state(db.cast(), 0).cast::<State>().as_ref() };
    state.is_some_and(State::is_closed)
}

/// Returns whether a trigger runs the statement that calls a function or a virtual table.
///
/// # Safety
/// As for [`join`].
#[must_use]
pub unsafe fn is_in_trigger(db: *mut sqlite3) -> bool {
    // SAFETY: the connection is open, and this is in a callback of it, in the thread that uses it.
    unsafe { sys::pando_is_in_trigger(db.cast()) != 0 }
}

/// Makes SQLite find out again which columns views have. Call it after you registered a virtual table again with other
/// columns: SQLite finds out once for each view, and would otherwise read columns that the table no longer has.
///
/// # Safety
/// As for [`join`], and no statement is being prepared: within a callback, it is one of a statement that is running.
pub unsafe fn forget_view_columns(db: *mut sqlite3) {
    // SAFETY: the connection is open, and nothing that is being compiled uses the columns, as the caller promises.
    unsafe { sys::pando_forget_view_columns(db.cast()) };
}

/// A transaction that is lent. Dropping this gives it back, also after a panic.
struct GivenBack {
    db: *mut sqlite3,
    work: Work,
    is_written: bool,
}

impl Drop for GivenBack {
    fn drop(&mut self) {
        // SAFETY: as in `join`, which made this.
        let state = unsafe { sys::pando_state(self.db.cast(), 0).cast::<State>().as_mut() };
        // If SQLite has rolled back meanwhile, the transaction has ended.
        if let Some(state) = state
            && let Work::Lent = state.work
        {
            state.work = mem::replace(&mut self.work, Work::Idle);
            if self.is_written {
                // Definitions may have changed.
                state.forget_cookie();
            }
        }
    }
}
