//! Values and rows that SQLite passes for the duration of a call.

use super::OnConflict;
use crate::machine::ffi;
use rusqlite::types::ValueRef;
use std::ffi::c_int;
use std::slice;

/// The values that SQLite passes.
pub(crate) struct Arguments<'a> {
    values: &'a [*mut ffi::sqlite3_value],
}

impl<'a> Arguments<'a> {
    /// # Safety
    /// `values` points to `count` values that SQLite lends for `'a`.
    pub(super) unsafe fn new(count: c_int, values: *mut *mut ffi::sqlite3_value) -> Self {
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Arguments { values: &[] };
        }
        // SAFETY: as the caller promises; not null, since there is one.
        Arguments { values: unsafe { slice::from_raw_parts(values, count) } }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the value at `index`.
    pub fn get(&self, index: usize) -> ValueRef<'a> {
        let value = self.values[index];
        // SAFETY: a value that SQLite lends for `'a`. Text and blobs are asked for as what they are, so that nothing
        // is converted and the pointer stays good, and their length after their pointer, as the interface asks.
        unsafe {
            match ffi::sqlite3_value_type(value) {
                ffi::SQLITE_INTEGER => ValueRef::Integer(ffi::sqlite3_value_int64(value)),
                ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_value_double(value)),
                ffi::SQLITE_TEXT => {
                    let start = utf8(value);
                    ValueRef::Text(lent(start, ffi::sqlite3_value_bytes(value)))
                }
                ffi::SQLITE_BLOB => {
                    let start = ffi::sqlite3_value_blob(value).cast();
                    ValueRef::Blob(lent(start, ffi::sqlite3_value_bytes(value)))
                }
                _ => ValueRef::Null,
            }
        }
    }
}

/// Returns the start of a text in UTF-8. If the text is already UTF-8, no NUL is requested after it, because SQLite
/// would have to move most texts to append one.
///
/// # Safety
/// `value` is a text that SQLite lends.
unsafe fn utf8(value: *mut ffi::sqlite3_value) -> *const u8 {
    // A program that loads us may have a SQLite that cannot tell.
    #[cfg(not(feature = "loadable"))]
    // SAFETY: as the caller promises.
    unsafe {
        if ffi::sqlite3_value_encoding(value) == c_int::from(ffi::SQLITE_UTF8 as u8) {
            return ffi::sqlite3_value_blob(value).cast();
        }
    }
    // SAFETY: as the caller promises.
    unsafe { ffi::sqlite3_value_text(value) }
}

/// # Safety
/// `start` is null, or `count` bytes that live for `'a`.
unsafe fn lent<'a>(start: *const u8, count: c_int) -> &'a [u8] {
    match usize::try_from(count) {
        // SAFETY: as the caller promises.
        Ok(count) if !start.is_null() => unsafe { slice::from_raw_parts(start, count) },
        _ => &[],
    }
}

/// A change of one row. `row` has a value for each column. Rows are identified as the cursor identifies them: by their
/// id, or by their key in a table that is declared `WITHOUT ROWID`.
pub(crate) enum Change<'a> {
    /// `id` is null if the statement gives none.
    Insert {
        id: ValueRef<'a>,
        row: Row<'a>,
        on_conflict: OnConflict,
    },
    Update {
        old: ValueRef<'a>,
        new: ValueRef<'a>,
        row: Row<'a>,
        on_conflict: OnConflict,
    },
    Delete {
        id: ValueRef<'a>,
    },
}

/// The values of a row to be written.
pub(crate) struct Row<'a>(pub(super) Arguments<'a>);

impl<'a> Row<'a> {
    /// Returns the value of a column.
    pub fn get(&self, column: usize) -> ValueRef<'a> {
        self.0.get(column + 2)
    }
}
