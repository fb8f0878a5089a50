//! Connections that run SQL.

use crate::code::{self, pando_code};
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::memory::{self, Out, Ref, Text, handle, handles};
use binding::sql::SqlConnection;
use binding::{Kind, Outcome};
use pando::{ErrorKind, TransactionOptions};
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;

/// A connection that runs SQL, with one transaction at a time: BEGIN, COMMIT and ROLLBACK are statements. Several
/// connections can write at the same time. A statement outside of a transaction is a transaction by itself, and runs
/// again after a conflict; within a transaction, COMMIT fails with PANDO_CONFLICT, and the program runs the transaction
/// again. Free it with pando_sql_free.
///
/// A library that was built without its feature `sql` has no function pando_sql_… and pando_stmt_….
pub struct pando_sql {
    _private: (),
}

handles! {
    pando_sql = Arc<SqlConnection>, "the connection", b"pandosql";
}

/// Fails with PANDO_FORKED in the child of a fork, and passes if the database is closed.
pub(crate) fn check_process(sql: &SqlConnection) -> Outcome<()> {
    match sql.default_options() {
        Err(failure) if failure.kind == Kind::Engine(ErrorKind::Forked) => Err(failure),
        _ => Ok(()),
    }
}

/// Opens a connection. On a read-only database it only reads. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_open(
    db: *mut pando_db,
    sql: *mut *mut pando_sql,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, sql, error) = unsafe { (Ref::of_mut(db), Out::new(sql), Out::new(error)) };
    call(error, || {
        let sql = sql.required("sql", ptr::null_mut())?;
        sql.set(handle(SqlConnection::open(db.get()?)?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Sets durability and isolation of transactions that begin from now on, as pando_tx_begin takes them. Threads: one
/// call at a time for each connection.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_set_options(
    sql: *mut pando_sql,
    durability: c_int,
    isolation: c_int,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (sql, error) = unsafe { (Ref::of_mut(sql), Out::new(error)) };
    call(error, || {
        let sql = sql.get()?;
        let default = sql.default_options()?;
        sql.set_transaction_options(TransactionOptions {
            durability: code::durability(durability, default.durability)?,
            isolation: code::isolation(isolation, default.isolation)?,
        })?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Lets statements that write fail with PANDO_READ_ONLY from now on, if `read_only` is not 0. Transactions that begin
/// are then snapshots, which never conflict. Threads: one call at a time for each connection.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_set_read_only(
    sql: *mut pando_sql,
    read_only: c_int,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (sql, error) = unsafe { (Ref::of_mut(sql), Out::new(error)) };
    call(error, || {
        sql.get()?.set_read_only(read_only != 0)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Runs statements that have no parameters, one after another, and stops at the first that fails. Rows are left out.
/// Threads: one call at a time for each connection.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_execute(
    sql: *mut pando_sql,
    text: *const c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (sql, text, error) = unsafe { (Ref::of_mut(sql), Text::new(text), Out::new(error)) };
    call(error, || {
        sql.get()?.execute_script(text.get("the statement")?)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores in `*is_open` whether a transaction is open that BEGIN or SAVEPOINT has begun: 1 or 0. Threads: one call at a
/// time for each connection.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_in_transaction(
    sql: *mut pando_sql,
    is_open: *mut c_int,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (sql, is_open, error) = unsafe { (Ref::of_mut(sql), Out::new(is_open), Out::new(error)) };
    call(error, || {
        let is_open = is_open.required("is_open", 0)?;
        is_open.set(c_int::from(!sql.get()?.is_autocommit()?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the id of the row that the connection has inserted last; 0 before the first. Threads: one call at a time for
/// each connection.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_last_row_id(
    sql: *mut pando_sql,
    row_id: *mut i64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (sql, row_id, error) = unsafe { (Ref::of_mut(sql), Out::new(row_id), Out::new(error)) };
    call(error, || {
        let row_id = row_id.required("row_id", 0)?;
        row_id.set(sql.get()?.last_insert_row_id()?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Stops the statements of the connection that run at this moment: they fail with PANDO_INTERRUPTED. It has no effect
/// if none runs, and none on a commit that waits for the disk. A statement that writes ends its transaction when it is
/// stopped: everything before it is undone, too, and a further statement is a transaction of its own. So call
/// pando_sql_in_transaction after PANDO_INTERRUPTED. Threads: any number at the same time, while other calls use the
/// connection.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_interrupt(
    sql: *mut pando_sql,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (sql, error) = unsafe { (Ref::of_mut(sql), Out::new(error)) };
    call(error, || {
        let sql = sql.get()?;
        check_process(sql)?;
        sql.interrupt();
        Ok(pando_code::PANDO_OK)
    })
}

/// Closes a connection: ends its statements, and rolls back its transaction. Later calls on both return PANDO_CLOSED. A
/// second call has no effect. Threads: one call at a time for each connection.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_close(sql: *mut pando_sql, error: *mut *mut pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (sql, error) = unsafe { (Ref::of_mut(sql), Out::new(error)) };
    call(error, || {
        let sql = sql.get()?;
        check_process(sql)?;
        sql.close()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a connection. Statements keep it open; without any, its transaction is rolled back.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_sql_free(sql: *mut pando_sql) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(sql) };
}

/// Returns the version of SQLite whose front end the library has, such as "3.50.2". The string lives as long as the
/// program. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn pando_sqlite_version() -> *const c_char {
    static VERSION: std::sync::OnceLock<std::ffi::CString> = std::sync::OnceLock::new();
    VERSION.get_or_init(|| crate::error::c_string(binding::sql::sqlite_version())).as_ptr()
}
