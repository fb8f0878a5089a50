//! Tables: opened, created, changed, dropped, listed.

use crate::code::{self, PANDO_DEFAULT, pando_code};
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::expiry::{PANDO_NEVER, PANDO_TTL_BY_KEY};
use crate::memory::{self, Out, Owned, Ref, Text, handle, handles};
use binding::{Failure, Kind, Outcome};
use pando::{ErrorKind, Table, TableOptions};
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::time::Duration;

/// A table. It is valid until the table is dropped or renamed; then calls return PANDO_MISSING. Free it with
/// pando_table_free.
pub struct pando_table {
    _private: (),
}

/// What a handle on a table holds.
pub struct Object {
    /// The table.
    pub table: Table,
    name: CString,
}

handles! {
    pando_table = Object, "the table", b"pandotab";
}

/// A handle on a table.
pub(crate) fn of(table: Table) -> *mut pando_table {
    let name = CString::new(table.name()).unwrap_or_default();
    handle(Object { table, name })
}

/// The options that the arguments name.
pub(crate) fn options(layout: c_int, compression: c_int, ttl_ms: u64) -> Outcome<TableOptions> {
    let mut options = TableOptions::with_layout(code::layout(layout)?);
    if ttl_ms == PANDO_TTL_BY_KEY {
        options = options.ttl_by_key();
    } else {
        options.ttl = ttl(ttl_ms)?;
    }
    Ok(options.compression(code::compression(compression)?))
}

/// The TTL of all entries of a table; `None` for 0, which means never. The numbers that stand for something else are
/// refused, so that nothing else is made of them.
pub(crate) fn ttl(ttl_ms: u64) -> Outcome<Option<Duration>> {
    match ttl_ms {
        0 => Ok(None),
        PANDO_NEVER => Err(Failure::invalid(
            "the TTL of a table is PANDO_NEVER, which is for entries; give 0 for a table whose entries stay",
        )),
        PANDO_TTL_BY_KEY => Err(Failure::invalid(
            "the TTL of a table cannot change to PANDO_TTL_BY_KEY; create a table with it, and copy the \
             entries",
        )),
        ttl_ms => Ok(Some(Duration::from_millis(ttl_ms))),
    }
}

/// A choice that is not left to the default: a change says what it changes to.
fn named(what: &str, given: c_int) -> Outcome<c_int> {
    if given == PANDO_DEFAULT { Err(code::unknown(what, given)) } else { Ok(given) }
}

/// That there is no such table.
#[cold]
pub(crate) fn missing(name: &str) -> Failure {
    Failure::new(Kind::Engine(ErrorKind::Missing), format!("there is no table {name:?}"))
}

/// Opens the table `name`. Fails with PANDO_MISSING if it does not exist. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_open(
    db: *mut pando_db,
    name: *const c_char,
    table: *mut *mut pando_table,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, table, error) =
        unsafe { (Ref::of_mut(db), Text::new(name), Out::new(table), Out::new(error)) };
    call(error, || {
        let table = table.required("table", ptr::null_mut())?;
        let name = name.get("the name")?;
        table.set(of(db.get()?.open()?.table(name)?.ok_or_else(|| missing(name))?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Creates the table `name`. Fails with PANDO_EXISTS if it exists. `layout` is PANDO_BTREE or PANDO_LSM,
/// `compression` is PANDO_UNCOMPRESSED or PANDO_LZ4, and PANDO_DEFAULT is possible for both. Entries expire `ttl_ms`
/// milliseconds after they were put; 0 means never, and PANDO_TTL_BY_KEY each at its own time. Threads: any number at
/// the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_create(
    db: *mut pando_db,
    name: *const c_char,
    layout: c_int,
    compression: c_int,
    ttl_ms: u64,
    table: *mut *mut pando_table,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, table, error) =
        unsafe { (Ref::of_mut(db), Text::new(name), Out::new(table), Out::new(error)) };
    call(error, || {
        let table = table.required("table", ptr::null_mut())?;
        let options = options(layout, compression, ttl_ms)?;
        table.set(of(db.get()?.open()?.create_table(name.get("the name")?, &options)?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Opens the table `name`, or creates it with these options, which are those of pando_table_create. Fails with
/// PANDO_MISMATCH if it exists with other ones; if all three are 0, it may have any. Threads: any number at the same
/// time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_ensure(
    db: *mut pando_db,
    name: *const c_char,
    layout: c_int,
    compression: c_int,
    ttl_ms: u64,
    table: *mut *mut pando_table,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, table, error) =
        unsafe { (Ref::of_mut(db), Text::new(name), Out::new(table), Out::new(error)) };
    call(error, || {
        let table = table.required("table", ptr::null_mut())?;
        let (db, name) = (db.get()?.open()?, name.get("the name")?);
        let found = if (layout, compression, ttl_ms) == (0, 0, 0) {
            db.ensure_table(name)?
        } else {
            db.ensure_table_with(name, &options(layout, compression, ttl_ms)?)?
        };
        table.set(of(found));
        Ok(pando_code::PANDO_OK)
    })
}

/// Drops the table `name` and everything in it. Fails with PANDO_MISSING if it does not exist. Threads: any number at
/// the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_drop(
    db: *mut pando_db,
    name: *const c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, error) = unsafe { (Ref::of_mut(db), Text::new(name), Out::new(error)) };
    call(error, || {
        db.get()?.open()?.drop_table(name.get("the name")?)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Renames the table `name` to `new_name`. Handles on the table return PANDO_MISSING from then on: open it by its new
/// name. Fails with PANDO_MISSING if there is no table `name`, and with PANDO_EXISTS if there is a table `new_name`.
/// Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_rename(
    db: *mut pando_db,
    name: *const c_char,
    new_name: *const c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, new_name, error) =
        unsafe { (Ref::of_mut(db), Text::new(name), Text::new(new_name), Out::new(error)) };
    call(error, || {
        let (name, new_name) = (name.get("the name")?, new_name.get("the new name")?);
        db.get()?.open()?.rename_table(name, new_name)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Changes the layout of the table `name` while it is in use: to PANDO_BTREE or PANDO_LSM. New entries are written in
/// the new layout, and a thread rewrites the existing ones. Handles remain valid. Fails with PANDO_MISSING if there is
/// no such table. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_set_layout(
    db: *mut pando_db,
    name: *const c_char,
    layout: c_int,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, error) = unsafe { (Ref::of_mut(db), Text::new(name), Out::new(error)) };
    call(error, || {
        let (name, layout) = (name.get("the name")?, code::layout(named("layout", layout)?)?);
        db.get()?.open()?.set_layout(name, layout)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Changes the compression of the LSM table `name`: to PANDO_UNCOMPRESSED or PANDO_LZ4. It holds for pages that are
/// written from now on. Handles remain valid. Fails with PANDO_MISSING if there is no such table, and with
/// PANDO_INVALID if it is a B+tree. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_set_compression(
    db: *mut pando_db,
    name: *const c_char,
    compression: c_int,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, error) = unsafe { (Ref::of_mut(db), Text::new(name), Out::new(error)) };
    call(error, || {
        let compression = code::compression(named("compression", compression)?)?;
        db.get()?.open()?.set_compression(name.get("the name")?, compression)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Changes how many milliseconds after their put the entries of the table `name` expire, also of entries that exist; 0
/// means never. Handles remain valid. Fails with PANDO_MISSING if there is no such table, and with PANDO_INVALID if it
/// has a TTL by key, or was created without a TTL and has been written to. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_set_ttl(
    db: *mut pando_db,
    name: *const c_char,
    ttl_ms: u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, error) = unsafe { (Ref::of_mut(db), Text::new(name), Out::new(error)) };
    call(error, || {
        let (name, ttl) = (name.get("the name")?, ttl(ttl_ms)?);
        db.get()?.open()?.set_ttl(name, ttl)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the names of all tables, in order, and how many there are. The strings and the array that points to them
/// are one block: the caller frees `*names` with pando_free. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_list(
    db: *mut pando_db,
    names: *mut *mut *mut c_char,
    count: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, names, count, error) =
        unsafe { (Ref::of_mut(db), Out::new(names), Out::new(count), Out::new(error)) };
    call(error, || {
        let names = names.required("names", ptr::null_mut())?;
        let count = count.required("count", 0)?;
        let tables = db.get()?.open()?.tables()?;
        let pointers = (tables.len() + 1) * size_of::<*const c_char>();
        let mut block =
            Owned::new(pointers + tables.iter().map(|table| table.name().len() + 1).sum::<usize>())?;
        let mut at = pointers;
        for (index, table) in tables.iter().enumerate() {
            block.write(at, table.name().as_bytes());
            block.write_element(index, block.pointer(at));
            at += table.name().len() + 1;
        }
        names.set(block.release().cast());
        count.set(tables.len());
        Ok(pando_code::PANDO_OK)
    })
}

/// Returns the name of a table, which lives as long as the handle; NULL if `table` is none. Threads: any number at
/// the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_name(table: *const pando_table) -> *const c_char {
    // SAFETY: as the header demands of its arguments.
    let table = unsafe { Ref::new(table) };
    table.get().map_or(ptr::null(), |table| table.name.as_ptr())
}

/// Returns the layout that the table had when the handle was made, PANDO_BTREE or PANDO_LSM; 0 if `table` is none.
/// Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_layout(table: *const pando_table) -> c_int {
    // SAFETY: as the header demands of its arguments.
    let table = unsafe { Ref::new(table) };
    table.get().map_or(0, |table| match table.table.layout() {
        pando::Layout::BTree => code::PANDO_BTREE,
        pando::Layout::Lsm => code::PANDO_LSM,
    })
}

/// Frees a handle on a table; the table remains.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_table_free(table: *mut pando_table) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(table) };
}
