//! Functions on a cursor.

use super::handles::expire_row;
use super::{on_cursor, on_cursor_beside, on_state, put_or_fail};
use crate::cursor::{Cursor, Own};
use crate::failure::{DONE, Failure, OK, Outcome};
use crate::state::{State, Work};
use crate::sys::{PandoCursor, PandoValue, UnpackedRecord, pando_bt_field, place};
use pando::any::AnySnapshot;
use sqlite_format::key::{Collation, Order};
use sqlite_format::record::Field;
use std::ffi::c_int;

/// The number of bytes that `c/glue.c` reserves for the `own` of a cursor.
// SAFETY: no other symbol has this name.
#[unsafe(export_name = "pando_bt_own_bytes")]
static OWN_BYTES: c_int = size_of::<Own>() as c_int;
// SQLite's memory is aligned to eight bytes.
const _: () = assert!(size_of::<Own>() < 1024 && align_of::<Own>() <= 8);

/// Opens a cursor. `orders` are the orders of an index, null for a table, and `key_fields` is how many of them are
/// those of its key, -1 if all are.
///
/// # Safety
/// Points 1 and 3 of the module; `orders` is null or has `order_count` bytes; `tail` is zeroed but for its kind and
/// `own`, which points to [`OWN_BYTES`] bytes that nothing else uses.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_cursor(
    state: *mut State,
    root: u32,
    orders: *const u8,
    order_count: c_int,
    key_fields: c_int,
    tail: *mut PandoCursor,
) -> c_int {
    // SAFETY: as the caller promises. The cursor's part is written where there is room for it, aligned, and
    // `pando_bt_close_cursor` takes it back.
    unsafe {
        on_state(state, |inner| {
            let tree = inner.tree(root)?;
            let orders = (!orders.is_null()).then(|| slice(orders, i64::from(order_count)));
            let shape = orders.map(|orders| {
                tree.shape(orders.iter().map(|&byte| order(byte)), usize::try_from(key_fields).ok())
            });
            (*tail).version = tree.version.as_ptr();
            (*tail).place = place::EOF;
            let memory = inner.spare.take((root, shape.is_some()));
            (*tail).stamp = memory.known.stamp;
            (*tail).own.cast::<Own>().write(Own::new(state, tree, shape, memory));
            inner.cursors.push(tail);
            Ok(())
        })
    }
}

/// Reads an order as `glue.c` writes it.
fn order(byte: u8) -> Order {
    let collation = match byte >> 1 {
        1 => Collation::NoCase,
        2 => Collation::RTrim,
        _ => Collation::Binary,
    };
    Order { collation, descending: byte & 1 == 1 }
}

/// # Safety
/// Points 2 and 3 of the module; the cursor is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_close_cursor(tail: *mut PandoCursor) {
    // SAFETY: the cursor is open (2), so that its part is what was written at opening, which is taken back here.
    unsafe {
        let state = (*(*tail).own.cast::<Own>()).state;
        if (*state).writing == tail {
            put_or_fail(state);
        }
        let own = (*tail).own.cast::<Own>().read();
        (*tail).own = std::ptr::null_mut();
        (*own.state).pins.retain(|&(pinned, _)| !std::ptr::eq(pinned, tail));
        let cursors = &mut (*own.state).cursors;
        if let Some(at) = cursors.iter().position(|&cursor| cursor == tail) {
            cursors.swap_remove(at);
        }
        (*own.state).handles.retain(|&handle| handle != tail);
        let state = &mut *own.state;
        let is_reading = matches!(state.work, Work::Reading(AnySnapshot::Native(_)));
        let tree = (own.tree.root(), own.shape.is_some());
        state.spare.keep(own.memory, is_reading.then_some((tree, (*tail).stamp)));
    }
}

/// # Safety
/// Points 2 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_first(tail: *mut PandoCursor, is_last: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_cursor(tail, |cursor| cursor.move_to_end(is_last != 0).map(|()| OK)) }
}

/// # Safety
/// Points 2 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_step(tail: *mut PandoCursor, is_backward: c_int) -> c_int {
    let code = |moved| if moved { OK } else { DONE };
    // SAFETY: as the caller promises.
    unsafe { on_cursor(tail, |cursor| cursor.step(is_backward != 0).map(code)) }
}

/// # Safety
/// Points 2 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_ensure(tail: *mut PandoCursor) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_cursor(tail, |cursor| cursor.ensure().map(|()| OK)) }
}

/// # Safety
/// Points 2 and 3 of the module; `is_different` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_restore(tail: *mut PandoCursor, is_different: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        *is_different = 1;
        on_cursor(tail, |cursor| {
            *is_different = c_int::from(cursor.restore()?);
            Ok(OK)
        })
    }
}

/// Moves before a rowid above `counter` that is taken for the next row.
///
/// # Safety
/// Points 2 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_new_rowid(tail: *mut PandoCursor, counter: i64) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_cursor(tail, |cursor| cursor.new_rowid(counter).map(|()| OK)) }
}

/// # Safety
/// Points 2 and 3 of the module; `result` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_seek_rowid(tail: *mut PandoCursor, rowid: i64, result: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_cursor(tail, |cursor| {
            *result = if cursor.seek_rowid(rowid)? { 0 } else { -1 };
            Ok(OK)
        })
    }
}

/// Moves to the first row from a rowid on.
///
/// # Safety
/// Points 2 and 3 of the module; `result` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_seek_from(tail: *mut PandoCursor, rowid: i64, result: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_cursor(tail, |cursor| {
            *result = cursor.seek_from(rowid)?;
            Ok(OK)
        })
    }
}

/// # Safety
/// Points 2 and 3 of the module; `record` has `fields` fields; `result` and `is_seen` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_seek_key(
    tail: *mut PandoCursor,
    record: *const UnpackedRecord,
    fields: c_int,
    default: c_int,
    is_equal_asked: c_int,
    result: *mut c_int,
    is_seen: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_cursor(tail, |cursor| {
            let is_whole = set_sought(cursor.own, record, fields)?;
            let found = cursor.seek_key(is_whole, default, is_equal_asked != 0)?;
            (*result, *is_seen) = (found.result, c_int::from(found.is_equal));
            Ok(OK)
        })
    }
}

/// Moves to the entry with a whole key, which is taken to exist and is not read. Otherwise it stays, and `is_there` is
/// not set.
///
/// # Safety
/// Points 2 and 3 of the module; `record` has `fields` fields; `is_there` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_expect_entry(
    tail: *mut PandoCursor,
    record: *const UnpackedRecord,
    fields: c_int,
    is_there: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_cursor(tail, |cursor| {
            let is_whole = set_sought(cursor.own, record, fields)?;
            *is_there = c_int::from(is_whole && cursor.expect_sought()?);
            Ok(OK)
        })
    }
}

/// Sets what is sought to the key of a record's first fields. Returns whether that is a whole key.
///
/// # Safety
/// `record` has so many fields, and stays as it is meanwhile.
unsafe fn set_sought(own: &mut Own, record: *const UnpackedRecord, fields: c_int) -> Outcome<bool> {
    own.memory.sought.clear();
    own.memory.sought_rest.clear();
    let Some(shape) = &own.shape else { return Ok(false) };
    for at in 0..fields {
        // SAFETY: as the caller promises.
        let (field, at) = (unsafe { field(record, at)? }, at as usize);
        let into = if shape.has(at) { &mut own.memory.sought } else { &mut own.memory.sought_rest };
        shape.push(into, at, &field);
    }
    Ok(usize::try_from(fields).is_ok_and(|fields| shape.is_whole(fields)))
}

/// Reads a field of a key that is sought.
///
/// # Safety
/// `record` has such a field, and stays as it is while the field is used.
unsafe fn field<'r>(record: *const UnpackedRecord, at: c_int) -> Outcome<Field<'r>> {
    let mut value = PandoValue { kind: 0, integer: 0, real: 0.0, bytes: std::ptr::null(), len: 0 };
    // SAFETY: as the caller promises; the bytes are those of the register that the field is in.
    unsafe {
        pando_bt_field(record, at, &raw mut value);
        Ok(match value.kind {
            1 => Field::Integer(value.integer),
            2 => Field::Real(value.real),
            3 => Field::Text(slice(value.bytes, value.len)),
            4 => Field::Blob(slice(value.bytes, value.len)),
            5 => Field::Null,
            _ => return Err(Failure::new(NO_MEMORY, "no memory for a blob of zeros")),
        })
    }
}

const NO_MEMORY: c_int = 7;

/// Reads the record of the row that the cursor is on as a whole.
///
/// # Safety
/// Points 2 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_complete(tail: *mut PandoCursor) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_cursor(tail, |cursor| cursor.complete().map(|()| OK)) }
}

/// # Safety
/// Points 2 and 3 of the module; `record` has `bytes` bytes, or is null and `bytes` is 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_put_row(
    tail: *mut PandoCursor,
    rowid: i64,
    record: *const u8,
    bytes: i64,
    zeros: i64,
) -> c_int {
    let zeros = usize::try_from(zeros).unwrap_or(0);
    // SAFETY: as the caller promises.
    unsafe {
        let code = on_cursor(tail, |cursor| cursor.put_row(rowid, slice(record, bytes), zeros).map(|()| OK));
        expire_row(tail, rowid);
        code
    }
}

/// # Safety
/// Points 2 and 3 of the module; `record` has `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_put_entry(tail: *mut PandoCursor, record: *const u8, bytes: i64) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_cursor(tail, |cursor| cursor.put_entry(slice(record, bytes)).map(|()| OK)) }
}

/// # Safety
/// Points 2 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_delete(tail: *mut PandoCursor) -> c_int {
    let mut deleted = None;
    // SAFETY: as the caller promises.
    unsafe {
        let code = on_cursor(tail, |cursor| {
            deleted = cursor.delete()?;
            Ok(OK)
        });
        if let Some(rowid) = deleted {
            expire_row(tail, rowid);
        }
        code
    }
}

/// Begins or ends that other cursors cannot write to the tree.
///
/// # Safety
/// Points 2 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_pin(tail: *mut PandoCursor, is_pinned: c_int) {
    // SAFETY: as the caller promises.
    unsafe {
        on_cursor(tail, |cursor| {
            cursor.state.pins.retain(|&(pinned, _)| !std::ptr::eq(pinned, tail));
            if is_pinned != 0 {
                cursor.state.pins.push((tail, cursor.own.tree.version.as_ptr()));
            }
            Ok(OK)
        });
    }
}

/// Counts some entries of the cursor's tree, as `pando_bt_count_tree` does.
///
/// # Safety
/// Points 2 and 3 of the module; `entries` and `has_more` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_count(
    tail: *mut PandoCursor,
    entries: *mut i64,
    has_more: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_cursor(tail, |cursor| {
            let some = cursor.count_some(*has_more != 0)?;
            *entries += some.entries;
            *has_more = c_int::from(some.has_more);
            Ok(OK)
        })
    }
}

/// # Safety
/// Points 2 and 3 of the module; `data` has `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_put_data(
    tail: *mut PandoCursor,
    offset: u32,
    bytes: u32,
    data: *const u8,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let put = |cursor: &mut Cursor<'_>| {
            cursor.put_data(offset as usize, slice(data, bytes.into())).map(|()| OK)
        };
        on_cursor_beside(tail, tail, put)
    }
}

/// Returns bytes of C's.
///
/// # Safety
/// There are `len` bytes at `bytes`, or it is null and `len` is 0; they stay as they are while the slice is used.
unsafe fn slice<'b>(bytes: *const u8, len: i64) -> &'b [u8] {
    match usize::try_from(len) {
        // SAFETY: as the caller promises.
        Ok(len) if len > 0 => unsafe { std::slice::from_raw_parts(bytes, len) },
        _ => &[],
    }
}
