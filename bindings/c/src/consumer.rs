//! Named consumers of changes, whose positions survive restarts.

use crate::changes::{Feed, options, pando_changes};
use crate::code::pando_code;
use crate::db::pando_db;
use crate::error::{call, pando_error};
use crate::memory::{self, Array, Bytes, Out, Owned, Ref, Text, handle, handles};
use crate::reads::pando_bytes;
use binding::{Failure, Handle, Outcome};
use pando::Consumer;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::{Arc, Mutex};

/// A named consumer, whose position survives restarts. Read with pando_consumer_changes, do the work, then call
/// pando_consumer_acknowledge: what was not acknowledged is returned again after a restart. Free it with
/// pando_consumer_free, which keeps its position.
pub struct pando_consumer {
    _private: (),
}

/// What is known of a consumer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pando_consumer_info {
    /// The name.
    pub name: *const c_char,
    /// The number of the last commit that the consumer has acknowledged.
    pub position: u64,
    /// Not 0: the consumer has lost its position, because more was kept for it than max_changes_bytes.
    pub is_lost: c_int,
}

/// What a handle on a consumer holds.
pub struct Named {
    db: Arc<Handle>,
    consumer: Mutex<Consumer>,
}

handles! {
    pando_consumer = Named, "the consumer", b"pandocon";
}

impl Named {
    fn with<T>(&self, work: impl FnOnce(&mut Consumer) -> pando::Result<T>) -> Outcome<T> {
        self.db.open()?;
        let mut consumer = self.consumer.try_lock().map_err(|_| Failure::in_use("the consumer"))?;
        Ok(work(&mut consumer)?)
    }
}

/// Opens the consumer `name`, or creates it after the newest commit. Fails with PANDO_LOCKED if it is open, and with
/// PANDO_TOO_OLD if more was kept for it than max_changes_bytes: drop it, and begin again. Threads: any number at the
/// same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_consumer_open(
    db: *mut pando_db,
    name: *const c_char,
    consumer: *mut *mut pando_consumer,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, consumer, error) =
        unsafe { (Ref::of_mut(db), Text::new(name), Out::new(consumer), Out::new(error)) };
    call(error, || {
        let consumer = consumer.required("consumer", ptr::null_mut())?;
        let (db, name) = (db.get()?, name.get("the name")?);
        let opened = Mutex::new(db.open()?.consumer(name)?);
        consumer.set(handle(Named { db: Arc::clone(db), consumer: opened }));
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores all consumers, ordered by name, and how many there are. The caller frees the array, which has the names as
/// well, with pando_free. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_consumer_list(
    db: *mut pando_db,
    consumers: *mut *mut pando_consumer_info,
    count: *mut usize,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, consumers, count, error) =
        unsafe { (Ref::of_mut(db), Out::new(consumers), Out::new(count), Out::new(error)) };
    call(error, || {
        let consumers = consumers.required("consumers", ptr::null_mut())?;
        let count = count.required("count", 0)?;
        let known = db.get()?.open()?.consumers()?;
        let infos = known.len() * size_of::<pando_consumer_info>();
        let mut block = Owned::new(infos + known.iter().map(|one| one.name.len() + 1).sum::<usize>())?;
        let mut at = infos;
        for (index, one) in known.iter().enumerate() {
            block.write(at, one.name.as_bytes());
            let (name, is_lost) = (block.pointer(at).cast(), c_int::from(one.is_lost));
            block.write_element(index, pando_consumer_info { name, position: one.position, is_lost });
            at += one.name.len() + 1;
        }
        consumers.set(block.release().cast());
        count.set(known.len());
        Ok(pando_code::PANDO_OK)
    })
}

/// Removes the consumer `name`, and what is kept for it. Fails with PANDO_MISSING if there is none, and with
/// PANDO_LOCKED if it is open. Threads: any number at the same time.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_consumer_drop(
    db: *mut pando_db,
    name: *const c_char,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (db, name, error) = unsafe { (Ref::of_mut(db), Text::new(name), Out::new(error)) };
    call(error, || {
        db.get()?.open()?.drop_consumer(name.get("the name")?)?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Opens a reader of the changes after the last commit that the consumer has acknowledged. `tables` and `prefix` are as
/// for pando_changes_open. Threads: one call at a time for each consumer.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_consumer_changes(
    consumer: *mut pando_consumer,
    tables: *const *const c_char,
    table_count: usize,
    prefix: pando_bytes,
    changes: *mut *mut pando_changes,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (consumer, tables, prefix, changes, error) = unsafe {
        (
            Ref::of_mut(consumer),
            Array::new(tables, table_count),
            Bytes::new(prefix.data, prefix.len),
            Out::new(changes),
            Out::new(error),
        )
    };
    call(error, || {
        let changes = changes.required("changes", ptr::null_mut())?;
        let (named, options) = (consumer.get()?, options(tables, prefix)?);
        changes.set(Feed::handle(&named.db, named.with(|consumer| consumer.changes_with(options))?));
        Ok(pando_code::PANDO_OK)
    })
}

/// Stores the number of the last commit that the consumer has acknowledged. Threads: one call at a time for each
/// consumer.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_consumer_position(
    consumer: *mut pando_consumer,
    position: *mut u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (consumer, position, error) = unsafe { (Ref::of_mut(consumer), Out::new(position), Out::new(error)) };
    call(error, || {
        let position = position.required("position", 0)?;
        position.set(consumer.get()?.with(|consumer| Ok(consumer.position()))?);
        Ok(pando_code::PANDO_OK)
    })
}

/// Records durably that everything up to the commit of number `commit` is done. An older commit has no effect. It takes
/// three flushes, so call it for many changes at once. Threads: one call at a time for each consumer.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_consumer_acknowledge(
    consumer: *mut pando_consumer,
    commit: u64,
    error: *mut *mut pando_error,
) -> pando_code {
    // SAFETY: as the header demands of its arguments.
    let (consumer, error) = unsafe { (Ref::of_mut(consumer), Out::new(error)) };
    call(error, || {
        consumer.get()?.with(|consumer| consumer.acknowledge(commit))?;
        Ok(pando_code::PANDO_OK)
    })
}

/// Frees a consumer, so that it can be opened again. Its position is kept.
// # Safety: as "Arguments" in pando.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_consumer_free(consumer: *mut pando_consumer) {
    // SAFETY: as the header demands of its arguments.
    unsafe { memory::free(consumer) };
}
