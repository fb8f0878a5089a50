//! The connection that calls, its memory, and features that depend on its version of SQLite.

use super::OnConflict;
use crate::failure::{Failure, Outcome};
use crate::machine::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// The connection that calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host(pub(super) *mut ffi::sqlite3);

// SAFETY: a connection may be called from any thread, by one at a time; a `Host` is used within a call of its own
// connection only, and so by the owner of that connection.
unsafe impl Send for Host {}

// SAFETY: as above: shared or not, it is used by the thread alone that is in a call of its connection.
unsafe impl Sync for Host {}

impl Host {
    /// The connection itself, for as long as it lives.
    #[cfg(feature = "loadable")]
    pub fn new(connection: &rusqlite::Connection) -> Self {
        // SAFETY: the handle is kept within tables of the connection, and used while that is open.
        Host(unsafe { connection.handle() })
    }

    /// The connection itself, for as long as it lives.
    #[cfg(not(feature = "loadable"))]
    pub fn new(connection: &crate::machine::Connection) -> Self {
        Host(connection.handle())
    }

    /// Lends the connection's transaction to `work`. Statements of this connection fail meanwhile.
    #[cfg(not(feature = "loadable"))]
    pub fn join<T>(self, work: impl FnOnce(ffi::Joined<'_>) -> T) -> Outcome<T> {
        // SAFETY: a host is used by the owner of its connection, in whose call this is, so that it is open and stays
        // so.
        unsafe { ffi::join(self.0, work) }.map_err(Failure::from)
    }

    /// Returns the schema cookie that the connection sees: see [`ffi::schema_cookie`].
    #[cfg(not(feature = "loadable"))]
    pub fn schema_cookie(self) -> Outcome<u32> {
        // SAFETY: as in `join`.
        unsafe { ffi::schema_cookie(self.0) }.map_err(Failure::from)
    }

    /// Commits a transaction beside the connection's own, also while that excludes others.
    #[cfg(not(feature = "loadable"))]
    pub fn commit_beside(self, transaction: pando::any::AnyTransaction) -> pando::Result<()> {
        // SAFETY: as in `join`.
        unsafe { ffi::commit_beside(self.0, transaction, crate::machine::BUSY_TIMEOUT) }
    }

    /// Notes what a failure of a table says about the store.
    #[cfg(not(feature = "loadable"))]
    pub fn note(self, code: c_int, message: &str, reason: pando::remote::Reason) {
        // SAFETY: as in `join`.
        unsafe { ffi::note(self.0, code, message, reason) }
    }

    /// Returns whether a trigger calls the table. Within another program's SQLite, which does not show it, the result
    /// is always false.
    pub fn is_in_trigger(self) -> bool {
        #[cfg(feature = "loadable")]
        return false;
        // SAFETY: as in `join`: this is called by a callback of the table.
        #[cfg(not(feature = "loadable"))]
        unsafe {
            ffi::is_in_trigger(self.0)
        }
    }

    /// Forbids statements to write the tables in which virtual tables of SQLite's, such as FTS5, keep their rows: wrong
    /// bytes there are errors for all later readers. Other programs decide that themselves.
    pub fn protect(self) -> Outcome {
        #[cfg(feature = "loadable")]
        return Ok(());
        #[cfg(not(feature = "loadable"))]
        {
            let (on, no_result) = (1 as c_int, ptr::null_mut::<c_int>());
            // SAFETY: a host is used by the owner of its connection; this operation takes an `int`, and an address or
            // null.
            let code =
                unsafe { ffi::sqlite3_db_config(self.0, ffi::SQLITE_DBCONFIG_DEFENSIVE, on, no_result) };
            if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.failure(code)) }
        }
    }

    /// Makes SQLite find out again which columns views have, after tables were registered. Another program's SQLite
    /// has no function for it.
    pub fn forget_view_columns(self) {
        // SAFETY: as in `join`; tables are registered before a statement is prepared, and while one is running.
        #[cfg(not(feature = "loadable"))]
        unsafe {
            ffi::forget_view_columns(self.0);
        }
    }

    /// Returns whether no explicit transaction is open.
    pub fn is_autocommit(self) -> bool {
        // SAFETY: a host is handed out in callbacks, and kept by tables, which end before their connection.
        unsafe { ffi::sqlite3_get_autocommit(self.0) != 0 }
    }

    /// Runs statements on the connection, from within a call.
    pub fn execute(self, sql: &CStr) -> Outcome {
        // SAFETY: as above; `sql` ends with a NUL; no callback, and no message is asked for.
        let code = unsafe { ffi::sqlite3_exec(self.0, sql.as_ptr(), None, ptr::null_mut(), ptr::null_mut()) };
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.failure(code)) }
    }

    /// Runs a query on the connection, from within a call, and returns its rows: values as texts, `None` for null.
    /// Bytes that are not UTF-8 are replaced.
    #[cfg(not(feature = "loadable"))]
    pub fn query(self, sql: &CStr) -> Outcome<Vec<Vec<Option<String>>>> {
        let mut rows: Vec<Vec<Option<String>>> = Vec::new();
        let (context, none) = ((&raw mut rows).cast(), ptr::null_mut());
        // SAFETY: as above; `collect` gets the address of `rows`, which lives longer than the call.
        let code = unsafe { ffi::sqlite3_exec(self.0, sql.as_ptr(), Some(collect), context, none) };
        if code == ffi::SQLITE_OK { Ok(rows) } else { Err(self.failure(code)) }
    }

    /// Returns the failure of a statement that was stopped: by an interrupt, or because the database was closed.
    #[cold]
    pub fn stopped(self) -> Failure {
        // SAFETY: as in `join`.
        #[cfg(not(feature = "loadable"))]
        if unsafe { ffi::is_closed(self.0) } {
            return pando::Error::new(pando::ErrorKind::Closed, "the database is closed; open it again")
                .into();
        }
        Failure::new(ffi::SQLITE_INTERRUPT, "interrupted")
    }

    /// Returns the failure of the last call.
    fn failure(self, code: c_int) -> Failure {
        if code & 0xff == ffi::SQLITE_INTERRUPT {
            return self.stopped();
        }
        // SAFETY: as above; SQLite returns a string that is valid until the next call, and it is copied.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.0)) };
        Failure::new(code, message.to_string_lossy())
    }

    /// Returns the id of the row that was inserted last.
    pub(super) fn last_insert_row_id(self) -> i64 {
        // SAFETY: as above.
        unsafe { ffi::sqlite3_last_insert_rowid(self.0) }
    }

    /// Returns how many rows the last writing statement has changed.
    pub fn changes(self) -> i64 {
        // SAFETY: as above.
        i64::from(unsafe { ffi::sqlite3_changes(self.0) })
    }

    /// Returns whether the writing statement has `RETURNING`. SQLite shows the values that it was given, and not what a
    /// virtual table stored.
    pub fn is_returning(self) -> bool {
        // SAFETY: as above; the statements of an open connection, one after the other, until there is none.
        unsafe {
            let mut statement = ffi::sqlite3_next_stmt(self.0, ptr::null_mut());
            while !statement.is_null() {
                let is_it = ffi::sqlite3_stmt_busy(statement) != 0
                    && ffi::sqlite3_stmt_readonly(statement) == 0
                    && ffi::sqlite3_column_count(statement) > 0;
                if is_it {
                    return true;
                }
                statement = ffi::sqlite3_next_stmt(self.0, statement);
            }
        }
        false
    }

    /// Returns how the writing statement handles a row that breaks a constraint.
    pub(super) fn on_conflict(self) -> OnConflict {
        // SAFETY: called within `xUpdate`, as the interface asks.
        match unsafe { ffi::sqlite3_vtab_on_conflict(self.0) } {
            ffi::SQLITE_ROLLBACK => OnConflict::Rollback,
            ffi::SQLITE_IGNORE => OnConflict::Ignore,
            ffi::SQLITE_FAIL => OnConflict::Fail,
            ffi::SQLITE_REPLACE => OnConflict::Replace,
            _ => OnConflict::Abort,
        }
    }
}

/// Keeps a row of [`Host::query`].
///
/// # Safety
/// Called by `sqlite3_exec` with the address of the rows, and with `count` values, each null or ended by a NUL.
#[cfg(not(feature = "loadable"))]
unsafe extern "C" fn collect(
    rows: *mut c_void,
    count: c_int,
    values: *mut *mut c_char,
    _names: *mut *mut c_char,
) -> c_int {
    let text = |at: usize| {
        // SAFETY: as the caller promises.
        unsafe {
            let value = *values.add(at);
            (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    };
    let row = (0..usize::try_from(count).unwrap_or(0)).map(text).collect();
    // SAFETY: as the caller promises; nothing else uses the rows during the call.
    unsafe { (*rows.cast::<Vec<Vec<Option<String>>>>()).push(row) };
    ffi::SQLITE_OK
}

/// Memory that counts as SQLite's, so that its limits (`limit_memory`) include it. It is allocated by SQLite and not
/// used.
pub(crate) struct Reserved(*mut c_void);

// SAFETY: it is only given back, which may be done by any thread.
unsafe impl Send for Reserved {}

impl Reserved {
    /// Reserves `bytes`; returns `None` if there is no room for them.
    pub fn new(bytes: usize) -> Option<Self> {
        // SAFETY: it allocates, or returns null.
        let start = unsafe { ffi::sqlite3_malloc64(u64::try_from(bytes).ok()?) };
        (!start.is_null()).then_some(Reserved(start))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: allocated by SQLite, and freed once.
        unsafe { ffi::sqlite3_free(self.0) };
    }
}

/// Returns a copy of `text` that SQLite frees; null if there is no memory.
pub(super) fn owned_string(text: &str) -> *mut c_char {
    let text = text.split('\0').next().unwrap_or_default();
    let Ok(count) = u64::try_from(text.len() + 1) else { return ptr::null_mut() };
    // SAFETY: the copy is as long as what was allocated, and ends with a NUL.
    unsafe {
        let copy: *mut u8 = ffi::sqlite3_malloc64(count).cast();
        if !copy.is_null() {
            ptr::copy_nonoverlapping(text.as_ptr(), copy, text.len());
            *copy.add(text.len()) = 0;
        }
        copy.cast()
    }
}

/// Declares that the table being connected handles constraints.
///
/// # Safety
/// Called within `xConnect` of this connection.
pub(super) unsafe fn has_constraints(db: *mut ffi::sqlite3) -> c_int {
    #[cfg(not(feature = "loadable"))]
    let config = ffi::sqlite3_vtab_config;
    // The bindings' own function for extensions cannot pass the third argument.
    #[cfg(feature = "loadable")]
    let Some(config) = loadable::VTAB_CONFIG.get().copied() else { return ffi::SQLITE_MISUSE };
    // SAFETY: as the caller promises; this operation takes an `int`.
    unsafe { config(db, ffi::SQLITE_VTAB_CONSTRAINT_SUPPORT, 1 as c_int) }
}

/// Returns the version of the SQLite that runs this, which determines its features. That of the trees is the bundled
/// one, too.
pub(crate) fn version_number() -> c_int {
    #[cfg(feature = "loadable")]
    if let Some(version) = loadable::VERSION.get() {
        return *version;
    }
    rusqlite::version_number()
}

/// The functions of the SQLite that loads Pando as an extension.
#[cfg(feature = "loadable")]
pub mod loadable {
    use super::{c_int, ffi};
    use std::sync::OnceLock;

    /// The C function `sqlite3_vtab_config`.
    ///
    /// # Safety
    /// Called within `xConnect`, with what its operation asks for.
    type VtabConfig = unsafe extern "C" fn(*mut ffi::sqlite3, c_int, ...) -> c_int;

    pub(super) static VTAB_CONFIG: OnceLock<VtabConfig> = OnceLock::new();
    pub(super) static VERSION: OnceLock<c_int> = OnceLock::new();

    /// Stores what [`crate::Sql::attach`] needs besides what `rusqlite` stores, and the version of the SQLite that
    /// loads the extension. `api` may claim a newer version.
    ///
    /// # Safety
    /// `api` is what SQLite hands to an extension's entry point.
    pub unsafe fn set_api(api: *const ffi::sqlite3_api_routines, version: c_int) {
        VERSION.get_or_init(|| version);
        // SAFETY: as the caller promises.
        if let Some(config) = unsafe { api.as_ref() }.and_then(|api| api.vtab_config) {
            VTAB_CONFIG.get_or_init(|| config);
        }
    }
}
