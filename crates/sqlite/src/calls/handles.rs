//! Handles of incremental blobs, which SQLite keeps on a row: one is invalid once its row is changed by anything else,
//! because the place of the column in the record may be another one then.

use super::on_cursor;
use crate::cursor::Own;
use crate::failure::OK;
use crate::state::State;
use crate::sys::{PandoCursor, place};
use sqlite_format::key;
use std::ffi::c_int;

/// Notes that a cursor is that of a handle.
///
/// # Safety
/// Points 2 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_incrblob(tail: *mut PandoCursor) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_cursor(tail, |cursor| {
            if !cursor.state.handles.contains(&tail) {
                cursor.state.handles.push(tail);
            }
            Ok(OK)
        })
    }
}

/// Makes the handles on a row invalid, after a cursor has put or deleted it.
///
/// # Safety
/// Points 2 and 3 of the module.
#[inline]
pub(super) unsafe fn expire_row(by: *mut PandoCursor, rowid: i64) {
    // SAFETY: the cursor is open, so its part and its state are alive (2), and nothing else uses them now (3).
    let (root, state) = unsafe {
        let own = &*(*by).own.cast::<Own>();
        (own.tree.root(), &*own.state)
    };
    if !state.handles.is_empty() {
        // SAFETY: as the caller promises.
        unsafe { expire(state, root, Some(rowid), by) };
    }
}

/// Makes the handles on a row of a tree invalid, or those on all its rows, except for the one that was written by.
///
/// # Safety
/// Point 3 of the module, for all cursors of the state.
#[cold]
pub(super) unsafe fn expire(state: &State, root: u32, rowid: Option<i64>, by: *mut PandoCursor) {
    for &handle in state.handles.iter().filter(|handle| **handle != by) {
        // SAFETY: the list has cursors that are open, so their parts are alive (2), and nothing else uses them now (3).
        let (tail, own) = unsafe { (&mut *handle, &*(*handle).own.cast::<Own>()) };
        let on = match tail.place {
            place::VALID => own.memory.rows.get(tail.row as usize).map(|row| row.rowid),
            place::SAVED => key::rowid_of(&own.memory.key, &[]),
            _ => None,
        };
        if own.tree.root() == root && (rowid.is_none() || on == rowid) {
            // From nowhere it cannot read or write, but it can be moved to another row.
            tail.place = place::EOF;
        }
    }
}
