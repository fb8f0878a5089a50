//! The functions that SQLite calls, over a [`Table`] and its [`Cursor`].
//!
//! The blocks below are sound for these reasons:
//! 1. SQLite calls back on the thread that called it, one call at a time on a connection; calls may nest. Tables are
//!    therefore only ever lent as `&T`. A cursor is lent as `&mut C`: SQLite never calls a cursor from within a call of
//!    the same cursor, and what a cursor calls (nested statements) cannot name it.
//! 2. A [`VTab`] and a [`VCursor`] begin with SQLite's own structure (`repr(C)`), so a pointer to one is a pointer to
//!    the other. Each is made by `Box` in one callback and taken back by `Box` in the one that ends it.
//! 3. A [`Module`] lives in its box until SQLite calls `destroy`, which is after every table of it was disconnected.
//! 4. A panic in a callback ends the process: it means that an invariant is broken, and it cannot unwind through C.

use super::host::{has_constraints, owned_string};
use super::{Arguments, Change, Connect, Cursor, Host, Query, Row, Table};
use crate::failure::{Failure, Outcome};
use crate::machine::ffi;
use rusqlite::types::ValueRef;
use std::ffi::{CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

/// The context of a module's registration in a connection.
struct Module<T: Table> {
    /// It is the first field, so that SQLite's pointer to its functions is a pointer to this.
    functions: ffi::sqlite3_module,
    connect: Box<dyn Connect<T>>,
}

#[repr(C)]
struct VTab<T> {
    base: ffi::sqlite3_vtab,
    host: Host,
    table: T,
}

#[repr(C)]
struct VCursor<T: Table> {
    base: ffi::sqlite3_vtab_cursor,
    cursor: T::Cursor,
    lent: PhantomData<T>,
}

/// Registers `name` as a table of the connection, without an entry in its schema. It replaces a table of that name.
pub(crate) fn register<T: Table>(host: Host, name: &str, connect: Box<dyn Connect<T>>) -> Outcome {
    let name = CString::new(name).map_err(|_| Failure::new(ffi::SQLITE_ERROR, "a NUL in a table's name"))?;
    let module = Box::into_raw(Box::new(Module::<T> { functions: functions::<T>(), connect }));
    // SAFETY: the connection is open, see `Host`. The functions lie in the module, which lives until SQLite calls
    // `destroy`, also if this call fails.
    let code = unsafe {
        let functions = &raw const (*module).functions;
        ffi::sqlite3_create_module_v2(host.0, name.as_ptr(), functions, module.cast(), Some(destroy::<T>))
    };
    Failure::check(code, "registering a table")
}

/// Removes the table `name`.
pub(crate) fn unregister(host: Host, name: &str) -> Outcome {
    let name = CString::new(name).map_err(|_| Failure::new(ffi::SQLITE_ERROR, "a NUL in a table's name"))?;
    // SAFETY: the connection is open, see `Host`; a null module takes the one of that name away.
    let code =
        unsafe { ffi::sqlite3_create_module_v2(host.0, name.as_ptr(), ptr::null(), ptr::null_mut(), None) };
    Failure::check(code, "taking a table away")
}

fn functions<T: Table>() -> ffi::sqlite3_module {
    ffi::sqlite3_module {
        // Version 2 added savepoints; versions 3 and 4 add features that are not used here.
        iVersion: 2,
        // The same as `xConnect`: the table exists without `CREATE VIRTUAL TABLE`.
        xCreate: None,
        xConnect: Some(connect::<T>),
        xBestIndex: Some(best_index::<T>),
        xDisconnect: Some(disconnect::<T>),
        xDestroy: Some(disconnect::<T>),
        xOpen: Some(open::<T>),
        xClose: Some(close::<T>),
        xFilter: Some(filter::<T>),
        xNext: Some(next::<T>),
        xEof: Some(eof::<T>),
        xColumn: Some(column::<T>),
        xRowid: Some(row_id::<T>),
        xUpdate: Some(update::<T>),
        xBegin: Some(begin::<T>),
        xSync: Some(sync::<T>),
        xCommit: Some(commit::<T>),
        xRollback: Some(rollback::<T>),
        xFindFunction: None,
        xRename: None,
        xSavepoint: Some(savepoint::<T>),
        xRelease: Some(release::<T>),
        xRollbackTo: Some(rollback_to::<T>),
        xShadowName: None,
        xIntegrity: None,
    }
}

/// Reports a failure to SQLite: returns the code, and stores the message where SQLite looks for it.
///
/// # Safety
/// `vtab` is a table of ours.
#[inline]
unsafe fn answer(vtab: *mut ffi::sqlite3_vtab, outcome: Outcome) -> c_int {
    match outcome {
        Ok(()) => ffi::SQLITE_OK,
        // SAFETY: as the caller promises.
        Err(failure) => unsafe { refuse(vtab, failure) },
    }
}

/// # Safety
/// `vtab` is a table of ours.
#[cold]
unsafe fn refuse(vtab: *mut ffi::sqlite3_vtab, failure: Failure) -> c_int {
    // SAFETY: a live table; the message is null or was allocated by SQLite, which takes over the new one.
    unsafe {
        ffi::sqlite3_free((*vtab).zErrMsg.cast());
        (*vtab).zErrMsg = owned_string(&failure.message);
    }
    failure.code
}

/// # Safety
/// `vtab` is a `VTab<T>`, alive for `'a`.
unsafe fn table<'a, T: Table>(vtab: *mut ffi::sqlite3_vtab) -> &'a T {
    // SAFETY: as the caller promises. No reference to the base is made: SQLite writes to that in nested calls too.
    unsafe { &(*vtab.cast::<VTab<T>>()).table }
}

/// # Safety
/// `cursor` is a `VCursor<T>`, alive for `'a`, and lent to nobody else.
unsafe fn cursor<'a, T: Table>(cursor: *mut ffi::sqlite3_vtab_cursor) -> &'a mut T::Cursor {
    // SAFETY: as the caller promises; see 1 at the top of the file.
    unsafe { &mut (*cursor.cast::<VCursor<T>>()).cursor }
}

/// # Safety
/// `cursor` is a live cursor of ours.
unsafe fn answer_of_cursor(cursor: *mut ffi::sqlite3_vtab_cursor, outcome: Outcome) -> c_int {
    // SAFETY: SQLite has set the table of an open cursor, and keeps that longer.
    unsafe { answer((*cursor).pVtab, outcome) }
}

/// # Safety
/// Called by SQLite, once, with the pointer that `register` gave it.
unsafe extern "C" fn destroy<T: Table>(module: *mut c_void) {
    // SAFETY: made by `Box` in `register`; SQLite calls this once, after the last table of it is gone.
    drop(unsafe { Box::from_raw(module.cast::<Module<T>>()) });
}

/// # Safety
/// Called by SQLite as `xConnect`.
unsafe extern "C" fn connect<T: Table>(
    db: *mut ffi::sqlite3,
    aux: *mut c_void,
    _count: c_int,
    _arguments: *const *const c_char,
    out: *mut *mut ffi::sqlite3_vtab,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: what `register` gave SQLite, and lives until `destroy`.
    let module = unsafe { &*aux.cast::<Module<T>>() };
    let host = Host(db);
    let made = module.connect.connect(host).and_then(|table| {
        let declaration = CString::new(table.declaration()).map_err(|_| {
            Failure::new(ffi::SQLITE_ERROR, "the definition of a table contains a NUL character")
        })?;
        // SAFETY: within `xConnect`, as both calls ask; the declaration ends with a NUL.
        unsafe {
            let declared = declared(db, ffi::sqlite3_declare_vtab(db, declaration.as_ptr()));
            Failure::check(declared, "declaring a table")?;
            Failure::check(has_constraints(db), "configuring a table")?;
        }
        Ok(table)
    });
    match made {
        Ok(table) => {
            let base = ffi::sqlite3_vtab { pModule: ptr::null(), nRef: 0, zErrMsg: ptr::null_mut() };
            let vtab = Box::into_raw(Box::new(VTab { base, host, table }));
            // SAFETY: SQLite's place for the result.
            unsafe { *out = vtab.cast() };
            ffi::SQLITE_OK
        }
        Err(failure) => {
            // SAFETY: SQLite's place for the message, which it frees.
            unsafe { *message = owned_string(&failure.message) };
            failure.code
        }
    }
}

/// Returns the result of a declaration. SQLite reports one that an interrupt has stopped like one that is wrong.
///
/// # Safety
/// `db` is an open connection.
#[cfg(not(feature = "loadable"))]
unsafe fn declared(db: *mut ffi::sqlite3, code: c_int) -> c_int {
    // SAFETY: as asked of the caller.
    let is_stopped = code == ffi::SQLITE_ERROR && unsafe { ffi::sqlite3_is_interrupted(db) } != 0;
    if is_stopped { ffi::SQLITE_INTERRUPT } else { code }
}

/// Returns the result of a declaration. A program's own SQLite may be too old to be asked about interrupts.
///
/// # Safety
/// None is needed; the other one of these needs it.
#[cfg(feature = "loadable")]
unsafe fn declared(_: *mut ffi::sqlite3, code: c_int) -> c_int {
    code
}

/// # Safety
/// Called by SQLite as `xDisconnect`: the last call with this table.
unsafe extern "C" fn disconnect<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: made by `Box` in `connect`, and given back once.
    let vtab = unsafe { Box::from_raw(vtab.cast::<VTab<T>>()) };
    // SAFETY: null, or allocated by SQLite.
    unsafe { ffi::sqlite3_free(vtab.base.zErrMsg.cast()) };
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xBestIndex`.
unsafe extern "C" fn best_index<T: Table>(
    vtab: *mut ffi::sqlite3_vtab,
    info: *mut ffi::sqlite3_index_info,
) -> c_int {
    // SAFETY: a live table of this type, and a query that SQLite lends for this call.
    unsafe {
        let query = Query::new(info);
        let chosen = table::<T>(vtab).best_index(&query).map(|choice| query.choose(&choice));
        answer(vtab, chosen)
    }
}

/// # Safety
/// Called by SQLite as `xOpen`.
unsafe extern "C" fn open<T: Table>(
    vtab: *mut ffi::sqlite3_vtab,
    out: *mut *mut ffi::sqlite3_vtab_cursor,
) -> c_int {
    // SAFETY: a live table of this type.
    let cursor = unsafe { table::<T>(vtab) }.open();
    let base = ffi::sqlite3_vtab_cursor { pVtab: ptr::null_mut() };
    let opened = Box::into_raw(Box::new(VCursor::<T> { base, cursor, lent: PhantomData }));
    // SAFETY: SQLite's place for the result.
    unsafe { *out = opened.cast() };
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xClose`: the last call with this cursor.
unsafe extern "C" fn close<T: Table>(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: made by `Box` in `open`, and given back once.
    drop(unsafe { Box::from_raw(cursor.cast::<VCursor<T>>()) });
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xFilter`.
unsafe extern "C" fn filter<T: Table>(
    at: *mut ffi::sqlite3_vtab_cursor,
    plan: c_int,
    _label: *const c_char,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: a live cursor of this type, and values lent for this call.
    unsafe { answer_of_cursor(at, cursor::<T>(at).filter(plan, &Arguments::new(count, values))) }
}

/// # Safety
/// Called by SQLite as `xNext`.
unsafe extern "C" fn next<T: Table>(at: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: a live cursor of this type.
    unsafe { answer_of_cursor(at, cursor::<T>(at).next()) }
}

/// # Safety
/// Called by SQLite as `xEof`.
unsafe extern "C" fn eof<T: Table>(at: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: a live cursor of this type.
    c_int::from(unsafe { cursor::<T>(at) }.is_done())
}

/// # Safety
/// Called by SQLite as `xColumn`.
unsafe extern "C" fn column<T: Table>(
    at: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    index: c_int,
) -> c_int {
    // SAFETY: a live cursor of this type; SQLite asks for columns that were declared.
    let value = unsafe { cursor::<T>(at) }.column(index as usize);
    // SAFETY: the context of this call. SQLite copies text and blobs at once (SQLITE_TRANSIENT).
    unsafe {
        match value {
            Ok(ValueRef::Null) => ffi::sqlite3_result_null(context),
            Ok(ValueRef::Integer(number)) => ffi::sqlite3_result_int64(context, number),
            Ok(ValueRef::Real(number)) => ffi::sqlite3_result_double(context, number),
            Ok(ValueRef::Text(text)) => {
                let (start, count) = (text.as_ptr().cast(), text.len() as u64);
                let encoding = ffi::SQLITE_UTF8 as u8;
                ffi::sqlite3_result_text64(context, start, count, ffi::SQLITE_TRANSIENT(), encoding);
            }
            Ok(ValueRef::Blob(blob)) => {
                // A null pointer would be a null; an empty slice's is not.
                let (start, count) = (blob.as_ptr().cast(), blob.len() as u64);
                ffi::sqlite3_result_blob64(context, start, count, ffi::SQLITE_TRANSIENT());
            }
            Err(failure) => return answer_of_cursor(at, Err(failure)),
        }
    }
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xRowid`.
unsafe extern "C" fn row_id<T: Table>(
    at: *mut ffi::sqlite3_vtab_cursor,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: a live cursor of this type, and SQLite's place for the result.
    unsafe { answer_of_cursor(at, cursor::<T>(at).row_id().map(|id| *out = id)) }
}

/// # Safety
/// Called by SQLite as `xUpdate`.
unsafe extern "C" fn update<T: Table>(
    vtab: *mut ffi::sqlite3_vtab,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: a live table of this type, and values lent for this call.
    let (host, arguments) = unsafe { ((*vtab.cast::<VTab<T>>()).host, Arguments::new(count, values)) };
    let change = if arguments.len() == 1 {
        Change::Delete { id: arguments.get(0) }
    } else {
        let (old, id, row) = (arguments.get(0), arguments.get(1), Row(arguments));
        let on_conflict = host.on_conflict();
        match old {
            ValueRef::Null => Change::Insert { id, row, on_conflict },
            old => Change::Update { old, new: id, row, on_conflict },
        }
    };
    // A row without an id must leave the last id unchanged: SQLite takes whatever is stored here.
    // SAFETY: SQLite's place for the new row's id; a live table.
    unsafe {
        let id = table::<T>(vtab).update(change);
        answer(vtab, id.map(|id| *out = id.unwrap_or_else(|| host.last_insert_row_id())))
    }
}

/// # Safety
/// Called by SQLite as `xBegin`.
unsafe extern "C" fn begin<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).begin()) }
}

/// # Safety
/// Called by SQLite as `xSync`.
unsafe extern "C" fn sync<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).sync()) }
}

/// # Safety
/// Called by SQLite as `xCommit`.
unsafe extern "C" fn commit<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { table::<T>(vtab) }.commit();
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xRollback`.
unsafe extern "C" fn rollback<T: Table>(vtab: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { table::<T>(vtab) }.rollback();
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite as `xSavepoint`.
unsafe extern "C" fn savepoint<T: Table>(vtab: *mut ffi::sqlite3_vtab, number: c_int) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).savepoint(number)) }
}

/// # Safety
/// Called by SQLite as `xRelease`.
unsafe extern "C" fn release<T: Table>(vtab: *mut ffi::sqlite3_vtab, number: c_int) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).release(number)) }
}

/// # Safety
/// Called by SQLite as `xRollbackTo`.
unsafe extern "C" fn rollback_to<T: Table>(vtab: *mut ffi::sqlite3_vtab, number: c_int) -> c_int {
    // SAFETY: a live table of this type.
    unsafe { answer(vtab, table::<T>(vtab).rollback_to(number)) }
}
