//! A value in place: borrowed from what keeps it, without a copy.
//!
//! 1. *In a page*: the guard pins the page, as a cursor pins its leaf. A pinned page cannot be evicted, and a pool
//!    whose frames are all pinned can read nothing. So the guards of one snapshot pin at most 64 pages at a time; a
//!    value beyond that is copied.
//! 2. *In a memtable*: the guard keeps its snapshot's call open, as a cursor does: the memtable stays, even if the
//!    snapshot expires meanwhile. Any number of guards keeps no more than one does.
//! 3. *In a transaction's own writes*: the write set is borrowed.
//! 4. *Outside the pages*: the value is read, and the guard owns the bytes.

use crate::read::resolve::{Consumer, Place};
use crate::read::snapshot::Snapshot;
use crate::state::cached_slot::Permit;
use crate::state::ttl::Reading;
use base::slots::{EpochGuard, Suspended};
use base::{LargeRef, Result, TableId};
use page::Value;
use run::PinnedRecord;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// A value in place, which dereferences to `[u8]`.
///
/// Getting it copies nothing and allocates nothing, with two exceptions: a value that is too long for a page is read
/// into memory of its own, and while 64 values of the same snapshot or transaction are borrowed from pages, further
/// values are copied.
///
/// It borrows the snapshot or transaction from which it was read, and is not `Send`. While you hold it, its page or
/// memtable stays in memory, even if the snapshot expires. To keep a value for long, copy it with `to_vec`.
#[must_use = "a value that is not looked at need not be read: `contains` says whether there is one"]
pub struct ValueRef<'s> {
    /// The bytes, which are in what `_keeper` keeps.
    bytes: NonNull<[u8]>,
    _keeper: Keeper<'s>,
}

/// The owner that keeps the bytes in place.
enum Keeper<'s> {
    /// The borrow itself.
    Lender(PhantomData<&'s [u8]>),
    Memtable {
        _call: Suspended<'s>,
    },
    Page {
        _pin: PinnedRecord,
        _permit: Permit<'s>,
    },
    Copy {
        _bytes: Vec<u8>,
    },
}

impl<'s> ValueRef<'s> {
    /// Returns a reference to bytes that 's keeps.
    pub(crate) fn lent(bytes: &'s [u8]) -> Self {
        ValueRef { bytes: NonNull::from(bytes), _keeper: Keeper::Lender(PhantomData) }
    }

    /// Returns a reference that owns its bytes.
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        ValueRef { bytes: NonNull::from(&bytes[..]), _keeper: Keeper::Copy { _bytes: bytes } }
    }

    /// Returns the value of a pinned record, if it is in its page and has not expired.
    pub(crate) fn pinned(
        snapshot: &'s Snapshot,
        reading: Reading,
        record: PinnedRecord,
    ) -> Result<Option<Self>> {
        let Value::Inline(stored) = record.value() else { return Ok(None) };
        let Some(value) = reading.value(stored)? else { return Ok(None) };
        let bytes = NonNull::from(value);
        // SAFETY: `record` was asked for them.
        Ok(Some(unsafe { ValueRef::in_page(snapshot, record, bytes) }))
    }

    /// # Safety
    /// `bytes` lie in the page that `record` pins.
    #[inline]
    unsafe fn in_page(snapshot: &'s Snapshot, record: PinnedRecord, bytes: NonNull<[u8]>) -> Self {
        match snapshot.permit_pin() {
            Some(permit) => ValueRef { bytes, _keeper: Keeper::Page { _pin: record, _permit: permit } },
            // SAFETY: the caller promises that they lie in the page, which is pinned for so long.
            None => ValueRef::owned(unsafe { bytes.as_ref() }.to_vec()),
        }
    }
}

impl Snapshot {
    /// Returns the value. The call ends here, or is suspended: a user's code may hold the result for long.
    #[inline]
    pub(crate) fn get_ref_in(
        &self,
        table: TableId,
        reading: Reading,
        key: &[u8],
    ) -> Result<Option<ValueRef<'_>>> {
        self.count_get(table);
        self.resolve(self.call()?, table, key, Borrow { snapshot: self, reading })
    }
}

struct Borrow<'s> {
    snapshot: &'s Snapshot,
    reading: Reading,
}

impl<'s> Consumer<'s> for Borrow<'s> {
    type Output = ValueRef<'s>;

    #[inline(always)]
    fn value(self, stored: &[u8], place: Place<'_, 's>) -> Result<Option<ValueRef<'s>>> {
        let Some(value) = self.reading.value(stored)? else { return Ok(None) };
        let bytes = NonNull::from(value);
        Ok(Some(match place {
            Place::Memtable(call) => ValueRef { bytes, _keeper: Keeper::Memtable { _call: call.suspend() } },
            // SAFETY: the bytes were found in this page.
            Place::Page(leaf) => unsafe { ValueRef::in_page(self.snapshot, leaf.pin(), bytes) },
        }))
    }

    #[inline(always)]
    fn large(self, large: LargeRef, call: EpochGuard<'s>) -> Result<Option<ValueRef<'s>>> {
        let _suspended = call.suspend();
        Ok(self.snapshot.large_copy(self.reading, large)?.map(ValueRef::owned))
    }
}

impl Deref for ValueRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the keeper, which is as old as `bytes` and goes with it, keeps them where they are and as they are:
        // pinned pages, records of memtables, and vectors that nobody else has are not written, and what 's borrows
        // cannot be.
        unsafe { self.bytes.as_ref() }
    }
}

impl AsRef<[u8]> for ValueRef<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for ValueRef<'_> {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for ValueRef<'_> {}
