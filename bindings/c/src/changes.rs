//! Changes: every commit in order.
//!
//! A wait is a row of short ones, so that a close in another thread and the end of the database end it. A commit wakes
//! it at once.

use crate::code::pando_code;
use crate::db::pando_db;
use crate::error::{c_string, call, pando_error};
use crate::memory::{self, Array, Bytes, Out, Ref, handle, handles};
use crate::reads::{NONE, pando_bytes};
use binding::{Failure, Handle, Outcome};
use pando::changes::TableChange;
use pando::{Change, Changes, ChangesOptions, Operation};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The longest wait after which a close is looked at.
const WAIT: Duration = Duration::from_millis(50);

/// As a timeout: wait until there is a change.
pub const PANDO_FOREVER: u64 = 0xffff_ffff_ffff_ffff;

/// Kind of an operation: a key was set.
pub const PANDO_PUT: c_int = 1;
/// Kind of an operation: a key was deleted.
pub const PANDO_DELETE: c_int = 2;
/// Kind of an operation: every key from `key` on and before `end` was deleted.
pub const PANDO_DELETE_RANGE: c_int = 3;
/// Kind of an operation: a table was created.
pub const PANDO_CREATE_TABLE: c_int = 4;
/// Kind of an operation: a table was dropped.
pub const PANDO_DROP_TABLE: c_int = 5;
/// Kind of an operation: a table was renamed.
pub const PANDO_RENAME_TABLE: c_int = 6;
/// Kind of an operation: the options of a table were changed.
pub const PANDO_ALTER_TABLE: c_int = 7;

/// An operation of a commit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pando_operation {
    /// PANDO_PUT, PANDO_DELETE, PANDO_DELETE_RANGE, PANDO_CREATE_TABLE, PANDO_DROP_TABLE, PANDO_RENAME_TABLE or
    /// PANDO_ALTER_TABLE.
    pub kind: c_int,
    /// The name of the table after the commit.
    pub table: *const c_char,
    /// The name that a renamed table had; otherwise NULL.
    pub former: *const c_char,
    /// The key, or the first key of a range; its data is NULL for an operation on a table.
    pub key: pando_bytes,
    /// The value of a put; its data is NULL for every other operation.
    pub value: pando_bytes,
    /// The first key after a range; its data is NULL if the range reaches to the end of the table.
    pub end: pando_bytes,
}

/// One commit. Free it with pando_change_free.
pub struct pando_change {
    _private: (),
}

/// A reader of changes: it goes from commit to commit without gaps. The database keeps what it has still to read, up to
/// the option max_changes_bytes; a reader that is later than that gets PANDO_TOO_OLD. Free it with pando_changes_free.
pub struct pando_changes {
    _private: (),
}

/// What a handle on a change holds.
pub struct Read {
    commit_number: u64,
    time_ms: u64,
    operations: Vec<pando_operation>,
    /// What the operations point to.
    _strings: Vec<CString>,
    _bytes: Vec<Box<[u8]>>,
}

/// What a handle on a reader holds.
pub struct Feed {
    db: Arc<Handle>,
    changes: Mutex<Option<Changes>>,
    is_closed: AtomicBool,
}

handles! {
    pando_change = Read, "the change", b"pandochg";
    pando_changes = Feed, "the reader of changes", b"pandofed";
}

impl Read {
    fn of(change: &Change<'_>) -> pando::Result<Self> {
        let (mut strings, mut kept, mut read) = (Vec::new(), Vec::new(), Vec::new());
        let mut string = |text: &str| {
            strings.push(c_string(text));
            strings.last().map_or(ptr::null(), |string: &CString| string.as_ptr())
        };
        // No bytes have an address, too: NULL means that there are none.
        let mut bytes = |bytes: &[u8]| {
            let copy: Box<[u8]> = [bytes, &[0]].concat().into();
            let lent = pando_bytes { data: copy.as_ptr().cast(), len: bytes.len() };
            kept.push(copy);
            lent
        };
        let mut operations = change.operations()?;
        while let Some(operation) = operations.next()? {
            let none = |kind, table| pando_operation {
                kind,
                table,
                former: ptr::null(),
                key: NONE,
                value: NONE,
                end: NONE,
            };
            read.push(match &operation {
                Operation::Table(TableChange::Created(table)) => {
                    none(PANDO_CREATE_TABLE, string(table.name()))
                }
                Operation::Table(TableChange::Altered(table)) => {
                    none(PANDO_ALTER_TABLE, string(table.name()))
                }
                Operation::Table(TableChange::Dropped { name, .. }) => none(PANDO_DROP_TABLE, string(name)),
                Operation::Table(TableChange::Renamed { from, table }) => {
                    let former = string(from);
                    pando_operation { former, ..none(PANDO_RENAME_TABLE, string(table.name())) }
                }
                Operation::Put { table, key, value } => {
                    let (key, value) = (bytes(key), bytes(&value.to_vec()?));
                    pando_operation { key, value, ..none(PANDO_PUT, string(table.name())) }
                }
                Operation::Delete { table, key } => {
                    pando_operation { key: bytes(key), ..none(PANDO_DELETE, string(table.name())) }
                }
                Operation::DeleteRange { table, start, end } => {
                    let (key, end) = (bytes(start), end.map_or(NONE, &mut bytes));
                    pando_operation { key, end, ..none(PANDO_DELETE_RANGE, string(table.name())) }
                }
            });
        }
        let (commit_number, time_ms) = (change.commit_number(), change.time_ms().unwrap_or(0));
        Ok(Read { commit_number, time_ms, operations: read, _strings: strings, _bytes: kept })
    }
}

impl Feed {
    /// A handle on a reader that was just opened.
    pub(crate) fn handle(db: &Arc<Handle>, changes: Changes) -> *mut pando_changes {
        let (db, changes) = (Arc::clone(db), Mutex::new(Some(changes)));
        handle(Feed { db, changes, is_closed: AtomicBool::new(false) })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Changes) -> Outcome<T>) -> Outcome<T> {
        self.db.check_process()?;
        let mut changes = self.changes.try_lock().map_err(|_| Failure::in_use("the reader of changes"))?;
        work(changes.as_mut().ok_or_else(closed)?)
    }

    /// Waits for the next change for at most so long. If it cannot be read, the next call tries again.
    fn next(&self, timeout_ms: u64) -> Outcome<Option<Read>> {
        let until = match timeout_ms {
            PANDO_FOREVER => None,
            ms => Instant::now().checked_add(Duration::from_millis(ms)),
        };
        self.with(|changes| {
            loop {
                self.db.open()?;
                if self.is_closed.load(Ordering::SeqCst) {
                    return Err(closed());
                }
                let left = until.map_or(WAIT, |until| until.saturating_duration_since(Instant::now()));
                if let Some(change) = changes.wait(left.min(WAIT))? {
                    let read = Read::of(&change);
                    if read.is_err() {
                        changes.repeat();
                    }
                    return Ok(Some(read?));
                }
                if left.is_zero() {
                    return Ok(None);
                }
            }
        })
    }
}

#[cold]
fn closed() -> Failure {
    Failure::closed("the reader of changes")
}

/// The options that tables and a prefix make.
pub(crate) fn options(tables: Array<'_, *const c_char>, prefix: Bytes<'_>) -> Outcome<ChangesOptions> {
    let mut options = ChangesOptions::default();
    for table in tables.get("the tables")? {
        if table.is_null() {
            return Err(Failure::misuse("the name of a table is NULL"));
        }
        // SAFETY: the header demands strings that end with a zero byte, as of every string.
        let name = unsafe { CStr::from_ptr(*table) };
        let name = name.to_str().map_err(|_| Failure::invalid("the name of a table is not UTF-8"))?;
        options = options.table(name);
    }
    Ok(match prefix.bound()? {
        Some(prefix) => options.prefix(prefix),
        None => options,
    })
}

/// Opens a reader of the changes after the commit of number `after`; 0 means as far back as possible. Of `table_count`
/// names in `tables`, only changes of these tables are read; 0 means every table. If the data of `prefix` is not NULL,
/// only keys that begin with it are. Fails with PANDO_TOO_OLD if the changes are no longer kept. Threads: any number
/// at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_changes_open(
    db: *mut pando_db,
    after: u64,
    tables: *const *const c_char,
    table_count: usize,
    prefix: pando_bytes,
    changes: *mut *mut pando_changes,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, tables, prefix, changes, error) = unsafe {
        (
            Ref::of_mut(db),
            Array::new(tables, table_count),
            Bytes::new(prefix.data, prefix.len),
            Out::new(changes),
            Out::new(error),
        )
    };
    call(error, || {
        let changes = changes.required("changes", ptr::null_mut())?;
        let (db, options) = (db.get()?, options(tables, prefix)?.after(after));
        changes.set(Feed::handle(db, db.open()?.changes_with(options)?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the number of the oldest commit after which pando_changes_open can begin now. Threads: any number at the same
/// time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_changes_oldest(
    db: *mut pando_db,
    number: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, number, error) = unsafe { (Ref::of_mut(db), Out::new(number), Out::new(error)) };
    call(error, || {
        let number = number.required("number", 0)?;
        number.set(db.get()?.open()?.oldest_change()?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the next change. Waits for it for at most `timeout_ms` milliseconds; 0 means not at all, PANDO_FOREVER
/// without an end. Returns PANDO_ABSENT if there is none until then, and PANDO_CLOSED if the reader or its database is
/// closed meanwhile. The changed values are in memory as a whole. Threads: one call at a time for each reader.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_changes_next(
    changes: *mut pando_changes,
    timeout_ms: u64,
    change: *mut *mut pando_change,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (changes, change, error) = unsafe { (Ref::of_mut(changes), Out::new(change), Out::new(error)) };
    call(error, || {
        let change = change.required("change", ptr::null_mut())?;
        let Some(read) = changes.get()?.next(timeout_ms)? else { return Ok(pando_code::PANDO_ABSENT) };
        change.set(handle(read));
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the number of the last commit that the reader has passed: begin after it to go on from here. Threads: one
/// call at a time for each reader.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_changes_position(
    changes: *mut pando_changes,
    position: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (changes, position, error) = unsafe { (Ref::of_mut(changes), Out::new(position), Out::new(error)) };
    call(error, || {
        let position = position.required("position", 0)?;
        position.set(changes.get()?.with(|changes| Ok(changes.position()))?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Closes a reader of changes, so that nothing is kept for it. A call that waits returns PANDO_CLOSED within 50
/// milliseconds. A second call has no effect. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_changes_close(
    changes: *mut pando_changes,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (changes, error) = unsafe { (Ref::of_mut(changes), Out::new(error)) };
    call(error, || {
        let feed = changes.get()?;
        feed.db.check_process()?;
        feed.is_closed.store(true, Ordering::SeqCst);
        // A call that waits holds it until the handle is freed.
        drop(feed.changes.try_lock().ok().and_then(|mut changes| changes.take()));
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a reader of changes.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_changes_free(changes: *mut pando_changes) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(changes) };
}

/// Returns the number of the commit; 0 if `change` is no change. Numbers have no gaps. Threads: any number at the same
/// time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_change_commit_number(change: *const pando_change) -> u64 {
    // SAFETY: as the header demands of its arguments.
    let change = unsafe { Ref::new(change) };
    change.get().map_or(0, |change| change.commit_number)
}

/// Returns when the commit was made, in milliseconds since 1970; 0 if that is not known. Threads: any number at the
/// same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_change_time_ms(change: *const pando_change) -> u64 {
    // SAFETY: as the header demands of its arguments.
    let change = unsafe { Ref::new(change) };
    change.get().map_or(0, |change| change.time_ms)
}

/// Returns the operations of the commit, in the order in which they lead to the state after it, and stores how many
/// there are; NULL and 0 if `change` is no change. They live as long as the change. Threads: any number at the same
/// time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_change_operations(
    change: *const pando_change,
    count: *mut usize,
) -> *const pando_operation {
    // SAFETY: as the header demands of its arguments.
    let (change, count) = unsafe { (Ref::new(change), Out::new(count)) };
    let operations = change.get().map(|change| change.operations.as_slice()).ok();
    count.set(operations.map_or(0, <[_]>::len));
    operations.map_or(ptr::null(), memory::lent)
}

/// Frees a change.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_change_free(change: *mut pando_change) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(change) };
}
