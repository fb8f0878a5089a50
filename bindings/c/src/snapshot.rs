//! Snapshots: reads of one moment.

use crate::code::pando_code;
use crate::cursor::pando_cursor;
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::memory::{self, Array, Buffer, Bytes, Out, Outs, Ref, handle, handles};
use crate::reads::{self, Copied, pando_bytes, pando_range};
use crate::table::pando_table;
use binding::{Held, Source};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex};

/// A read-only view of one moment. What it sees is kept until it is freed. Free it with pando_snapshot_free.
pub struct pando_snapshot {
    _private: (),
}

handles! {
    pando_snapshot = Arc<Held>, "the snapshot", b"pandosna";
}

/// Takes a snapshot of everything that was acknowledged so far. It copies nothing and waits for nobody. Threads: any
/// number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_take(
    db: *mut pando_db,
    snapshot: *mut *mut pando_snapshot,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, snapshot, error) = unsafe { (Ref::of_mut(db), Out::new(snapshot), Out::new(error)) };
    call(error, || {
        let snapshot = snapshot.required("snapshot", ptr::null_mut())?;
        snapshot.set(handle(Held::take(db.get()?)?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Copies the value of `key` in the snapshot to a new block, which the caller frees with pando_free, and stores its
/// length. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a time for each snapshot.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_get(
    snapshot: *const pando_snapshot,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_void,
    value_len: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (snapshot, table, key, value, value_len, error) = unsafe {
        (
            Ref::new(snapshot),
            Ref::new(table),
            Bytes::new(key, key_len),
            Out::new(value),
            Out::new(value_len),
            Out::new(error),
        )
    };
    call(error, || {
        reads::get(
            &Source::Snapshot(Arc::clone(snapshot.get()?)),
            &table.get()?.table,
            key.key()?,
            Copied { value, value_len },
        )
    })
}

/// Copies the value of `key` in the snapshot to the caller's buffer and stores its length. If the buffer is too
/// short, nothing is copied, the length is stored all the same, and the result is PANDO_TOO_SMALL. Returns
/// PANDO_ABSENT if the key does not exist. Threads: one call at a time for each snapshot.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_get_into(
    snapshot: *const pando_snapshot,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    buffer: *mut c_void,
    buffer_len: usize,
    value_len: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (snapshot, table, key, buffer, value_len, error) = unsafe {
        (
            Ref::new(snapshot),
            Ref::new(table),
            Bytes::new(key, key_len),
            Buffer::new(buffer, buffer_len),
            Out::new(value_len),
            Out::new(error),
        )
    };
    call(error, || {
        reads::get_into(
            &Source::Snapshot(Arc::clone(snapshot.get()?)),
            &table.get()?.table,
            key.key()?,
            (buffer, value_len),
        )
    })
}

/// Returns PANDO_OK if `key` exists in the snapshot, PANDO_ABSENT if it does not. Threads: one call at a time for
/// each snapshot.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_exists(
    snapshot: *const pando_snapshot,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (snapshot, table, key, error) =
        unsafe { (Ref::new(snapshot), Ref::new(table), Bytes::new(key, key_len), Out::new(error)) };
    call(error, || {
        reads::exists(&Source::Snapshot(Arc::clone(snapshot.get()?)), &table.get()?.table, key.key()?)
    })
}

/// Copies the values of `count` keys in the snapshot to one new block, and stores in each of the `count` elements of
/// `values` where the value of its key is; `data` is NULL if the key does not exist. The caller frees `*block` with
/// pando_free. Threads: one call at a time for each snapshot.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_multi_get(
    snapshot: *const pando_snapshot,
    table: *const pando_table,
    keys: *const pando_bytes,
    count: usize,
    values: *mut pando_bytes,
    block: *mut *mut c_void,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (snapshot, table, keys, values, block, error) = unsafe {
        (
            Ref::new(snapshot),
            Ref::new(table),
            Array::new(keys, count),
            Outs::new(values, count),
            Out::new(block),
            Out::new(error),
        )
    };
    call(error, || {
        reads::multi_get(
            &Source::Snapshot(Arc::clone(snapshot.get()?)),
            &table.get()?.table,
            keys,
            (values, block),
        )
    })
}

/// Opens a cursor over the keys of `range` in the snapshot; NULL means every key. The caller frees it with
/// pando_cursor_free. Threads: one call at a time for each snapshot.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_cursor(
    snapshot: *const pando_snapshot,
    table: *const pando_table,
    range: *const pando_range,
    cursor: *mut *mut pando_cursor,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (snapshot, table, range, cursor, error) = unsafe {
        (Ref::new(snapshot), Ref::new(table), Array::new(range, 1), Out::new(cursor), Out::new(error))
    };
    call(error, || {
        let cursor = cursor.required("cursor", ptr::null_mut())?;
        let source = Source::Snapshot(Arc::clone(snapshot.get()?));
        let steps = reads::steps(source, &table.get()?.table, range)?;
        cursor.set(handle(Mutex::new(steps)));
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the number of the last commit that the snapshot sees. Threads: one call at a time for each snapshot.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_commit_number(
    snapshot: *const pando_snapshot,
    number: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (snapshot, number, error) = unsafe { (Ref::new(snapshot), Out::new(number), Out::new(error)) };
    call(error, || {
        let number = number.required("number", 0)?;
        number.set(snapshot.get()?.read(|snapshot| Ok(snapshot.commit_number()))?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a snapshot. Cursors over it keep what it sees until they are freed, too.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_free(snapshot: *mut pando_snapshot) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(snapshot) };
}
