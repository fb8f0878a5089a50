//! The look-ups of a snapshot, and what each does with the value that [`Snapshot::resolve`] finds.

use crate::read::handle::{Table, not_by_key};
use crate::read::located::Located;
use crate::read::resolve::{Consumer, Place};
use crate::read::snapshot::Snapshot;
use crate::read::value_ref::ValueRef;
use crate::state::ttl::{Expiry, NEVER_MS, Reading};
use base::env::Stopwatch;
use base::latency::Cause;
use base::slots::EpochGuard;
use base::{Large, LargeRef, Result, TableId};
use page::Value;
use std::time::Duration;

impl Snapshot {
    /// Returns a copy of the value of `key`.
    #[inline]
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let reading = table.check(self)?;
        self.get_in(table.id(), reading, key)
    }

    /// Returns the value of `key` in place: see [`ValueRef`].
    #[inline]
    pub fn get_ref(&self, table: &Table, key: &[u8]) -> Result<Option<ValueRef<'_>>> {
        let reading = table.check(self)?;
        self.get_ref_in(table.id(), reading, key)
    }

    /// Calls `with` on the value of `key` in place.
    #[inline]
    pub fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.get_ref(table, key)?.map(|value| with(&value)))
    }

    /// Returns the length of the value of `key` in bytes. A value outside the pages is not read.
    pub fn value_len(&self, table: &Table, key: &[u8]) -> Result<Option<u64>> {
        let reading = table.check(self)?;
        self.len_in(table.id(), reading, key)
    }

    /// Returns when the entry of `key` expires; `None` if it does not exist. A value outside the pages is not read.
    ///
    /// # Errors
    /// [`Invalid`](base::ErrorKind::Invalid) if the table has no TTL by key.
    pub fn expiry(&self, table: &Table, key: &[u8]) -> Result<Option<Expiry>> {
        let reading = table.check(self)?;
        if !reading.is_by_key() {
            return Err(not_by_key(table));
        }
        Ok(self.date_in(table.id(), reading, key)?.map(|date| self.expiry_at(date)))
    }

    /// Returns when an entry expires that has this date, seen from the time of the snapshot.
    pub(crate) fn expiry_at(&self, until_ms: u64) -> Expiry {
        match until_ms {
            NEVER_MS => Expiry::Never,
            until_ms => Expiry::In(Duration::from_millis(until_ms.saturating_sub(self.time_ms()))),
        }
    }

    pub(crate) fn date_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<u64>> {
        self.count_get(table);
        self.resolve(self.call()?, table, key, Date(reading))
    }

    /// Returns whether `key` exists.
    #[inline]
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        let reading = table.check(self)?;
        self.contains_in(table.id(), reading, key)
    }

    pub(crate) fn get_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.count_get(table) {
            return self.copy_timed(table, reading, key);
        }
        self.resolve(self.call()?, table, key, Copy { snapshot: self, reading })
    }

    /// Copies the value and measures the time of that, unless it read from the disk, which is counted there.
    #[cold]
    #[inline(never)]
    fn copy_timed(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let store = self.store();
        let mut cause = Cause::PoolHit;
        let (faults, watch) = (store.pool.stats().faults, Stopwatch::start());
        let noting = Noting { copy: Copy { snapshot: self, reading }, cause: &mut cause };
        let got = self.resolve(self.call()?, table, key, noting)?;
        let ns = watch.elapsed_ns();
        if store.pool.stats().faults == faults {
            store.slots.latencies.record(cause, ns);
        }
        Ok(got)
    }

    pub(crate) fn contains_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<bool> {
        self.count_get(table);
        Ok(self.resolve(self.call()?, table, key, Presence(reading))?.is_some())
    }

    pub(crate) fn len_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<u64>> {
        self.count_get(table);
        self.resolve(self.call()?, table, key, Length(reading))
    }

    /// Returns where the value of `key` is, with its bytes if they are in memory or in a page.
    pub(crate) fn locate_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Option<Located>> {
        self.count_get(table);
        self.resolve(self.call()?, table, key, Location(reading))
    }

    /// Returns a copy of a large value, unless it has expired.
    pub(crate) fn large_copy(&self, reading: Reading, large: LargeRef) -> Result<Option<Vec<u8>>> {
        if !reading.is_alive(large) {
            return Ok(None);
        }
        self.store().read_large(large).map(|stored| Some(reading.whole(stored)))
    }
}

/// A consumer that copies the value within the epoch; a large one after it.
struct Copy<'s> {
    snapshot: &'s Snapshot,
    reading: Reading,
}

impl<'s> Consumer<'s> for Copy<'s> {
    type Output = Vec<u8>;

    #[inline(always)]
    fn value(self, stored: &[u8], _: Place<'_, 's>) -> Result<Option<Vec<u8>>> {
        self.reading.copy(stored)
    }

    #[inline(always)]
    fn large(self, large: LargeRef, call: EpochGuard<'s>) -> Result<Option<Vec<u8>>> {
        let _suspended = call.suspend();
        self.snapshot.large_copy(self.reading, large)
    }
}

/// A consumer that does the same, and notes whether the value was in a memtable.
struct Noting<'s, 'c> {
    copy: Copy<'s>,
    cause: &'c mut Cause,
}

impl<'s> Consumer<'s> for Noting<'s, '_> {
    type Output = Vec<u8>;

    #[inline(always)]
    fn value(self, stored: &[u8], place: Place<'_, 's>) -> Result<Option<Vec<u8>>> {
        if matches!(place, Place::Memtable(_)) {
            *self.cause = Cause::Memtable;
        }
        self.copy.value(stored, place)
    }

    #[inline(always)]
    fn large(self, large: LargeRef, call: EpochGuard<'s>) -> Result<Option<Vec<u8>>> {
        self.copy.large(large, call)
    }
}

struct Presence(Reading);

impl<'s> Consumer<'s> for Presence {
    type Output = ();

    #[inline(always)]
    fn value(self, stored: &[u8], _: Place<'_, 's>) -> Result<Option<()>> {
        Ok(self.0.value(stored)?.map(|_| ()))
    }

    #[inline(always)]
    fn large(self, large: LargeRef, _: EpochGuard<'s>) -> Result<Option<()>> {
        Ok(self.0.is_alive(large).then_some(()))
    }
}

struct Length(Reading);

impl<'s> Consumer<'s> for Length {
    type Output = u64;

    #[inline(always)]
    fn value(self, stored: &[u8], _: Place<'_, 's>) -> Result<Option<u64>> {
        self.0.len_bytes(Value::Inline(stored))
    }

    #[inline(always)]
    fn large(self, large: LargeRef, _: EpochGuard<'s>) -> Result<Option<u64>> {
        self.0.len_bytes(Value::Large(Large::of(&large.encode())))
    }
}

struct Date(Reading);

impl<'s> Consumer<'s> for Date {
    type Output = u64;

    #[inline(always)]
    fn value(self, stored: &[u8], _: Place<'_, 's>) -> Result<Option<u64>> {
        self.0.date(Value::Inline(stored))
    }

    #[inline(always)]
    fn large(self, large: LargeRef, _: EpochGuard<'s>) -> Result<Option<u64>> {
        self.0.date(Value::Large(Large::of(&large.encode())))
    }
}

struct Location(Reading);

impl<'s> Consumer<'s> for Location {
    type Output = Located;

    #[inline(always)]
    fn value(self, stored: &[u8], _: Place<'_, 's>) -> Result<Option<Located>> {
        Located::of_value(Value::Inline(stored), self.0)
    }

    #[inline(always)]
    fn large(self, large: LargeRef, _: EpochGuard<'s>) -> Result<Option<Located>> {
        Located::of_value(Value::Large(Large::of(&large.encode())), self.0)
    }
}
