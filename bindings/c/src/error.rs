//! Errors as objects, and how every call runs.

use crate::code::pando_code;
use crate::memory::{self, Out, Ref, handle, handles};
use binding::{Failure, Outcome};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

/// Why a call has failed. Free it with pando_error_free.
pub struct pando_error {
    _private: (),
}

/// What an error holds.
pub struct Object {
    code: pando_code,
    message: CString,
    table: Option<CString>,
    key: Option<Vec<u8>>,
    sqlite_code: c_int,
}

handles! {
    pando_error = Object, "the error", b"pandoerr";
}

/// A string for C; what follows a zero byte is lost.
pub(crate) fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Where a call reports why it has failed.
pub(crate) type ErrorOut = Out<*mut pando_error>;

/// Runs the work of a function: catches panics, and reports a failure to `error`.
pub(crate) fn call(error: ErrorOut, work: impl FnOnce() -> Outcome<pando_code>) -> pando_code {
    error.set(ptr::null_mut());
    match binding::guard(work) {
        Ok(code) => code,
        Err(failure) => report(error, failure),
    }
}

#[cold]
fn report(error: ErrorOut, failure: Failure) -> pando_code {
    let Failure { kind, message, table, key, sqlite_code } = failure;
    let sqlite_code = sqlite_code.unwrap_or(0);
    let code = pando_code::from(kind);
    let (message, table) = (c_string(&message), table.as_deref().map(c_string));
    error.set_with(|| handle::<pando_error>(Object { code, message, table, key, sqlite_code }));
    code
}

/// Returns the code of an error; PANDO_MISUSE if `error` is NULL or no error. Threads: any, see the top.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_error_code(error: *const pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let error = unsafe { Ref::new(error) };
    error.get().map_or(pando_code::PANDO_MISUSE, |error| error.code)
}

/// Returns what happened, where, and what to do. The string lives as long as the error. It is never NULL: without an
/// error it is empty. Threads: any, see the top.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_error_message(error: *const pando_error) -> *const c_char {
    // SAFETY: as the header demands of its arguments.
    let error = unsafe { Ref::new(error) };
    error.get().map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Returns the name of the table of a conflict; NULL if the error is no conflict, or its table is not known. The
/// string lives as long as the error. Threads: any, see the top.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_error_table(error: *const pando_error) -> *const c_char {
    // SAFETY: as the header demands of its arguments.
    let error = unsafe { Ref::new(error) };
    let table = error.get().ok().and_then(|error| error.table.as_ref());
    table.map_or(ptr::null(), |table| table.as_ptr())
}

/// Returns the key of a conflict and stores its length in bytes; NULL and 0 if the error is no conflict, or is one
/// about a table itself. The bytes live as long as the error. Threads: any, see the top.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_error_key(error: *const pando_error, key_len: *mut usize) -> *const c_void {
    // SAFETY: as the header demands of its arguments.
    let (error, key_len) = unsafe { (Ref::new(error), Out::new(key_len)) };
    let key = error.get().ok().and_then(|error| error.key.as_deref());
    key_len.set(key.map_or(0, <[u8]>::len));
    key.map_or(ptr::null(), |key| memory::lent(key).cast())
}

/// Returns SQLite's extended result code of a statement that has failed, such as 2067 for SQLITE_CONSTRAINT_UNIQUE; 0
/// for every other error. Threads: any, see the top.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_error_sqlite_code(error: *const pando_error) -> c_int {
    // SAFETY: as the header demands of its arguments.
    let error = unsafe { Ref::new(error) };
    error.get().map_or(0, |error| error.sqlite_code)
}

/// Frees an error. Threads: any, see the top.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_error_free(error: *mut pando_error) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(error) };
}
