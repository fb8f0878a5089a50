//! Prepared statements of SQL: parameters, rows and columns.

use crate::code::pando_code;
use crate::error::{c_string, call, pando_error};
use crate::memory::{self, Bytes, Out, Ref, Text, handle, handles};
use crate::sql::{self, pando_sql};
use binding::sql::{Row, SqlStatement, Value, ValueRef};
use binding::{Failure, Outcome};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard};

/// Kind of a value: NULL.
pub const PANDO_NULL: c_int = 0;
/// Kind of a value: an integer of 64 bits.
pub const PANDO_INTEGER: c_int = 1;
/// Kind of a value: a floating-point number.
pub const PANDO_REAL: c_int = 2;
/// Kind of a value: text. It has no zero byte at its end. It is UTF-8 unless a program has stored other bytes.
pub const PANDO_TEXT: c_int = 3;
/// Kind of a value: bytes.
pub const PANDO_BLOB: c_int = 4;

/// A value of a row.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pando_value {
    /// PANDO_NULL, PANDO_INTEGER, PANDO_REAL, PANDO_TEXT or PANDO_BLOB.
    pub kind: c_int,
    /// The number, if the kind is PANDO_INTEGER; otherwise 0.
    pub integer: i64,
    /// The number, if the kind is PANDO_REAL; otherwise 0.
    pub real: f64,
    /// The bytes, if the kind is PANDO_TEXT or PANDO_BLOB; otherwise NULL.
    pub data: *const c_void,
    /// How many bytes there are.
    pub len: usize,
}

/// A column of a statement's rows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pando_column {
    /// The name.
    pub name: *const c_char,
    /// The declared type, such as "VARCHAR(20)"; NULL if the column is not one of a table.
    pub declared: *const c_char,
}

/// A prepared statement. Its parameters are counted from 1, as in SQL, and its columns from 0. Free it with
/// pando_stmt_free.
pub struct pando_stmt {
    _private: (),
}

/// What a handle on a statement holds.
pub struct Object {
    statement: SqlStatement,
    lent: Mutex<Lent>,
}

/// What the caller was lent until its next call.
#[derive(Default)]
struct Lent {
    row: Vec<pando_value>,
    /// The bytes of the row's texts and blobs.
    bytes: Vec<u8>,
    columns: Vec<pando_column>,
    strings: Vec<CString>,
}

// SAFETY: the pointers are into the vectors beside them, which move and change together with them.
unsafe impl Send for Lent {}

handles! {
    pando_stmt = Object, "the statement", b"pandostm";
}

impl Object {
    fn lent(&self) -> Outcome<MutexGuard<'_, Lent>> {
        sql::check_process(self.statement.connection())?;
        self.lent.try_lock().map_err(|_| Failure::in_use("the statement"))
    }
}

const NULL: pando_value = pando_value { kind: PANDO_NULL, integer: 0, real: 0.0, data: ptr::null(), len: 0 };

impl Lent {
    fn clear_row(&mut self) {
        self.row.clear();
        self.bytes.clear();
    }

    /// Copies a row.
    fn keep(&mut self, row: &Row<'_>) {
        self.clear_row();
        let bytes_of = |column: usize| match row.get(column) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
            _ => None,
        };
        for bytes in (0..row.len()).filter_map(bytes_of) {
            self.bytes.extend_from_slice(bytes);
        }
        // The bytes stay where they are from here on.
        let mut at = 0;
        for column in 0..row.len() {
            let mut of_bytes = |kind, bytes: &[u8]| {
                let end = at + bytes.len();
                let data = memory::lent(&self.bytes[at..end]).cast();
                at = end;
                pando_value { kind, data, len: bytes.len(), ..NULL }
            };
            self.row.push(match row.get(column) {
                ValueRef::Null => NULL,
                ValueRef::Integer(integer) => pando_value { kind: PANDO_INTEGER, integer, ..NULL },
                ValueRef::Real(real) => pando_value { kind: PANDO_REAL, real, ..NULL },
                ValueRef::Text(text) => of_bytes(PANDO_TEXT, text),
                ValueRef::Blob(blob) => of_bytes(PANDO_BLOB, blob),
            });
        }
    }
}

/// Prepares the only statement in `text`. Fails with PANDO_INVALID if it is wrong, and if there are several. Threads:
/// one call at a time for each connection and its statements.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_prepare(
    sql: *mut pando_sql,
    text: *const c_char,
    stmt: *mut *mut pando_stmt,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (sql, text, stmt, error) =
        unsafe { (Ref::of_mut(sql), Text::new(text), Out::new(stmt), Out::new(error)) };
    call(error, || {
        let stmt = stmt.required("stmt", ptr::null_mut())?;
        let statement = sql.get()?.prepare(text.get("the statement")?)?;
        stmt.set(handle(Object { statement, lent: Mutex::default() }));
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores how many parameters the statement has. Threads: as for pando_stmt_prepare.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_parameter_count(
    stmt: *mut pando_stmt,
    count: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, count, error) = unsafe { (Ref::of_mut(stmt), Out::new(count), Out::new(error)) };
    call(error, || {
        let count = count.required("count", 0)?;
        count.set(stmt.get()?.statement.parameter_count()?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the index of the parameter `name`, which includes its ':', '@' or '$'. Returns PANDO_ABSENT if there is no
/// such parameter. Threads: as for pando_stmt_prepare.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_parameter(
    stmt: *mut pando_stmt,
    name: *const c_char,
    index: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, name, index, error) =
        unsafe { (Ref::of_mut(stmt), Text::new(name), Out::new(index), Out::new(error)) };
    call(error, || {
        let index = index.required("index", 0)?;
        let Some(place) = stmt.get()?.statement.parameter(name.get("the name")?)? else {
            return Ok(pando_code::PANDO_ABSENT);
        };
        index.set(place + 1);
        Ok(pando_code::PANDO_OK)
    })
}

/// Sets a parameter, whose index counts from 1.
fn bind(stmt: Ref<'_, pando_stmt>, index: usize, value: Value) -> Outcome<pando_code> {
    let place = index.checked_sub(1).ok_or_else(|| Failure::invalid("parameters are counted from 1"))?;
    stmt.get()?.statement.bind(place, value)?;
    Ok(pando_code::PANDO_OK)
}

/// Sets the parameter `index`, counted from 1, to NULL. Parameters keep their values until they are set again, and are
/// NULL before. Fails with PANDO_INVALID if there is no such parameter, or while the statement has a row: reset it
/// before. Threads: as for pando_stmt_prepare.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_bind_null(
    stmt: *mut pando_stmt,
    index: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, error) = unsafe { (Ref::of_mut(stmt), Out::new(error)) };
    call(error, || bind(stmt, index, Value::Null))
}

/// Sets the parameter `index` to an integer. The rest is as for pando_stmt_bind_null.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_bind_integer(
    stmt: *mut pando_stmt,
    index: usize,
    value: i64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, error) = unsafe { (Ref::of_mut(stmt), Out::new(error)) };
    call(error, || bind(stmt, index, Value::Integer(value)))
}

/// Sets the parameter `index` to a floating-point number; one that is no number becomes NULL, as SQLite does it. The
/// rest is as for pando_stmt_bind_null.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_bind_real(
    stmt: *mut pando_stmt,
    index: usize,
    value: f64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, error) = unsafe { (Ref::of_mut(stmt), Out::new(error)) };
    call(error, || bind(stmt, index, Value::Real(value)))
}

/// Sets the parameter `index` to a text of `len` bytes of UTF-8, which need not end with a zero byte. The rest is as
/// for pando_stmt_bind_null.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_bind_text(
    stmt: *mut pando_stmt,
    index: usize,
    text: *const c_char,
    len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, text, error) = unsafe { (Ref::of_mut(stmt), Bytes::new(text.cast(), len), Out::new(error)) };
    call(error, || bind(stmt, index, Value::Text(text.text()?.to_owned())))
}

/// Sets the parameter `index` to `len` bytes. The rest is as for pando_stmt_bind_null.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_bind_blob(
    stmt: *mut pando_stmt,
    index: usize,
    data: *const c_void,
    len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, data, error) = unsafe { (Ref::of_mut(stmt), Bytes::new(data, len), Out::new(error)) };
    call(error, || bind(stmt, index, Value::Blob(data.value()?.to_vec())))
}

/// Runs the statement to its first row, or goes on to its next one. Stores the row's values and their number; both
/// outputs may be NULL. Returns PANDO_ABSENT after the last row, and for a statement that has none; the next call runs
/// it again. The values live until the next call on the statement. Fails with PANDO_CONSTRAINT, PANDO_CONFLICT (of
/// COMMIT), PANDO_INTERRUPTED and others. Threads: as for pando_stmt_prepare.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_step(
    stmt: *mut pando_stmt,
    row: *mut *const pando_value,
    count: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, row, count, error) =
        unsafe { (Ref::of_mut(stmt), Out::new(row), Out::new(count), Out::new(error)) };
    call(error, || {
        row.set(ptr::null());
        count.set(0);
        let stmt = stmt.get()?;
        let mut lent = stmt.lent()?;
        lent.clear_row();
        let is_at_row = stmt.statement.fetch(&mut |row| {
            lent.keep(row);
            false
        })?;
        if !is_at_row {
            return Ok(pando_code::PANDO_ABSENT);
        }
        row.set(memory::lent(&lent.row));
        count.set(lent.row.len());
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the value of the column `column`, counted from 0, of the row at which the statement stands. Fails with
/// PANDO_INVALID if there is no row or no such column. Threads: as for pando_stmt_prepare.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_value(
    stmt: *mut pando_stmt,
    column: usize,
    value: *mut pando_value,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, value, error) = unsafe { (Ref::of_mut(stmt), Out::new(value), Out::new(error)) };
    call(error, || {
        let value = value.required("value", NULL)?;
        let lent = stmt.get()?.lent()?;
        let count = lent.row.len();
        let missing = || Failure::invalid(format!("there is no column {column}; the row has {count}"));
        value.set(*lent.row.get(column).ok_or_else(missing)?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the columns of the statement's rows and their number: 0 if it has no rows. While the statement has a row, the
/// declared types are NULL. The array and its strings live until the next call of this function for the statement.
/// Threads: as for pando_stmt_prepare.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_columns(
    stmt: *mut pando_stmt,
    columns: *mut *const pando_column,
    count: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, columns, count, error) =
        unsafe { (Ref::of_mut(stmt), Out::new(columns), Out::new(count), Out::new(error)) };
    call(error, || {
        let (columns, count) = (columns.required("columns", ptr::null())?, count.required("count", 0)?);
        let stmt = stmt.get()?;
        let mut lent = stmt.lent()?;
        let Lent { columns: kept, strings, .. } = &mut *lent;
        kept.clear();
        strings.clear();
        let mut string = |text: &str| {
            strings.push(c_string(text));
            strings.last().map_or(ptr::null(), |string| string.as_ptr())
        };
        for column in stmt.statement.columns()? {
            let declared = column.declared.as_deref().map_or(ptr::null(), &mut string);
            kept.push(pando_column { name: string(&column.name), declared });
        }
        columns.set(memory::lent(kept));
        count.set(kept.len());
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores how many rows the last run of the statement has inserted, updated or deleted. Threads: as for
/// pando_stmt_prepare.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_changes(
    stmt: *mut pando_stmt,
    changes: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, changes, error) = unsafe { (Ref::of_mut(stmt), Out::new(changes), Out::new(error)) };
    call(error, || {
        let changes = changes.required("changes", 0)?;
        changes.set(stmt.get()?.statement.changes()?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Ends a run of the statement before its last row, so that what it reads can be freed. The next step begins again.
/// Threads: as for pando_stmt_prepare.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_reset(stmt: *mut pando_stmt, error: *mut *mut pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (stmt, error) = unsafe { (Ref::of_mut(stmt), Out::new(error)) };
    call(error, || {
        let stmt = stmt.get()?;
        stmt.lent()?.clear_row();
        stmt.statement.reset()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a statement. Threads: any, also while another call uses its connection, but not this statement.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_stmt_free(stmt: *mut pando_stmt) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(stmt) };
}

#[cfg(test)]
mod tests {
    use binding::sql::SqlConnection;
    use binding::{Failure, Handle};
    use pando::Database;
    use std::sync::mpsc;
    use std::thread;

    // As a garbage collector frees statements: in its own thread, while the connection runs others.
    #[test]
    fn no_call_is_refused_while_a_statement_is_freed() -> Result<(), Failure> {
        let handle = Handle::new(Database::builder().in_memory()?);
        let connection = SqlConnection::open(&handle)?;
        let (free, freed) = mpsc::channel();
        let collector = thread::spawn(move || freed.into_iter().count());
        for _ in 0..5000 {
            let statement = connection.prepare("SELECT 1 UNION SELECT 2")?;
            statement.fetch(&mut |_| false)?;
            let _ = free.send(statement);
            for _ in 0..10 {
                connection.is_autocommit()?;
            }
        }
        drop(free);
        assert_eq!(collector.join().ok(), Some(5000));
        Ok(())
    }
}
