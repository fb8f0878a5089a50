//! Entries that expire at times of their own: tables with a TTL by key.

use crate::code::pando_code;
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::memory::{Bytes, Out, Ref};
use crate::snapshot::pando_snapshot;
use crate::table::pando_table;
use crate::tx::pando_tx;
use binding::{Outcome, Source};
use pando::{Error, ErrorKind, Expiry, Result, Table, Transaction};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// As `ttl_ms` of a new table: each entry expires at a time of its own, which pando_tx_put_with_ttl sets.
pub const PANDO_TTL_BY_KEY: u64 = 0xffff_ffff_ffff_fffe;
/// As `ttl_ms` of an entry: it never expires. For a table, 0 means that.
pub const PANDO_NEVER: u64 = 0xffff_ffff_ffff_ffff;

/// A TTL of an argument; `None` means that the entry never expires.
pub(crate) fn ttl_of(ttl_ms: u64) -> Option<Duration> {
    (ttl_ms != PANDO_NEVER).then(|| Duration::from_millis(ttl_ms))
}

fn put(tx: &mut Transaction, table: &Table, key: &[u8], value: &[u8], ttl_ms: u64) -> Result<()> {
    match ttl_of(ttl_ms) {
        Some(ttl) => tx.put_with_ttl(table, key, value, ttl),
        None if table.has_ttl_by_key() => tx.put(table, key, value),
        None => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "entries of table {:?} have no TTL of their own: create it with a TTL by key",
                table.name()
            ),
        )),
    }
}

/// Stores how long the entry of `key` still lives.
fn expiry(source: &Source, table: &Table, key: &[u8], ttl_ms: Out<u64>) -> Outcome<pando_code> {
    let ttl_ms = ttl_ms.required("ttl_ms", 0)?;
    Ok(match source.read(|reads| reads.expiry(table, key))? {
        Some(Expiry::In(ttl)) => {
            ttl_ms.set(u64::try_from(ttl.as_millis()).unwrap_or(PANDO_NEVER - 1));
            pando_code::PANDO_OK
        }
        Some(Expiry::Never) => {
            ttl_ms.set(PANDO_NEVER);
            pando_code::PANDO_OK
        }
        None => pando_code::PANDO_ABSENT,
    })
}

/// Sets `key` to `value` in a table with a TTL by key, in a transaction of its own that runs again after conflicts.
/// The entry expires after `ttl_ms` milliseconds, from 1 on; PANDO_NEVER does what pando_db_put does. Fails with
/// PANDO_INVALID if the table is of another kind. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_put_with_ttl(
    db: *mut pando_db,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    ttl_ms: u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, table, key, value, error) = unsafe {
        (
            Ref::of_mut(db),
            Ref::new(table),
            Bytes::new(key, key_len),
            Bytes::new(value, value_len),
            Out::new(error),
        )
    };
    call(error, || {
        let (db, table) = (db.get()?, table.get()?);
        let (key, value) = (key.key()?, value.value()?);
        db.open()?.write(|tx| put(tx, &table.table, key, value, ttl_ms))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Sets `key` to `value` in a table with a TTL by key. The entry expires after `ttl_ms` milliseconds, from 1 on;
/// PANDO_NEVER does what pando_tx_put does. Fails with PANDO_INVALID if the table is of another kind. Threads: one call
/// at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_put_with_ttl(
    tx: *mut pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    ttl_ms: u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, value, error) = unsafe {
        (
            Ref::of_mut(tx),
            Ref::new(table),
            Bytes::new(key, key_len),
            Bytes::new(value, value_len),
            Out::new(error),
        )
    };
    call(error, || {
        let table = table.get()?;
        let (key, value) = (key.key()?, value.value()?);
        tx.get()?.begun.write(|tx| put(tx, &table.table, key, value, ttl_ms))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Lets the entry of `key` in a table with a TTL by key expire after `ttl_ms` milliseconds from now; PANDO_NEVER means
/// never. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_set_expiry(
    tx: *mut pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    ttl_ms: u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, error) =
        unsafe { (Ref::of_mut(tx), Ref::new(table), Bytes::new(key, key_len), Out::new(error)) };
    call(error, || {
        let (table, key) = (table.get()?, key.key()?);
        let exists = tx.get()?.begun.write(|tx| tx.set_expiry(&table.table, key, ttl_of(ttl_ms)))?;
        Ok(if exists { pando_code::PANDO_OK } else { pando_code::PANDO_ABSENT })
    })
}

/// Stores how many milliseconds the newest entry of `key` still lives; PANDO_NEVER if it never expires. Returns
/// PANDO_ABSENT if the key does not exist. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_db_expiry(
    db: *mut pando_db,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    ttl_ms: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, table, key, ttl_ms, error) = unsafe {
        (Ref::of_mut(db), Ref::new(table), Bytes::new(key, key_len), Out::new(ttl_ms), Out::new(error))
    };
    call(error, || expiry(&Source::Database(Arc::clone(db.get()?)), &table.get()?.table, key.key()?, ttl_ms))
}

/// Stores how many milliseconds the entry of `key` in the snapshot still lived when the snapshot was taken;
/// PANDO_NEVER if it never expires. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a time for
/// each snapshot.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_snapshot_expiry(
    snapshot: *const pando_snapshot,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    ttl_ms: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (snapshot, table, key, ttl_ms, error) = unsafe {
        (Ref::new(snapshot), Ref::new(table), Bytes::new(key, key_len), Out::new(ttl_ms), Out::new(error))
    };
    call(error, || {
        expiry(&Source::Snapshot(Arc::clone(snapshot.get()?)), &table.get()?.table, key.key()?, ttl_ms)
    })
}

/// Stores how many milliseconds the entry of `key`, as the transaction sees it, still lived when the transaction
/// began; PANDO_NEVER if it never expires. Returns PANDO_ABSENT if the key does not exist. Threads: one call at a time
/// for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_expiry(
    tx: *const pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    ttl_ms: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, ttl_ms, error) = unsafe {
        (Ref::new(tx), Ref::new(table), Bytes::new(key, key_len), Out::new(ttl_ms), Out::new(error))
    };
    call(error, || {
        let source = Source::Transaction(Arc::clone(&tx.get()?.begun));
        expiry(&source, &table.get()?.table, key.key()?, ttl_ms)
    })
}
