//! What else a database can do: checkpoints, numbers, checks, compactions, backups.

use crate::code::pando_code;
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::memory::{Out, Owned, Ref, Text};
use binding::upkeep;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// A function that long work calls from time to time, on the thread that called the work, with its `context` and two
/// numbers that say how far the work is. It returns 0 to go on. Another number ends the work, which then returns
/// PANDO_INTERRUPTED. It can use the database, but must neither close it nor free it with pando_db_free, and must not
/// use the other objects that the work uses.
// # Safety: called with the context that the same caller gave.
pub type pando_progress =
    Option<unsafe extern "C" fn(context: *mut c_void, done: u64, expected: u64) -> c_int>;

/// A caller's function with its context.
struct Watch(pando_progress, *mut c_void);

impl Watch {
    /// Calls the function, if there is one. Returns whether the work goes on.
    fn goes_on(&self, done: u64, expected: u64) -> bool {
        // SAFETY: the header demands a function that can be called with this context during the work.
        self.0.is_none_or(|function| unsafe { function(self.1, done, expected) } == 0)
    }
}

/// Returns whether the database is read-only: 1 or 0; 0 also if `db` is no database. Threads: any number at the same
/// time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_is_read_only(db: *mut pando_db) -> c_int {
    // SAFETY: as the header demands of its arguments.
    let db = unsafe { Ref::of_mut(db) };
    let is_read_only = db.get().and_then(|db| Ok(db.open()?.is_read_only()));
    c_int::from(is_read_only.unwrap_or(false))
}

/// Makes a checkpoint now: writes what is in memory to the data file, so that the next opening has little to replay.
/// Threads: any; checkpoints wait for each other.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_checkpoint(db: *mut pando_db, error: *mut *mut pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, error) = unsafe { (Ref::of_mut(db), Out::new(error)) };
    call(error, || {
        db.get()?.open()?.checkpoint()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Makes everything committed so far durable. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_sync(db: *mut pando_db, error: *mut *mut pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, error) = unsafe { (Ref::of_mut(db), Out::new(error)) };
    call(error, || {
        db.get()?.open()?.sync()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Waits until a database that is read beside its writer shows what the writer has acknowledged. It has no effect on
/// other databases. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_catch_up(db: *mut pando_db, error: *mut *mut pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, error) = unsafe { (Ref::of_mut(db), Out::new(error)) };
    call(error, || {
        db.get()?.open()?.catch_up()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores counters and sizes as a JSON object of numbers, such as {"commits": 12, ...}, in a string that the caller
/// frees with pando_free. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_stats(
    db: *mut pando_db,
    json: *mut *mut c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, json, error) = unsafe { (Ref::of_mut(db), Out::new(json), Out::new(error)) };
    call(error, || {
        let json = json.required("json", ptr::null_mut())?;
        let numbers = db.get()?.open()?.stats()?.numbers();
        // The names are of small letters, digits and underlines.
        let members: Vec<_> = numbers.iter().map(|(name, number)| format!("\"{name}\": {number}")).collect();
        json.set(Owned::text(&format!("{{{}}}", members.join(", ")))?.release().cast());
        Ok(pando_code::PANDO_OK)
    })
}

/// Reads everything and verifies it. Fails with the first problem that was found, as PANDO_CORRUPT. It takes as long
/// as reading the whole data file. `progress` gets the numbers of tables and of records so far, after each table; it
/// may be NULL, and so may `context`. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_check(
    db: *mut pando_db,
    progress: pando_progress,
    context: *mut c_void,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, error) = unsafe { (Ref::of_mut(db), Out::new(error)) };
    let watch = Watch(progress, context);
    call(error, || {
        upkeep::check(db.get()?.open()?, &mut |done, expected| watch.goes_on(done, expected))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Makes the files as small as possible, while the database is in use. Every page is read. `progress` gets the length
/// of the data file and how much of it is used, in bytes, each time that at most 64 MiB were moved; it may be NULL,
/// and so may `context`. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_compact(
    db: *mut pando_db,
    progress: pando_progress,
    context: *mut c_void,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, error) = unsafe { (Ref::of_mut(db), Out::new(error)) };
    let watch = Watch(progress, context);
    call(error, || {
        upkeep::compact(db.get()?.open()?, &mut |done, expected| watch.goes_on(done, expected))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Adds a backup of the database to the directory `folder`, which is created if it does not exist, while the database
/// is in use. Not 0 for `incremental` stores only what changed since the newest backup there, if there is one. Stores
/// the name of the backup in a string that the caller frees with pando_free; `name` may be NULL. `progress` gets the
/// bytes written so far and the approximate length of a full backup; it may be NULL, and so may `context`. Threads:
/// any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_backup(
    db: *mut pando_db,
    folder: *const c_char,
    incremental: c_int,
    progress: pando_progress,
    context: *mut c_void,
    name: *mut *mut c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, folder, name, error) =
        unsafe { (Ref::of_mut(db), Text::new(folder), Out::new(name), Out::new(error)) };
    let watch = Watch(progress, context);
    call(error, || {
        name.set(ptr::null_mut());
        let (db, folder) = (db.get()?.open()?, folder.path("the folder")?);
        let mut go_on = |done, expected| watch.goes_on(done, expected);
        let text = Owned::text(&upkeep::back_up(db, folder, incremental != 0, &mut go_on)?)?;
        name.set_with(|| text.release().cast());
        Ok(pando_code::PANDO_OK)
    })
}

/// Restores a backup from the directory `folder` into the directory `target`, which must be empty or not exist. `at`
/// is the name of the backup; NULL means the newest. `progress` gets the bytes read so far and the length of the
/// backups; it may be NULL, and so may `context`. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_restore(
    folder: *const c_char,
    at: *const c_char,
    target: *const c_char,
    progress: pando_progress,
    context: *mut c_void,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (folder, at, target, error) =
        unsafe { (Text::new(folder), Text::new(at), Text::new(target), Out::new(error)) };
    let watch = Watch(progress, context);
    call(error, || {
        let (folder, target) = (folder.path("the folder")?, target.path("the target")?);
        let at = at.optional("the name of the backup")?;
        upkeep::restore(folder, at, target, &mut |done, expected| watch.goes_on(done, expected))?;
        Ok(pando_code::PANDO_OK)
    })
}
