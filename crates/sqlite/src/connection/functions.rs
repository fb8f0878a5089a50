//! Functions of the program's own, which statements call by name.

use super::{Connection, Error, Value, ValueRef, statement::lent};
use crate::failure::OK;
use crate::ffi;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// A function of a connection.
type Function = Box<dyn FnMut(&[ValueRef<'_>]) -> Result<Value, String> + Send>;

impl Connection {
    /// Adds a function of SQL with a number of arguments, or replaces the function of that name and number, which can
    /// be one of SQLite's own. If the function returns an error or panics, the statement fails. It must not use the
    /// connection.
    ///
    /// # Errors
    /// An error if there are more than 127 arguments, if the name is too long, or if a statement that uses the function
    /// is running.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pando_sqlite::{Connection, Value, ValueRef};
    /// let connection = Connection::in_memory()?;
    /// connection.create_function("half", 1, |arguments| match arguments[0] {
    ///     ValueRef::Integer(number) => Ok(Value::Integer(number / 2)),
    ///     _ => Err("half() takes an integer".into()),
    /// })?;
    /// assert_eq!(connection.query("SELECT half(8)")?, [[Value::Integer(4)]]);
    /// assert_eq!(connection.query("SELECT half('x')").unwrap_err().message, "half() takes an integer");
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_function(
        &self,
        name: &str,
        arguments: u8,
        function: impl FnMut(&[ValueRef<'_>]) -> Result<Value, String> + Send + 'static,
    ) -> Result<(), Error> {
        let name = CString::new(name).map_err(|_| Error::misuse("the name has a zero byte"))?;
        let context = Box::into_raw(Box::new(Box::new(function) as Function)).cast();
        // SAFETY: the connection is open. SQLite calls `free` once it needs the context no more, also if this fails.
        let code = unsafe {
            ffi::sqlite3_create_function_v2(
                self.as_ptr(),
                name.as_ptr(),
                c_int::from(arguments),
                ffi::SQLITE_UTF8,
                context,
                Some(called),
                None,
                None,
                Some(free),
            )
        };
        if code == OK { Ok(()) } else { Err(self.error(code)) }
    }
}

/// # Safety
/// SQLite calls it with the context that was set, once.
unsafe extern "C" fn free(context: *mut c_void) {
    // SAFETY: `create_function` made it.
    drop(unsafe { Box::from_raw(context.cast::<Function>()) });
}

/// # Safety
/// SQLite calls it within a statement, with `count` values.
unsafe extern "C" fn called(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: the values live during the call. Texts and blobs are asked for as what they are, their length after
    // them, so that the pointers stay good.
    let arguments: Vec<ValueRef<'_>> = unsafe {
        let values = match usize::try_from(count) {
            Ok(count) if count > 0 => slice::from_raw_parts(values, count),
            _ => &[],
        };
        values.iter().map(|&value| argument(value)).collect()
    };
    // SAFETY: the context is that of `create_function`. The function does not use the connection, so it is not called
    // within itself.
    let function = unsafe { &mut *ffi::sqlite3_user_data(context).cast::<Function>() };
    let result = catch_unwind(AssertUnwindSafe(|| function(&arguments)))
        .unwrap_or_else(|_| Err("a panic in a function of the program".to_owned()));
    // SAFETY: the context of this call; SQLite copies texts and blobs.
    unsafe {
        match result {
            Ok(Value::Null) => ffi::sqlite3_result_null(context),
            Ok(Value::Integer(value)) => ffi::sqlite3_result_int64(context, value),
            Ok(Value::Real(value)) => ffi::sqlite3_result_double(context, value),
            Ok(Value::Text(text)) => {
                let (start, bytes) = (text.as_ptr().cast(), text.len() as u64);
                let encoding = ffi::SQLITE_UTF8 as u8;
                ffi::sqlite3_result_text64(context, start, bytes, ffi::SQLITE_TRANSIENT(), encoding);
            }
            Ok(Value::Blob(bytes)) => {
                let (start, len) = (bytes.as_ptr().cast(), bytes.len() as u64);
                ffi::sqlite3_result_blob64(context, start, len, ffi::SQLITE_TRANSIENT());
            }
            Err(message) => {
                let bytes = c_int::try_from(message.len()).unwrap_or(0);
                ffi::sqlite3_result_error(context, message.as_ptr().cast::<c_char>(), bytes);
            }
        }
    }
}

/// Returns an argument.
///
/// # Safety
/// SQLite lends the value for `'v`.
unsafe fn argument<'v>(value: *mut ffi::sqlite3_value) -> ValueRef<'v> {
    // SAFETY: as the caller promises.
    unsafe {
        match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_INTEGER => ValueRef::Integer(ffi::sqlite3_value_int64(value)),
            ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_value_double(value)),
            ffi::SQLITE_TEXT => {
                let text = ffi::sqlite3_value_text(value);
                ValueRef::Text(lent(text, ffi::sqlite3_value_bytes(value)))
            }
            ffi::SQLITE_BLOB => {
                let bytes = ffi::sqlite3_value_blob(value).cast();
                ValueRef::Blob(lent(bytes, ffi::sqlite3_value_bytes(value)))
            }
            _ => ValueRef::Null,
        }
    }
}
