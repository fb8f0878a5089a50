//! Cursors: records in order.

use crate::code::pando_code;
use crate::error::{ErrorOut, call, pando_error};
use crate::memory::{self, Bytes, Out, Ref, handles};
use crate::reads::{NONE, pando_bytes};
use binding::{Direction, Failure, Steps};
use std::ffi::c_void;
use std::sync::Mutex;

/// A cursor over the records of a range. It stands before the first record, on one, or after the last. Free it with
/// pando_cursor_free.
///
/// A cursor over a transaction sees the transaction's writes up to the last step. It reads ahead by a chunk of at
/// most 2048 records: a change of a record that was read ahead is a conflict, too.
pub struct pando_cursor {
    _private: (),
}

handles! {
    pando_cursor = Mutex<Steps>, "the cursor", b"pandocur";
}

/// Goes one step, and stores the record.
fn step(
    cursor: Ref<'_, pando_cursor>,
    direction: Direction,
    (key, value): (Out<pando_bytes>, Out<pando_bytes>),
    error: ErrorOut,
) -> pando_code {
    call(error, || {
        key.set(NONE);
        value.set(NONE);
        let mut steps = cursor.get()?.try_lock().map_err(|_| Failure::in_use("the cursor"))?;
        let Some((found_key, found_value)) = steps.step(direction)? else {
            return Ok(pando_code::PANDO_ABSENT);
        };
        key.set(pando_bytes::lent(found_key));
        value.set(pando_bytes::lent(found_value));
        Ok(pando_code::PANDO_OK)
    })
}

/// Goes to the next record, at first to the first one. Stores where its key and value are; each of the outputs may be
/// NULL. The bytes live until the next call with this cursor. Returns PANDO_ABSENT after the last record; a step back
/// then goes to the last record. Threads: one call at a time for each cursor.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_cursor_next(
    cursor: *mut pando_cursor,
    key: *mut pando_bytes,
    value: *mut pando_bytes,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (cursor, key, value, error) =
        unsafe { (Ref::of_mut(cursor), Out::new(key), Out::new(value), Out::new(error)) };
    step(cursor, Direction::Forward, (key, value), error)
}

/// Goes to the record before, at first to the last one. The rest is as for pando_cursor_next; PANDO_ABSENT means that
/// there is no record before. Threads: one call at a time for each cursor.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_cursor_prev(
    cursor: *mut pando_cursor,
    key: *mut pando_bytes,
    value: *mut pando_bytes,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (cursor, key, value, error) =
        unsafe { (Ref::of_mut(cursor), Out::new(key), Out::new(value), Out::new(error)) };
    step(cursor, Direction::Backward, (key, value), error)
}

/// Goes to a place between records: pando_cursor_next then returns the first record at or after `key`,
/// pando_cursor_prev the last one before it, both within the range. Reads nothing. Threads: one call at a time for
/// each cursor.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_cursor_seek(
    cursor: *mut pando_cursor,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (cursor, key, error) = unsafe { (Ref::of_mut(cursor), Bytes::new(key, key_len), Out::new(error)) };
    call(error, || {
        let key = key.key()?;
        cursor.get()?.try_lock().map_err(|_| Failure::in_use("the cursor"))?.seek(key)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a cursor.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_cursor_free(cursor: *mut pando_cursor) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(cursor) };
}
