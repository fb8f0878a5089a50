//! What a statement may do, decided when it is prepared.

use super::action::{Access, Action, Authorizer, Decision};
use super::{Connection, Error};
use crate::failure::{DENY, IGNORE, OK};
use crate::sys;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

impl Connection {
    /// Sets a callback that decides what statements may do, or removes it. It is called for everything that a statement
    /// names, when the statement is prepared and before it does anything. Statements that are already prepared are
    /// prepared again, and decided again. If the callback panics, the statement is denied. The callback must not use
    /// the connection.
    ///
    /// # Errors
    /// None at present.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pando_sqlite::{Access, Action, Connection, Decision};
    /// let db = pando::Database::builder().in_memory()?;
    /// let mut connection = Connection::open(&db)?;
    /// connection.execute("CREATE TABLE secret(a)")?;
    /// connection.set_authorizer(Some(|access: Access<'_>| match access.action {
    ///     Action::Read { table: "secret", .. } | Action::Attach { .. } => Decision::Deny,
    ///     _ => Decision::Allow,
    /// }))?;
    /// assert!(connection.query("SELECT a FROM secret").unwrap_err().is_denied());
    /// assert!(connection.query("SELECT 1").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_authorizer(
        &mut self,
        decide: Option<impl FnMut(Access<'_>) -> Decision + Send + 'static>,
    ) -> Result<(), Error> {
        self.flush_statements();
        let decide = decide.map(|decide| Box::into_raw(Box::new(Box::new(decide) as Authorizer)));
        let (callback, context) = match decide {
            Some(context) => (Some(called as sys::Authorize), context.cast()),
            None => (None, ptr::null_mut()),
        };
        // SAFETY: the connection is open, and the context lives until another one is set or the connection is closed.
        let code = unsafe { sys::pando_sqlite3_set_authorizer(self.db.as_ptr(), callback, context) };
        let before = std::mem::replace(&mut self.authorizer, decide);
        // SAFETY: SQLite has the new callback, and none is running, because this borrows the connection mutably.
        unsafe { super::free(before) };
        if code == OK { Ok(()) } else { Err(self.error(code)) }
    }
}

/// # Safety
/// SQLite calls it with the context that was set, with strings of C or null.
unsafe extern "C" fn called(
    context: *mut c_void,
    code: c_int,
    first: *const c_char,
    second: *const c_char,
    schema: *const c_char,
    within: *const c_char,
) -> c_int {
    // SAFETY: the context is that of `set_authorizer`, and SQLite calls it one at a time: a statement is
    // prepared by the thread that has the connection, and the callback does not prepare another one.
    let decide = unsafe { &mut *context.cast::<Authorizer>() };
    // SAFETY: strings of C that live during the call, or null.
    let texts = unsafe { [text(first), text(second), text(schema), text(within)] };
    let decided = catch_unwind(AssertUnwindSafe(|| {
        let [Ok(first), Ok(second), Ok(schema), Ok(within)] = texts else { return Decision::Deny };
        decide(Access { action: Action::with(code, first, second), schema, within })
    }));
    match decided {
        Ok(Decision::Allow) => OK,
        Ok(Decision::Ignore) => IGNORE,
        Ok(Decision::Deny) | Err(_) => DENY,
    }
}

/// # Safety
/// It is a string of C that lives for `'a`, or null.
unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, std::str::Utf8Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some)
}
