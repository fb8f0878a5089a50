//! Functions on a database: transactions, savepoints, roots, meta values.

use super::handles::expire;
use super::{on_state, put_or_fail};
use crate::cursor::count_some;
use crate::failure::Failure;
use crate::state::{Begin, State, pause};
use crate::sys::place;
use sqlite_format::names;
use std::ffi::{CStr, c_char, c_int};

/// Gives space back to the file system.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_compact(state: *mut State) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_state(state, |state| state.compact()) }
}

/// Begins to read, to write (1), or to write while others cannot (2). Writes the schema cookie to `cookie`, if that is
/// not null.
///
/// # Safety
/// Points 1 and 3 of the module; `cookie` is null or can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_begin(
    state: *mut State,
    kind: c_int,
    is_autocommit: c_int,
    savepoints: c_int,
    is_outermost: c_int,
    is_synced: c_int,
    cookie: *mut u32,
) -> c_int {
    let begin = Begin {
        is_write: kind != 0,
        is_immediate: kind == 2,
        is_autocommit: is_autocommit != 0,
        savepoints: usize::try_from(savepoints).unwrap_or(0),
        is_outermost: is_outermost != 0,
        is_synced: is_synced != 0,
    };
    // SAFETY: as the caller promises.
    unsafe {
        on_state(state, |state| {
            state.begin(begin)?;
            if !cookie.is_null() {
                *cookie = state.meta_value(names::COOKIE[0])?;
            }
            Ok(())
        })
    }
}

/// Begins an attempt of a statement after the first one, which is 0, and returns whether there is such an attempt; or
/// ends the attempts (0).
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_attempt(state: *mut State, number: c_int) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    let state = unsafe { &mut *state };
    match u32::try_from(number) {
        Ok(number @ 1..) => c_int::from(state.begin_attempt(number)),
        _ => {
            state.end_attempts();
            0
        }
    }
}

/// Returns whether the database was closed by another handle.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_is_closed(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    c_int::from(unsafe { &*state }.is_closed())
}

/// Returns whether what runs is an attempt of a transaction that is repeated.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_is_repeated(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    c_int::from(unsafe { &*state }.is_repeated)
}

/// Returns whether what only reads can have a conflict, as over a store.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_reads_conflict(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    c_int::from(unsafe { &*state }.db.native().is_none())
}

/// Notes that a turn outlasts its statement.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_lengthen(state: *mut State) {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    unsafe { &mut *state }.lengthen_turn();
}

/// Makes certain that the commit of a statement that is about to return a row meets no conflict.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_secure(state: *mut State, is_final: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_state(state, |state| state.secure(is_final != 0)) }
}

/// Pauses before a statement is repeated.
#[unsafe(no_mangle)]
extern "C" fn pando_bt_pause(attempt: c_int) {
    pause(u32::try_from(attempt).unwrap_or(0));
}

/// Returns the root of the tree in which the last commit met a conflict, 0 if there is none to be named.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_conflict_root(state: *mut State) -> u32 {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    unsafe { &*state }.conflict_root()
}

/// Says in which table and index the last conflict was.
///
/// # Safety
/// Points 1 and 3 of the module; `table` and `index` are strings of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_name_conflict(state: *mut State, table: *const c_char, index: *const c_char) {
    // SAFETY: as the caller promises.
    unsafe {
        let (table, index) =
            (CStr::from_ptr(table).to_string_lossy(), CStr::from_ptr(index).to_string_lossy());
        on_state(state, |state| {
            state.name_conflict(&table, &index);
            Ok(())
        })
    };
}

/// Returns the message of the last failure if it has this code, or if the code is 0; otherwise null. It is valid until
/// the next call.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_explain(state: *mut State, code: c_int) -> *const c_char {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    unsafe { &mut *state }.explain(code).map_or(std::ptr::null(), CStr::as_ptr)
}

/// Forgets the last failure.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_forget(state: *mut State) {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    unsafe { &mut *state }.failure = None;
}

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_commit(state: *mut State) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_state(state, State::commit) }
}

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_end(state: *mut State, is_reading: c_int) {
    // SAFETY: as the caller promises.
    unsafe {
        on_state(state, |state| {
            state.end(is_reading != 0);
            Ok(())
        })
    };
}

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_rollback(
    state: *mut State,
    trip: c_int,
    is_write_only: c_int,
    is_reading: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        (*state).writing = std::ptr::null_mut();
        if trip != 0 {
            pando_bt_trip(state, trip, is_write_only);
        }
        on_state(state, |state| {
            state.rollback(is_reading != 0);
            Ok(())
        })
    }
}

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_open_savepoints(state: *mut State, count: c_int) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: as the caller promises.
    unsafe { on_state(state, |state| state.open_savepoints(count)) }
}

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_savepoint(state: *mut State, is_rollback: c_int, at: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_state(state, |state| state.savepoint(is_rollback != 0, usize::try_from(at).ok())) }
}

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_txn_state(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    unsafe { &*state }.txn_state()
}

/// Makes cursors fail, all of them or those that write.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_trip(state: *mut State, code: c_int, is_write_only: c_int) {
    // SAFETY: as the caller promises. What a handle has written is put before the handle is invalid.
    let state = unsafe {
        put_or_fail(state);
        &*state
    };
    for &cursor in &state.cursors {
        // SAFETY: the list has the cursors that are open (2), each once.
        let tail = unsafe { &mut *cursor };
        if is_write_only == 0 || tail.is_write != 0 {
            tail.fault = code;
            tail.place = place::FAULT;
        }
    }
}

/// # Safety
/// Points 1 and 3 of the module; `root` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_create(state: *mut State, root: *mut u32) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_state(state, |state| {
            *root = state.create()?;
            Ok(())
        })
    }
}

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_drop(state: *mut State, root: u32) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_state(state, |state| state.drop_tree(root)) }
}

/// Deletes all entries of a tree, which can be `sqlite_sequence`.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_clear(state: *mut State, root: u32, is_counters: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let code = on_state(state, |state| state.clear(root, is_counters != 0));
        expire(&*state, root, None, std::ptr::null_mut());
        code
    }
}

/// Counts some entries of a tree, the first ones or those after the last call, and adds their number. `has_more` says
/// which, and then whether there are more.
///
/// # Safety
/// Points 1 and 3 of the module; `entries` and `has_more` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_count_tree(
    state: *mut State,
    root: u32,
    entries: *mut i64,
    has_more: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_state(state, |state| {
            if state.is_bare() {
                *has_more = 0;
                return Ok(());
            }
            let tree = state.tree(root)?;
            let some = count_some(state, &tree, *has_more != 0)?;
            *entries += some.entries;
            *has_more = c_int::from(some.has_more);
            Ok(())
        })
    }
}

/// # Safety
/// Points 1 and 3 of the module; `value` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_meta(state: *mut State, at: c_int, value: *mut u32) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        on_state(state, |state| {
            *value = if at == DATA_VERSION { state.data_version() } else { state.meta_value(at as u8)? };
            Ok(())
        })
    }
}

/// The number of the virtual meta value that changes with every commit of another connection.
const DATA_VERSION: c_int = 15;

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_set_meta(state: *mut State, at: c_int, value: u32) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { on_state(state, |state| state.set_meta(at as u8, value)) }
}

/// Returns the last root, or 0, which SQLite takes for a file without pages, if it cannot be read.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_last_root(state: *mut State) -> u32 {
    let mut root = 0;
    // SAFETY: as the caller promises.
    unsafe {
        on_state(state, |state| {
            root = state.last_root()?;
            Ok(())
        })
    };
    root
}

/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_is_read_only(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    c_int::from(unsafe { &*state }.is_read_only())
}

/// Returns whether nothing of SQL was created in the database yet. It can only be read then.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_is_bare(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    c_int::from(unsafe { &*state }.is_bare())
}

/// Checks all pages of the last committed state. Writes what it finds as a string of C of at most `most` bytes, and
/// returns whether that is anything.
///
/// # Safety
/// Points 1 and 3 of the module; `text` has `most` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_check(state: *mut State, text: *mut c_char, most: c_int) -> c_int {
    let mut found = None;
    // SAFETY: as the caller promises.
    let code = unsafe {
        on_state(state, |state| {
            found = state.check()?;
            Ok(())
        })
    };
    if code != 0 {
        found = Some(format!("the database cannot be checked (error {code})"));
    }
    let Some(found) = found else { return 0 };
    let most = usize::try_from(most).unwrap_or(0).saturating_sub(1);
    let bytes = &found.as_bytes()[..found.floor_char_boundary(most)];
    // SAFETY: `text` has room for `most` bytes and the zero after them; `found` is another object.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), text.cast(), bytes.len());
        *text.add(bytes.len()) = 0;
    }
    1
}

/// Notes a failure that the glue found, and returns its code.
///
/// # Safety
/// Points 1 and 3 of the module; `text` and `subject` are strings of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_fail(
    state: *mut State,
    code: c_int,
    text: *const c_char,
    subject: *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let message = format!(
            "{}{}",
            CStr::from_ptr(text).to_string_lossy(),
            CStr::from_ptr(subject).to_string_lossy()
        );
        on_state(state, |_| Err(Failure::new(code, message)))
    }
}
