//! Transactions: reads and writes that take effect together or not at all.

use crate::code::{self, pando_code};
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::memory::{self, Array, Bytes, Out, Ref, Text, handle, handles};
use crate::reads::{self, pando_range};
use crate::table::{self, pando_table};
use binding::{Begun, Failure, Outcome};
use pando::{Savepoint, TransactionOptions};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard};

/// A read-write transaction. It ends with pando_tx_commit or pando_tx_rollback. Free it with pando_tx_free, which
/// rolls back what was not committed.
pub struct pando_tx {
    _private: (),
}

/// What a handle on a transaction holds.
pub struct Object {
    /// The transaction.
    pub begun: Arc<Begun>,
    savepoints: Mutex<Savepoints>,
}

/// The savepoints of a transaction, oldest first. Their numbers are never used again.
#[derive(Default)]
struct Savepoints {
    made: u64,
    live: Vec<(u64, Savepoint)>,
}

handles! {
    pando_tx = Object, "the transaction", b"pando_tx";
}

impl Object {
    fn savepoints(&self) -> Outcome<MutexGuard<'_, Savepoints>> {
        self.savepoints.try_lock().map_err(|_| Failure::in_use("the transaction"))
    }
}

impl Savepoints {
    /// The place of a savepoint among those that are live.
    fn find(&self, number: u64) -> Outcome<usize> {
        let missing = || Failure::invalid(format!("there is no savepoint {number} in the transaction"));
        self.live.iter().position(|(known, _)| *known == number).ok_or_else(missing)
    }
}

/// Begins a transaction. `durability` is PANDO_SYNC, PANDO_BUFFERED or PANDO_LAZY, `isolation` is PANDO_SERIALIZABLE
/// or PANDO_SNAPSHOT_ISOLATION, and PANDO_DEFAULT means what the database was opened with. Threads: any number at the
/// same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_begin(
    db: *mut pando_db,
    durability: c_int,
    isolation: c_int,
    tx: *mut *mut pando_tx,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, tx, error) = unsafe { (Ref::of_mut(db), Out::new(tx), Out::new(error)) };
    call(error, || {
        let tx = tx.required("tx", ptr::null_mut())?;
        let db = db.get()?;
        let default = db.open()?.transaction_options();
        let options = TransactionOptions {
            durability: code::durability(durability, default.durability)?,
            isolation: code::isolation(isolation, default.isolation)?,
        };
        let begun = Begun::begin(db, &options)?;
        tx.set(handle(Object { begun, savepoints: Mutex::default() }));
        Ok(pando_code::PANDO_OK)
    })
}

/// Sets `key` to `value`. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_put(
    tx: *mut pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
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
        tx.get()?.begun.write(|tx| tx.put(&table.table, key, value))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Sets `key` to `value` if the key does not exist. Fails with PANDO_EXISTS if it does; the transaction goes on.
/// Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_insert(
    tx: *mut pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
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
        tx.get()?.begun.write(|tx| tx.insert(&table.table, key, value))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Deletes `key`, whether or not it exists. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_delete(
    tx: *mut pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, error) =
        unsafe { (Ref::of_mut(tx), Ref::new(table), Bytes::new(key, key_len), Out::new(error)) };
    call(error, || {
        let table = table.get()?;
        let key = key.key()?;
        tx.get()?.begun.write(|tx| tx.delete(&table.table, key))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Sets `key` to `new_value` if its value is `expected`, and stores in `*swapped` whether it did: 1 or 0. If the data
/// of `expected` is NULL, the key must not exist; if that of `new_value` is NULL, the key is deleted. Threads: one
/// call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_compare_and_swap(
    tx: *mut pando_tx,
    table: *const pando_table,
    key: *const c_void,
    key_len: usize,
    expected: *const c_void,
    expected_len: usize,
    new_value: *const c_void,
    new_value_len: usize,
    swapped: *mut c_int,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, key, expected, new_value, swapped, error) = unsafe {
        (
            Ref::of_mut(tx),
            Ref::new(table),
            Bytes::new(key, key_len),
            Bytes::new(expected, expected_len),
            Bytes::new(new_value, new_value_len),
            Out::new(swapped),
            Out::new(error),
        )
    };
    call(error, || {
        let swapped = swapped.required("swapped", 0)?;
        let (table, key) = (table.get()?, key.key()?);
        let (expected, new) = (expected.optional_value()?, new_value.optional_value()?);
        let done = tx.get()?.begun.write(|tx| tx.compare_and_swap(&table.table, key, expected, new))?;
        swapped.set(c_int::from(done));
        Ok(pando_code::PANDO_OK)
    })
}

/// Deletes every key of `range` without reading it; NULL means every key. The cost does not depend on how many there
/// are. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_delete_range(
    tx: *mut pando_tx,
    table: *const pando_table,
    range: *const pando_range,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, range, error) =
        unsafe { (Ref::of_mut(tx), Ref::new(table), Array::new(range, 1), Out::new(error)) };
    call(error, || {
        let (table, span) = (table.get()?, reads::span(range)?);
        tx.get()?.begun.write(|tx| tx.delete_range(&table.table, span))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Opens the table `name` as the transaction sees it. Fails with PANDO_MISSING if it does not exist. Threads: one
/// call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_table_open(
    tx: *mut pando_tx,
    name: *const c_char,
    table: *mut *mut pando_table,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, name, table, error) =
        unsafe { (Ref::of_mut(tx), Text::new(name), Out::new(table), Out::new(error)) };
    call(error, || {
        let table = table.required("table", ptr::null_mut())?;
        let name = name.get("the name")?;
        let found = tx.get()?.begun.read(|tx| tx.table(name))?;
        table.set(table::of(found.ok_or_else(|| table::missing(name))?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Creates a table together with the transaction's other changes. The options are those of pando_table_create.
/// Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_table_create(
    tx: *mut pando_tx,
    name: *const c_char,
    layout: c_int,
    compression: c_int,
    ttl_ms: u64,
    table: *mut *mut pando_table,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, name, table, error) =
        unsafe { (Ref::of_mut(tx), Text::new(name), Out::new(table), Out::new(error)) };
    call(error, || {
        let table = table.required("table", ptr::null_mut())?;
        let (name, options) = (name.get("the name")?, table::options(layout, compression, ttl_ms)?);
        table.set(table::of(tx.get()?.begun.write(|tx| tx.create_table(name, &options))?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Drops a table together with the transaction's other changes. The handle remains to be freed. Threads: one call at
/// a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_table_drop(
    tx: *mut pando_tx,
    table: *const pando_table,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, table, error) = unsafe { (Ref::of_mut(tx), Ref::new(table), Out::new(error)) };
    call(error, || {
        let table = table.get()?;
        tx.get()?.begun.write(|tx| tx.drop_table(&table.table))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Marks a point to which the transaction can be rolled back, and stores its number. Savepoints nest. Threads: one
/// call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_savepoint(
    tx: *mut pando_tx,
    savepoint: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, savepoint, error) = unsafe { (Ref::of_mut(tx), Out::new(savepoint), Out::new(error)) };
    call(error, || {
        let savepoint = savepoint.required("savepoint", 0)?;
        let tx = tx.get()?;
        let mut savepoints = tx.savepoints()?;
        let made = tx.begun.write(|tx| Ok(tx.savepoint()))?;
        savepoints.made += 1;
        let number = savepoints.made;
        savepoints.live.push((number, made));
        savepoint.set(number);
        Ok(pando_code::PANDO_OK)
    })
}

/// Undoes every write since the savepoint, which remains; later savepoints end. Fails with PANDO_INVALID if the
/// transaction has no such savepoint. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_rollback_to(
    tx: *mut pando_tx,
    savepoint: u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, error) = unsafe { (Ref::of_mut(tx), Out::new(error)) };
    call(error, || {
        let tx = tx.get()?;
        let mut savepoints = tx.savepoints()?;
        let at = savepoints.find(savepoint)?;
        tx.begun.write(|tx| tx.rollback_to(&savepoints.live[at].1))?;
        savepoints.live.truncate(at + 1);
        Ok(pando_code::PANDO_OK)
    })
}

/// Forgets the savepoint and all later ones; their writes remain. Fails with PANDO_INVALID if the transaction has no
/// such savepoint. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_release(
    tx: *mut pando_tx,
    savepoint: u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, error) = unsafe { (Ref::of_mut(tx), Out::new(error)) };
    call(error, || {
        let tx = tx.get()?;
        let mut savepoints = tx.savepoints()?;
        let at = savepoints.find(savepoint)?;
        tx.begun.write(|tx| tx.release(&savepoints.live[at].1))?;
        savepoints.live.truncate(at);
        Ok(pando_code::PANDO_OK)
    })
}

/// Commits all changes or none, and ends the transaction whatever the result is. Stores the number of the commit;
/// `number` may be NULL. With PANDO_SYNC the call returns when the disk has the commit. Fails with PANDO_CONFLICT if
/// another transaction changed what this one has read; the error names table and key, and the work can be done again
/// in a new transaction. Threads: one call at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_commit(
    tx: *mut pando_tx,
    number: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, number, error) = unsafe { (Ref::of_mut(tx), Out::new(number), Out::new(error)) };
    call(error, || {
        number.set(0);
        number.set(tx.get()?.begun.commit()?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Undoes all changes and ends the transaction. It has no effect on a transaction that has ended. Threads: one call
/// at a time for each transaction.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_rollback(tx: *mut pando_tx, error: *mut *mut pando_error) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (tx, error) = unsafe { (Ref::of_mut(tx), Out::new(error)) };
    call(error, || {
        tx.get()?.begun.roll_back()?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a transaction, and rolls it back if it has not ended.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_tx_free(tx: *mut pando_tx) {
    // SAFETY: as the header demands of its arguments.
    let given = unsafe { Ref::of_mut(tx) };
    // Cursors over the transaction keep it, and would keep what it holds.
    let _ = binding::guard(|| given.get()?.begun.roll_back());
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(tx) };
}
