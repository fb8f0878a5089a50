//! What C and Rust share. The layouts are those of `c/glue.c`.

#[cfg(not(feature = "drop-in"))]
use std::ffi::c_char;
use std::ffi::{c_int, c_void};

/// One row of a batch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Row {
    /// The rowid. It is 0 in an index.
    pub rowid: i64,
    /// The record, in what the batch keeps, and its length.
    pub record: *const u8,
    pub bytes: u32,
    /// How many bytes of the record are there: all, or its beginning.
    pub here: u32,
}

impl Row {
    /// Returns a row whose record is there as a whole.
    #[inline]
    pub(crate) fn whole(rowid: i64, record: *const u8, bytes: u32) -> Row {
        Row { rowid, record, bytes, here: bytes }
    }
}

/// Where a cursor is: see the constants of the same names in `c/glue.c`.
pub(crate) mod place {
    pub(crate) const EOF: u8 = 0;
    pub(crate) const VALID: u8 = 1;
    pub(crate) const SAVED: u8 = 2;
    pub(crate) const GAP: u8 = 3;
    pub(crate) const MISS: u8 = 4;
    pub(crate) const FAULT: u8 = 5;
}

/// What a cursor has to do with `sqlite_sequence`: see the constants of the same names in `c/glue.c`.
pub(crate) mod counter {
    pub(crate) const NONE: u8 = 0;
    pub(crate) const SQL: u8 = 1;
    pub(crate) const OWN: u8 = 2;
}

/// The part of a cursor that both use.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PandoCursor {
    pub kind: u8,
    pub place: u8,
    pub is_write: u8,
    pub is_backward: u8,
    pub is_at_end: u8,
    pub counter: u8,
    pub fault: c_int,
    pub row: u32,
    pub row_count: u32,
    pub rows: *const Row,
    pub stamp: u64,
    pub version: *const u64,
    pub own: *mut c_void,
    transferred: *mut u8,
    transferred_bytes: i64,
    transferred_rowid: i64,
    offset: i64,
}

/// A value of a key that is sought.
#[repr(C)]
pub(crate) struct PandoValue {
    pub kind: c_int,
    pub integer: i64,
    pub real: f64,
    pub bytes: *const u8,
    pub len: i64,
}

/// Types that only C looks into.
#[cfg(not(feature = "drop-in"))]
#[repr(C)]
pub(crate) struct Sqlite3 {
    _private: [u8; 0],
}
#[cfg(not(feature = "drop-in"))]
#[repr(C)]
pub(crate) struct Stmt {
    _private: [u8; 0],
}
#[repr(C)]
pub(crate) struct UnpackedRecord {
    _private: [u8; 0],
}

/// Decides about an action of a statement.
// SAFETY: what may call it is argued where it is defined.
#[cfg(not(feature = "drop-in"))]
pub(crate) type Authorize = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *const c_char,
    *const c_char,
    *const c_char,
    *const c_char,
) -> c_int;
/// Returns whether to stop, not 0.
// SAFETY: what may call it is argued where it is defined.
#[cfg(not(feature = "drop-in"))]
pub(crate) type Progress = unsafe extern "C" fn(*mut c_void) -> c_int;

// SAFETY: the signatures are those of `c/glue.c`.
#[cfg(not(feature = "drop-in"))]
unsafe extern "C" {
    pub(crate) fn pando_state(db: *mut Sqlite3, at: c_int) -> *mut c_void;
    pub(crate) fn pando_initialize(counts_memory: c_int) -> c_int;
    pub(crate) fn pando_running(db: *mut Sqlite3) -> c_int;
    pub(crate) fn pando_is_in_trigger(db: *mut Sqlite3) -> c_int;
    pub(crate) fn pando_forget_view_columns(db: *mut Sqlite3);
    pub(crate) fn pando_forget_interrupt(db: *mut Sqlite3);
}

// SAFETY: the signatures are those of `c/glue.c`.
unsafe extern "C" {
    pub(crate) fn pando_bt_field(record: *const UnpackedRecord, at: c_int, out: *mut PandoValue);
    // It is safe: every `PandoCursor` is in the memory of a cursor of SQLite's, which C goes back to, and reads an
    // atomic flag of its connection.
    #[link_name = "pando_is_interrupted"]
    pub(crate) safe fn is_interrupted(cursor: &PandoCursor) -> c_int;
}

// SAFETY: the signatures are those of SQLite's header, in which pointers of these types occur.
#[cfg(not(feature = "drop-in"))]
unsafe extern "C" {
    pub(crate) fn pando_sqlite3_open_v2(
        name: *const c_char,
        db: *mut *mut Sqlite3,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int;
    pub(crate) fn pando_sqlite3_close_v2(db: *mut Sqlite3) -> c_int;
    pub(crate) fn pando_sqlite3_extended_result_codes(db: *mut Sqlite3, on: c_int) -> c_int;
    pub(crate) fn pando_sqlite3_errmsg(db: *mut Sqlite3) -> *const c_char;
    pub(crate) fn pando_sqlite3_changes64(db: *mut Sqlite3) -> i64;
    pub(crate) fn pando_sqlite3_total_changes64(db: *mut Sqlite3) -> i64;
    pub(crate) fn pando_sqlite3_last_insert_rowid(db: *mut Sqlite3) -> i64;
    pub(crate) fn pando_sqlite3_get_autocommit(db: *mut Sqlite3) -> c_int;
    pub(crate) fn pando_sqlite3_prepare_v2(
        db: *mut Sqlite3,
        sql: *const c_char,
        bytes: c_int,
        stmt: *mut *mut Stmt,
        tail: *mut *const c_char,
    ) -> c_int;
    pub(crate) fn pando_sqlite3_step(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_reset(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_stmt_busy(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_finalize(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_bind_null(stmt: *mut Stmt, at: c_int) -> c_int;
    pub(crate) fn pando_sqlite3_bind_int64(stmt: *mut Stmt, at: c_int, value: i64) -> c_int;
    pub(crate) fn pando_sqlite3_bind_double(stmt: *mut Stmt, at: c_int, value: f64) -> c_int;
    pub(crate) fn pando_sqlite3_bind_text64(
        stmt: *mut Stmt,
        at: c_int,
        text: *const c_char,
        bytes: u64,
        destructor: isize,
        encoding: u8,
    ) -> c_int;
    pub(crate) fn pando_sqlite3_bind_blob64(
        stmt: *mut Stmt,
        at: c_int,
        bytes: *const c_void,
        len: u64,
        destructor: isize,
    ) -> c_int;
    pub(crate) fn pando_sqlite3_column_count(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_column_name(stmt: *mut Stmt, at: c_int) -> *const c_char;
    pub(crate) fn pando_sqlite3_column_type(stmt: *mut Stmt, at: c_int) -> c_int;
    pub(crate) fn pando_sqlite3_column_int64(stmt: *mut Stmt, at: c_int) -> i64;
    pub(crate) fn pando_sqlite3_column_double(stmt: *mut Stmt, at: c_int) -> f64;
    pub(crate) fn pando_sqlite3_column_blob(stmt: *mut Stmt, at: c_int) -> *const c_void;
    pub(crate) fn pando_sqlite3_column_text(stmt: *mut Stmt, at: c_int) -> *const u8;
    pub(crate) fn pando_sqlite3_column_bytes(stmt: *mut Stmt, at: c_int) -> c_int;
    pub(crate) fn pando_sqlite3_column_decltype(stmt: *mut Stmt, at: c_int) -> *const c_char;
    pub(crate) fn pando_sqlite3_clear_bindings(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_bind_parameter_count(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_bind_parameter_name(stmt: *mut Stmt, at: c_int) -> *const c_char;
    pub(crate) fn pando_sqlite3_bind_parameter_index(stmt: *mut Stmt, name: *const c_char) -> c_int;
    pub(crate) fn pando_sqlite3_stmt_readonly(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_stmt_isexplain(stmt: *mut Stmt) -> c_int;
    pub(crate) fn pando_sqlite3_stmt_status(stmt: *mut Stmt, of: c_int, reset: c_int) -> c_int;
    pub(crate) fn pando_sqlite3_db_name(db: *mut Sqlite3, at: c_int) -> *const c_char;
    pub(crate) fn pando_sqlite3_interrupt(db: *mut Sqlite3);
    pub(crate) fn pando_sqlite3_is_interrupted(db: *mut Sqlite3) -> c_int;
    pub(crate) fn pando_sqlite3_busy_timeout(db: *mut Sqlite3, timeout_ms: c_int) -> c_int;
    pub(crate) fn pando_sqlite3_limit(db: *mut Sqlite3, limit: c_int, value: c_int) -> c_int;
    pub(crate) fn pando_sqlite3_hard_heap_limit64(bytes: i64) -> i64;
    pub(crate) fn pando_sqlite3_progress_handler(
        db: *mut Sqlite3,
        steps: c_int,
        callback: Option<Progress>,
        context: *mut c_void,
    );
    pub(crate) fn pando_sqlite3_set_authorizer(
        db: *mut Sqlite3,
        callback: Option<Authorize>,
        context: *mut c_void,
    ) -> c_int;
}
