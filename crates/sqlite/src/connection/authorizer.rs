//! What a statement may do, decided when it is prepared.

use super::{Connection, Error};
use crate::failure::{DENY, IGNORE, OK};
use crate::sys;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Something that a statement does or names, as SQLite reports it when it prepares the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action<'a> {
    /// Makes an index.
    CreateIndex {
        /// The index.
        index: &'a str,
        /// Its table.
        table: &'a str,
    },
    /// Makes a table.
    CreateTable {
        /// The table.
        table: &'a str,
    },
    /// Makes an index of a temporary table.
    CreateTempIndex {
        /// The index.
        index: &'a str,
        /// Its table.
        table: &'a str,
    },
    /// Makes a temporary table.
    CreateTempTable {
        /// The table.
        table: &'a str,
    },
    /// Makes a temporary trigger.
    CreateTempTrigger {
        /// The trigger.
        trigger: &'a str,
        /// Its table.
        table: &'a str,
    },
    /// Makes a temporary view.
    CreateTempView {
        /// The view.
        view: &'a str,
    },
    /// Makes a trigger.
    CreateTrigger {
        /// The trigger.
        trigger: &'a str,
        /// Its table.
        table: &'a str,
    },
    /// Makes a view.
    CreateView {
        /// The view.
        view: &'a str,
    },
    /// Deletes rows.
    Delete {
        /// The table.
        table: &'a str,
    },
    /// Drops an index.
    DropIndex {
        /// The index.
        index: &'a str,
        /// Its table.
        table: &'a str,
    },
    /// Drops a table.
    DropTable {
        /// The table.
        table: &'a str,
    },
    /// Drops an index of a temporary table.
    DropTempIndex {
        /// The index.
        index: &'a str,
        /// Its table.
        table: &'a str,
    },
    /// Drops a temporary table.
    DropTempTable {
        /// The table.
        table: &'a str,
    },
    /// Drops a temporary trigger.
    DropTempTrigger {
        /// The trigger.
        trigger: &'a str,
        /// Its table.
        table: &'a str,
    },
    /// Drops a temporary view.
    DropTempView {
        /// The view.
        view: &'a str,
    },
    /// Drops a trigger.
    DropTrigger {
        /// The trigger.
        trigger: &'a str,
        /// Its table.
        table: &'a str,
    },
    /// Drops a view.
    DropView {
        /// The view.
        view: &'a str,
    },
    /// Inserts rows.
    Insert {
        /// The table.
        table: &'a str,
    },
    /// Runs a pragma.
    Pragma {
        /// Its name.
        name: &'a str,
        /// Its argument, if it has one.
        argument: Option<&'a str>,
    },
    /// Reads a column.
    Read {
        /// The table.
        table: &'a str,
        /// The column. It is empty if the statement reads rows and no column of them.
        column: &'a str,
    },
    /// Is or contains a `SELECT`.
    Select,
    /// Begins or ends a transaction.
    Transaction {
        /// `BEGIN`, `COMMIT` or `ROLLBACK`.
        operation: &'a str,
    },
    /// Updates a column.
    Update {
        /// The table.
        table: &'a str,
        /// The column.
        column: &'a str,
    },
    /// Attaches a database.
    Attach {
        /// The name of the file, if it is a literal.
        file: Option<&'a str>,
    },
    /// Detaches a database.
    Detach {
        /// The name of the database.
        database: &'a str,
    },
    /// Alters a table.
    AlterTable {
        /// The schema, for example `main`.
        schema: &'a str,
        /// The table.
        table: &'a str,
    },
    /// Rebuilds an index.
    Reindex {
        /// The index.
        index: &'a str,
    },
    /// Gathers statistics for the planner.
    Analyze {
        /// The table.
        table: &'a str,
    },
    /// Makes a virtual table.
    CreateVirtualTable {
        /// The table.
        table: &'a str,
        /// Its module.
        module: &'a str,
    },
    /// Drops a virtual table.
    DropVirtualTable {
        /// The table.
        table: &'a str,
        /// Its module.
        module: &'a str,
    },
    /// Calls a function.
    Function {
        /// The function.
        name: &'a str,
    },
    /// Begins or ends a savepoint.
    Savepoint {
        /// `BEGIN`, `RELEASE` or `ROLLBACK`.
        operation: &'a str,
        /// The savepoint.
        name: &'a str,
    },
    /// Is a recursive common table expression.
    Recursive,
    /// Something that this version does not know.
    Unknown {
        /// SQLite's number for it.
        code: i32,
    },
}

/// An action, and where the statement does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access<'a> {
    /// What the statement does or names.
    pub action: Action<'a>,
    /// The schema that it concerns, for example `main` or `temp`, if it concerns one.
    pub schema: Option<&'a str>,
    /// The trigger or view that does it, if the statement does not do it itself.
    pub within: Option<&'a str>,
}

/// The decision about an [`Access`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The statement may do it.
    Allow,
    /// The statement reads `NULL` in place of the column. For other actions SQLite's documentation says what this
    /// means.
    Ignore,
    /// The statement fails before it begins ([`Error::is_denied`]).
    Deny,
}

/// The callback of a connection.
pub(super) type Authorizer = Box<dyn FnMut(Access<'_>) -> Decision + Send>;

impl Connection {
    /// Sets a callback that decides what statements may do, or removes it. It is called for everything that a statement
    /// names, when the statement is prepared; nothing has happened then. Statements that are already prepared are
    /// prepared again, and so decided again. If the callback panics, the statement is denied. The callback must not use
    /// the connection.
    ///
    /// # Errors
    /// SQLite returns none at present.
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
    // SAFETY: the context is that of `set_authorizer`, and SQLite calls it one at a time: preparing a statement holds
    // the mutex of the connection, and the callback does not prepare another one.
    let decide = unsafe { &mut *context.cast::<Authorizer>() };
    // SAFETY: strings of C that live during the call, or null.
    let texts = unsafe { [text(first), text(second), text(schema), text(within)] };
    let decided = catch_unwind(AssertUnwindSafe(|| {
        let [Ok(first), Ok(second), Ok(schema), Ok(within)] = texts else { return Decision::Deny };
        decide(Access { action: action(code, first, second), schema, within })
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

/// Returns the action with SQLite's number `code`.
fn action<'a>(code: c_int, first: Option<&'a str>, second: Option<&'a str>) -> Action<'a> {
    let (argument, file) = (second, first);
    let (first, second) = (first.unwrap_or(""), second.unwrap_or(""));
    match code {
        1 => Action::CreateIndex { index: first, table: second },
        2 => Action::CreateTable { table: first },
        3 => Action::CreateTempIndex { index: first, table: second },
        4 => Action::CreateTempTable { table: first },
        5 => Action::CreateTempTrigger { trigger: first, table: second },
        6 => Action::CreateTempView { view: first },
        7 => Action::CreateTrigger { trigger: first, table: second },
        8 => Action::CreateView { view: first },
        9 => Action::Delete { table: first },
        10 => Action::DropIndex { index: first, table: second },
        11 => Action::DropTable { table: first },
        12 => Action::DropTempIndex { index: first, table: second },
        13 => Action::DropTempTable { table: first },
        14 => Action::DropTempTrigger { trigger: first, table: second },
        15 => Action::DropTempView { view: first },
        16 => Action::DropTrigger { trigger: first, table: second },
        17 => Action::DropView { view: first },
        18 => Action::Insert { table: first },
        19 => Action::Pragma { name: first, argument },
        20 => Action::Read { table: first, column: second },
        21 => Action::Select,
        22 => Action::Transaction { operation: first },
        23 => Action::Update { table: first, column: second },
        24 => Action::Attach { file },
        25 => Action::Detach { database: first },
        26 => Action::AlterTable { schema: first, table: second },
        27 => Action::Reindex { index: first },
        28 => Action::Analyze { table: first },
        29 => Action::CreateVirtualTable { table: first, module: second },
        30 => Action::DropVirtualTable { table: first, module: second },
        31 => Action::Function { name: second },
        32 => Action::Savepoint { operation: first, name: second },
        33 => Action::Recursive,
        code => Action::Unknown { code },
    }
}
