//! What else a database can do: checkpoints, numbers, checks, backups.

use crate::code::pando_code;
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::memory::{Out, Owned, Ref, Text};
use pando::{BackupOptions, Backups};
use std::ffi::{c_char, c_int};
use std::ptr;

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
/// as reading the whole data file. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_check(db: *mut pando_db, error: *mut *mut pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, error) = unsafe { (Ref::of_mut(db), Out::new(error)) };
    call(error, || {
        db.get()?.open()?.check()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Adds a backup of the database to the directory `folder`, which is created if it does not exist, while the database
/// is in use. Not 0 for `incremental` stores only what changed since the newest backup there, if there is one. Stores
/// the name of the backup in a string that the caller frees with pando_free; `name` may be NULL. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_backup(
    db: *mut pando_db,
    folder: *const c_char,
    incremental: c_int,
    name: *mut *mut c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, folder, name, error) =
        unsafe { (Ref::of_mut(db), Text::new(folder), Out::new(name), Out::new(error)) };
    call(error, || {
        name.set(ptr::null_mut());
        let backups = Backups::create(folder.path("the folder")?)?;
        let mut options = BackupOptions::default();
        if let Some(newest) = backups.newest()?.filter(|_| incremental != 0) {
            options = options.since(&newest);
        }
        let done = db.get()?.open()?.backup_to(&backups, options)?;
        let text = Owned::text(&done.name.unwrap_or_default())?;
        name.set_with(|| text.release().cast());
        Ok(pando_code::PANDO_OK)
    })
}

/// Restores a backup from the directory `folder` into the directory `target`, which must be empty or not exist. `at`
/// is the name of the backup; NULL means the newest. Threads: any.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_restore(
    folder: *const c_char,
    at: *const c_char,
    target: *const c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (folder, at, target, error) =
        unsafe { (Text::new(folder), Text::new(at), Text::new(target), Out::new(error)) };
    call(error, || {
        let backups = Backups::open(folder.path("the folder")?)?;
        pando::restore(&backups, at.optional("the name of the backup")?, target.path("the target")?)?;
        Ok(pando_code::PANDO_OK)
    })
}
