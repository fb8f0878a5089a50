//! Functions that open and close a database.

use crate::failure::{CANTOPEN, Failure, Outcome};
use crate::files::{self, How};
use crate::registry;
use crate::state::State;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Opens the database that a token stands for. On failure returns null and sets `code`.
///
/// # Safety
/// `token` is a string of C, and `code` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_open(token: *const c_char, code: *mut c_int) -> *mut State {
    // SAFETY: as the caller promises.
    unsafe {
        opened(code, || {
            let token = CStr::from_ptr(token).to_str().ok();
            let unknown = || Failure::new(CANTOPEN, "no database was offered by this name");
            State::new(token.and_then(registry::find).ok_or_else(unknown)?)
        })
    }
}

/// Returns whether a name is that of a directory for Pando.
///
/// # Safety
/// `path` is a string of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_is_ours(path: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    let path = unsafe { CStr::from_ptr(path) };
    // SQLite's names are UTF-8. What is not is SQLite's to refuse.
    c_int::from(path.to_str().is_ok_and(|path| files::is_ours(Path::new(path))))
}

/// Opens the database in a directory. On failure returns null and sets `code`.
///
/// # Safety
/// `path` is a string of C, and `code` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_open_directory(
    path: *const c_char,
    is_read_only: c_int,
    may_create: c_int,
    code: *mut c_int,
) -> *mut State {
    let how = How { is_read_only: is_read_only != 0, may_create: may_create != 0 };
    // SAFETY: as the caller promises.
    unsafe {
        opened(code, || {
            let path = CStr::from_ptr(path).to_str();
            let path = path.map_err(|_| Failure::new(CANTOPEN, "the path is not UTF-8"))?;
            State::in_directory(path, how)
        })
    }
}

/// Opens a state. On failure returns null and sets `code`.
///
/// # Safety
/// `code` can be written.
unsafe fn opened(code: *mut c_int, open: impl FnOnce() -> Outcome<State>) -> *mut State {
    let failed = match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(state)) => return Box::into_raw(Box::new(state)),
        Ok(Err(failure)) => failure.code,
        Err(_) => crate::failure::INTERNAL,
    };
    // SAFETY: as the caller promises.
    unsafe { *code = failed };
    std::ptr::null_mut()
}

/// Opens a state's database once more; on failure returns null and sets `code`. If it replaces, each transaction begins
/// with no tables.
///
/// # Safety
/// Points 1 and 3 of the module; `code` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_again(state: *mut State, is_replacing: c_int, code: *mut c_int) -> *mut State {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3); the rest is as the caller promises.
    unsafe { opened(code, || (*state).again(is_replacing != 0)) }
}

/// Returns whether SQL has made no table in the database yet; if that cannot be known, 0.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_is_new(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    c_int::from(unsafe { &*state }.is_new().unwrap_or(false))
}

/// Returns the name that SQLite opened. It is valid until the state is closed.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_name(state: *mut State) -> *const c_char {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    unsafe { &*state }.name().as_ptr()
}

/// Returns whether another directory, or none, has the name that SQLite opened.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_has_moved(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    c_int::from(unsafe { &*state }.has_moved())
}

/// Returns the size of the database's pages in bytes, or 0 if it is in a remote store or is closed.
///
/// # Safety
/// Points 1 and 3 of the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_page_bytes(state: *mut State) -> c_int {
    // SAFETY: it is alive (1), and nothing else uses it during the call (3).
    c_int::try_from(unsafe { &*state }.page_bytes().unwrap_or(0)).unwrap_or(0)
}

/// Closes a database, and rolls its transaction back.
///
/// # Safety
/// Points 1 and 3 of the module; the state is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn pando_bt_close(state: *mut State) {
    // SAFETY: `pando_bt_open` made it, and this is the only call that takes it back.
    let state = unsafe { Box::from_raw(state) };
    debug_assert!(state.cursors.is_empty(), "SQLite closes cursors before their database");
    // A panic must not reach C; what is left of the state is then not freed.
    drop(catch_unwind(AssertUnwindSafe(|| drop(state))));
}
