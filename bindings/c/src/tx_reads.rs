//! Reads within a transaction.

use crate::code::pando_code;
use crate::cursor::pando_cursor;
use crate::error::{call, pando_error};
use crate::memory::{Array, Buffer, Bytes, Out, Outs, Ref, handle};
use crate::reads::{self, Copied, pando_bytes, pando_range};
use crate::table::pando_table;
use crate::tx::pando_tx;
use binding::Source;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex};

/// Copies the value of `key` as the transaction sees it, with its own writes, to a new block, which the caller frees
/// with pando_free, and stores its length. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a
/// time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_get(
    tx: *const pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_void,
    value_len: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, value, value_len, error) = unsafe {
        (
            Ref::new(tx),
            Ref::new(table),
            Bytes::new(key, key_len),
            Out::new(value),
            Out::new(value_len),
            Out::new(error),
        )
    };
    call(error, || {
        reads::get(
            &Source::Transaction(Arc::clone(&tx.get()?.begun)),
            &table.get()?.table,
            key.key()?,
            Copied { value, value_len },
        )
    })
}

/// Copies the value of `key` as the transaction sees it to the caller's buffer and stores its length. If the buffer
/// is too short, nothing is copied, the length is stored all the same, and the result is PANDO_TOO_SMALL. Returns
/// PANDO_ABSENT if the key does not exist. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_get_into(
    tx: *const pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    buffer: *mut c_void,
    buffer_len: usize,
    value_len: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, buffer, value_len, error) = unsafe {
        (
            Ref::new(tx),
            Ref::new(table),
            Bytes::new(key, key_len),
            Buffer::new(buffer, buffer_len),
            Out::new(value_len),
            Out::new(error),
        )
    };
    call(error, || {
        reads::get_into(
            &Source::Transaction(Arc::clone(&tx.get()?.begun)),
            &table.get()?.table,
            key.key()?,
            (buffer, value_len),
        )
    })
}

/// Returns PANDO_OK if `key` exists as the transaction sees it, PANDO_ABSENT if it does not. Threads: one call at a
/// time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_exists(
    tx: *const pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, error) =
        unsafe { (Ref::new(tx), Ref::new(table), Bytes::new(key, key_len), Out::new(error)) };
    call(error, || {
        reads::exists(&Source::Transaction(Arc::clone(&tx.get()?.begun)), &table.get()?.table, key.key()?)
    })
}

/// Copies the values of `count` keys as the transaction sees them to one new block, and stores in each of the `count`
/// elements of `values` where the value of its key is; `data` is NULL if the key does not exist. The caller frees
/// `*block` with pando_free. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_multi_get(
    tx: *const pando_tx,
    table: *const pando_table,
    keys: *const pando_bytes,
    count: usize,
    values: *mut pando_bytes,
    block: *mut *mut c_void,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, keys, values, block, error) = unsafe {
        (
            Ref::new(tx),
            Ref::new(table),
            Array::new(keys, count),
            Outs::new(values, count),
            Out::new(block),
            Out::new(error),
        )
    };
    call(error, || {
        reads::multi_get(
            &Source::Transaction(Arc::clone(&tx.get()?.begun)),
            &table.get()?.table,
            keys,
            (values, block),
        )
    })
}

/// Opens a cursor over the keys of `range` as the transaction sees them; NULL means every key. The caller frees it
/// with pando_cursor_free. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_cursor(
    tx: *const pando_tx,
    table: *const pando_table,
    range: *const pando_range,
    cursor: *mut *mut pando_cursor,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, range, cursor, error) =
        unsafe { (Ref::new(tx), Ref::new(table), Array::new(range, 1), Out::new(cursor), Out::new(error)) };
    call(error, || {
        let cursor = cursor.required("cursor", ptr::null_mut())?;
        let source = Source::Transaction(Arc::clone(&tx.get()?.begun));
        let steps = reads::steps(source, &table.get()?.table, range)?;
        cursor.set(handle(Mutex::new(steps)));
        Ok(pando_code::PANDO_OK)
    })
}
