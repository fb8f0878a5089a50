//! The functions that `c/glue.c` calls.
//!
//! # What every function relies on
//! 1. A pointer to a [`State`] is the one that `pando_bt_open` returned, and `pando_bt_close` did not take it yet. The
//!    glue keeps it in the Btree, and calls nothing with a Btree that is closed.
//! 2. A pointer to a [`PandoCursor`] is the tail of a cursor that `pando_bt_cursor` opened and `pando_bt_close_cursor`
//!    did not close. The glue marks it with a kind other than 0 for exactly this time. Its `own` then points to what
//!    was written at opening, and the state in that is alive: SQLite closes cursors before their Btree, and does not
//!    move them.
//! 3. All calls of one connection happen in one thread at a time: a [`Connection`](crate::Connection) is not `Sync`,
//!    and a program in C has the connection's mutex, or has given its word. None of them calls SQLite back, except for
//!    `pando_bt_field` and `pando_is_interrupted`, which only read. So the state, the tail and `own` are three objects
//!    that nothing else uses during a call.
//! 4. No panic leaves a function: it becomes `SQLITE_INTERNAL`.

mod opening;
mod trees;
mod cursors;
mod handles;

use crate::cursor::{Cursor, Own};
use crate::failure::{Failure, INTERNAL, OK, Outcome};
use crate::state::{State, Work};
use crate::sys::PandoCursor;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`, and returns its code, or that of its failure, which is noted.
fn run<T>(
    target: &mut T,
    state: impl Fn(&mut T) -> &mut State,
    work: impl FnOnce(&mut T) -> Outcome<c_int>,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(|| work(target))) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => state(target).note(failure),
        Err(_) => state(target).note(Failure::new(INTERNAL, "a panic in the engine")),
    }
}

/// Runs `work` on a state.
///
/// # Safety
/// Points 1 and 3 of the module.
unsafe fn on_state(state: *mut State, work: impl FnOnce(&mut State) -> Outcome<()>) -> c_int {
    // SAFETY: as the caller promises.
    let code = unsafe { put_written(state, std::ptr::null_mut()) };
    if code != OK {
        return code;
    }
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    let state = unsafe { &mut *state };
    run(state, |state| state, |state| work(state).map(|()| OK))
}

/// Puts what a handle of a blob has written, unless that handle is `by`.
///
/// # Safety
/// Points 1 and 3 of the module, for the handle, too.
#[inline]
unsafe fn put_written(state: *mut State, by: *mut PandoCursor) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    let handle = unsafe { (*state).writing };
    // SAFETY: as the caller promises.
    if handle.is_null() || handle == by { OK } else { unsafe { put_written_by(handle) } }
}

/// Puts what a handle of a blob has written, where no error can be returned. After a failure, the transaction can only
/// be rolled back.
///
/// # Safety
/// Points 1 and 3 of the module, for the handle, too.
unsafe fn put_or_fail(state: *mut State) {
    // SAFETY: as the caller promises.
    let code = unsafe { put_written(state, std::ptr::null_mut()) };
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    let state = unsafe { &mut *state };
    if code != OK && !matches!(state.work, Work::Failed(_)) {
        let failure = state.failure.clone();
        let unknown = || Failure::new(code, "what a handle of a blob has written could not be put");
        state.work = Work::Failed(failure.unwrap_or_else(unknown));
    }
}

/// # Safety
/// Points 2 and 3 of the module; the cursor is the one that has written.
#[cold]
unsafe fn put_written_by(handle: *mut PandoCursor) -> c_int {
    // SAFETY: as in `on_cursor`.
    let mut cursor = unsafe { cursor(handle) };
    cursor.state.writing = std::ptr::null_mut();
    run(&mut cursor, |cursor| cursor.state, |cursor| cursor.put_written().map(|()| OK))
}

/// Runs `work` on a cursor, after it has put what a handle of a blob has written.
///
/// # Safety
/// Points 2 and 3 of the module.
unsafe fn on_cursor(tail: *mut PandoCursor, work: impl FnOnce(&mut Cursor<'_>) -> Outcome<c_int>) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_cursor_beside(tail, std::ptr::null_mut(), work) }
}

/// Runs `work` on a cursor, after it has put what a handle of a blob has written, unless that handle is `writing`.
///
/// # Safety
/// Points 2 and 3 of the module.
unsafe fn on_cursor_beside(
    tail: *mut PandoCursor,
    writing: *mut PandoCursor,
    work: impl FnOnce(&mut Cursor<'_>) -> Outcome<c_int>,
) -> c_int {
    // SAFETY: the tail is open, so its `own` and the state in that are alive (2), and so is a handle of that state.
    let code = unsafe { put_written((*(*tail).own.cast::<Own>()).state, writing) };
    if code != OK {
        return code;
    }
    // SAFETY: as the caller promises.
    let mut cursor = unsafe { cursor(tail) };
    run(&mut cursor, |cursor| cursor.state, work)
}

/// # Safety
/// Points 2 and 3 of the module, for as long as the result is used.
unsafe fn cursor<'c>(tail: *mut PandoCursor) -> Cursor<'c> {
    // SAFETY: the tail is open, so its `own` and the state in that are alive (2). They are three objects, and nothing
    // else uses them during the call (3).
    unsafe {
        let tail = &mut *tail;
        let own = &mut *tail.own.cast::<Own>();
        let state = &mut *own.state;
        Cursor { tail, own, state }
    }
}
