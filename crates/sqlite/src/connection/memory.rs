//! The memory of SQLite, for all connections of the process.

use super::error::Error;
use crate::failure::{MISUSE, OK};
use crate::sys;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// Whether SQLite is initialized, and whether it counts its memory then.
static INITIALIZED: Mutex<Option<bool>> = Mutex::new(None);

/// Initializes SQLite, once in a process. Returns whether it counts its memory.
pub(super) fn initialize(counts_memory: bool) -> Result<bool, Error> {
    // It is set by one statement, so a panic elsewhere leaves nothing half done.
    let mut initialized = INITIALIZED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(counts) = *initialized {
        return Ok(counts);
    }
    // SAFETY: SQLite is not initialized, and nothing else initializes it: every connection is opened after this
    // function, which holds a lock.
    let code = unsafe { sys::pando_initialize(c_int::from(counts_memory)) };
    if code != OK {
        return Err(Error::new(code, "SQLite cannot be initialized"));
    }
    *initialized = Some(counts_memory);
    Ok(counts_memory)
}

/// Makes SQLite count its memory. After this call, [`limit_memory`] can be called at any time, also when connections
/// are open.
///
/// # Errors
/// An error if a connection was opened before the first call.
pub fn count_memory() -> Result<(), Error> {
    match initialize(true)? {
        true => Ok(()),
        false => Err(Error::new(
            MISUSE,
            "SQLite's memory is not counted: a connection of this process was opened before",
        )),
    }
}

/// Limits the memory that SQLite allocates for all connections of this process, including sorts and temporary tables,
/// to `bytes`. A statement that needs more fails with `SQLITE_NOMEM` and is rolled back. A later call can lower the
/// limit, but not raise it.
///
/// Call this function or [`count_memory`] before the process opens its first connection, because SQLite must count its
/// memory from the first allocation on. Counting takes a lock for each allocation, so it is off unless you call one of
/// the two. The limit does not include the memory of Pando itself, which the budget of a database limits.
///
/// # Errors
/// An error if a connection was opened before the first call.
///
/// ```standalone_crate
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pando_sqlite::Connection;
/// pando_sqlite::limit_memory(32 << 20)?;
/// let connection = Connection::in_memory()?;
/// connection.execute("PRAGMA temp_store = MEMORY")?;
/// let error = connection.query("SELECT length(group_concat(hex(zeroblob(1000000)))) FROM (VALUES (1), (2), (3), (4),
///     (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19), (20))").unwrap_err();
/// assert_eq!(error.code, 7);
/// # Ok(())
/// # }
/// ```
pub fn limit_memory(bytes: u64) -> Result<(), Error> {
    count_memory()?;
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    // SAFETY: SQLite is initialized. A negative value asks for the limit.
    let before = unsafe { sys::pando_sqlite3_hard_heap_limit64(-1) };
    if before == 0 || bytes < before {
        // SAFETY: as above.
        unsafe { sys::pando_sqlite3_hard_heap_limit64(bytes) };
    }
    Ok(())
}
