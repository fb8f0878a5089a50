//! Databases: options, opening, closing, and single reads and writes.

use crate::code::pando_code;
use crate::error::{call, pando_error};
use crate::memory::{self, Buffer, Bytes, Out, Ref, Text, handle, handles};
use crate::reads::{self, Copied};
use crate::table::pando_table;
use binding::{Failure, Handle, Outcome, Source, options};
use pando::{Builder, Database};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex};

/// Options with which databases are opened. Free them with pando_options_free.
pub struct pando_options {
    _private: (),
}

/// An open database. Free it with pando_db_free.
pub struct pando_db {
    _private: (),
}

handles! {
    pando_options = Mutex<Builder>, "the options", b"pandoopt";
    pando_db = Arc<Handle>, "the database", b"pando_db";
}

/// Returns new options, all with their defaults. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn pando_options_new() -> *mut pando_options {
    handle(Mutex::new(Database::builder()))
}

/// Sets an option by its name, as docs/options.md lists it: a number in the option's unit, or a word. For example
/// "memory_bytes" to "67108864", "durability" to "lazy", "read_only" to "yes". pando_open checks the range. Fails
/// with PANDO_INVALID if there is no such option. Threads: one call at a time for these options.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_options_set(
    options: *mut pando_options,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (options, name, value, error) =
        unsafe { (Ref::of_mut(options), Text::new(name), Text::new(value), Out::new(error)) };
    call(error, || {
        let (name, value) = (name.get("the name")?, value.get("the value")?);
        let mut builder = options.get()?.try_lock().map_err(|_| Failure::in_use("the options object"))?;
        *builder = options::set(builder.clone(), name, value)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees options.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_options_free(options: *mut pando_options) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(options) };
}

/// A builder with the options that were given, or with the defaults.
fn builder(options: *const pando_options) -> Outcome<Builder> {
    if options.is_null() {
        return Ok(Database::builder());
    }
    // SAFETY: the functions below pass on what the header demands of their callers.
    let options = unsafe { Ref::new(options) };
    let builder = options.get()?.try_lock().map_err(|_| Failure::in_use("the options object"))?;
    Ok(builder.clone())
}

/// Opens a database and stores its handle.
fn opened(
    db: Out<*mut pando_db>,
    options: *const pando_options,
    open: impl FnOnce(Builder) -> pando::Result<Database>,
) -> Outcome<pando_code> {
    let db = db.required("db", ptr::null_mut())?;
    let opened = open(builder(options)?)?;
    db.set(handle(Handle::new(opened)));
    Ok(pando_code::PANDO_OK)
}

/// Opens the database in the directory `path`. `options` may be NULL. Fails with PANDO_MISSING if there is none, and
/// with PANDO_LOCKED if another process has it open for writing. With the option "read_only" it is then read beside
/// that process. The call replays the log since the last checkpoint. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_open(
    path: *const c_char,
    options: *const pando_options,
    db: *mut *mut pando_db,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (path, db, error) = unsafe { (Text::new(path), Out::new(db), Out::new(error)) };
    call(error, || {
        let path: &Path = path.path("the path")?;
        opened(db, options, |builder| builder.open(path))
    })
}

/// Opens the database in the directory `path`, or creates it. The rest is as for pando_open. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_create(
    path: *const c_char,
    options: *const pando_options,
    db: *mut *mut pando_db,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (path, db, error) = unsafe { (Text::new(path), Out::new(db), Out::new(error)) };
    call(error, || {
        let path: &Path = path.path("the path")?;
        opened(db, options, |builder| builder.create(path))
    })
}

/// Creates a database in memory, which is gone when its last object is freed. `options` may be NULL. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_in_memory(
    options: *const pando_options,
    db: *mut *mut pando_db,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, error) = unsafe { (Out::new(db), Out::new(error)) };
    call(error, || opened(db, options, Builder::in_memory))
}

/// Closes a database: syncs its log, stops its threads and unlocks its directory. Later calls on every object of the
/// database return PANDO_CLOSED. A second call waits for the first, and has the same result. The handle remains to be
/// freed. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_close(db: *mut pando_db, error: *mut *mut pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, error) = unsafe { (Ref::of_mut(db), Out::new(error)) };
    call(error, || {
        db.get()?.close()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a database. It is closed when the last object that depends on it is freed; the error of that is lost, so
/// call pando_db_close before.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_free(db: *mut pando_db) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(db) };
}

/// Copies the newest value of `key` to a new block, which the caller frees with pando_free, and stores its length.
/// Returns PANDO_ABSENT if the key does not exist. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_get(
    db: *mut pando_db,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_void,
    value_len: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, table, key, value, value_len, error) = unsafe {
        (
            Ref::of_mut(db),
            Ref::new(table),
            Bytes::new(key, key_len),
            Out::new(value),
            Out::new(value_len),
            Out::new(error),
        )
    };
    call(error, || {
        let source = Source::Database(Arc::clone(db.get()?));
        reads::get(&source, &table.get()?.table, key.key()?, Copied { value, value_len })
    })
}

/// Copies the newest value of `key` to the caller's buffer and stores its length. If the buffer is too short, nothing
/// is copied, the length is stored all the same, and the result is PANDO_TOO_SMALL. Returns PANDO_ABSENT if the key
/// does not exist. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_get_into(
    db: *mut pando_db,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    buffer: *mut c_void,
    buffer_len: usize,
    value_len: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, table, key, buffer, value_len, error) = unsafe {
        (
            Ref::of_mut(db),
            Ref::new(table),
            Bytes::new(key, key_len),
            Buffer::new(buffer, buffer_len),
            Out::new(value_len),
            Out::new(error),
        )
    };
    call(error, || {
        let source = Source::Database(Arc::clone(db.get()?));
        reads::get_into(&source, &table.get()?.table, key.key()?, (buffer, value_len))
    })
}

/// Sets `key` to `value`, in a transaction of its own that runs again after conflicts. Threads: any number at the
/// same time; those that wait for the disk at the same time share a flush.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_put(
    db: *mut pando_db,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, table, key, value, error) = unsafe {
        (
            Ref::of_mut(db),
            Ref::new(table),
            Bytes::new(key, key_len),
            Bytes::new(value, value_len),
            Out::new(error),
        )
    };
    call(error, || {
        let (db, table) = (db.get()?, table.get()?);
        db.open()?.put(&table.table, key.key()?, value.value()?)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Deletes `key`, whether or not it exists, in a transaction of its own that runs again after conflicts. Threads: any
/// number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_delete(
    db: *mut pando_db,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, table, key, error) =
        unsafe { (Ref::of_mut(db), Ref::new(table), Bytes::new(key, key_len), Out::new(error)) };
    call(error, || {
        let (db, table) = (db.get()?, table.get()?);
        db.open()?.delete(&table.table, key.key()?)?;
        Ok(pando_code::PANDO_OK)
    })
}
