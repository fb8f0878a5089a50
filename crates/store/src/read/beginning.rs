//! The beginning of a value, for callers that may not need the rest: a value outside the pages is not read.

use crate::read::handle::Table;
use crate::read::resolve::{Consumer, Place};
use crate::read::snapshot::Snapshot;
use crate::state::ttl::Reading;
use base::slots::EpochGuard;
use base::{Large, LargeRef, Result, TableId};
use page::Value;

/// The beginning of a value. It is the whole value if that is in memory or in a page. Of a value that is stored outside
/// of pages, it is a sixteenth, and at most 480 bytes; a value of more than 1 MiB has an empty beginning until a
/// checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning<'a> {
    /// The first bytes of the value; can be empty.
    pub bytes: &'a [u8],
    /// The length of the whole value in bytes.
    pub len_bytes: u64,
}

impl<'a> Beginning<'a> {
    /// Returns a beginning that is the whole value.
    #[inline]
    #[must_use]
    pub fn whole(value: &'a [u8]) -> Beginning<'a> {
        Beginning { bytes: value, len_bytes: value.len() as u64 }
    }

    /// Returns whether the beginning is the whole value.
    #[inline]
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.bytes.len() as u64 == self.len_bytes
    }

    /// Returns the beginning of what a record holds; `None` if it is deleted or has expired.
    #[inline]
    pub(crate) fn of(value: Value<'a>, reading: Reading) -> Result<Option<Beginning<'a>>> {
        match value {
            Value::Inline(stored) => Ok(reading.value(stored)?.map(Beginning::whole)),
            Value::Large(encoded) => {
                let (large, stored) = (encoded.reference(), encoded.beginning());
                let bytes = stored.get(reading.front_bytes()..).unwrap_or_default();
                let len_bytes = large.len_bytes.saturating_sub(reading.front_bytes() as u64);
                Ok(reading.is_alive(large).then_some(Beginning { bytes, len_bytes }))
            }
            Value::Deleted => Ok(None),
        }
    }
}

impl Snapshot {
    /// Calls `with` on the beginning of the value of `key`. A value of at most `whole_bytes` is read as a whole.
    pub fn get_beginning<T>(
        &self,
        table: &Table,
        key: &[u8],
        whole_bytes: usize,
        with: impl FnOnce(Beginning<'_>) -> T,
    ) -> Result<Option<T>> {
        let reading = table.check(self)?;
        self.beginning_in((table.id(), reading), key, whole_bytes, with)
    }

    pub(crate) fn beginning_in<T>(
        &self,
        (table, reading): (TableId, Reading),
        key: &[u8],
        whole_bytes: usize,
        with: impl FnOnce(Beginning<'_>) -> T,
    ) -> Result<Option<T>> {
        self.count_get(table);
        let look = Look { snapshot: self, reading, whole_bytes, with: Some(with), seen: None };
        self.resolve(self.call()?, table, key, look)
    }
}

/// A consumer that looks at the beginning of the value.
struct Look<'s, T, F> {
    snapshot: &'s Snapshot,
    reading: Reading,
    whole_bytes: usize,
    with: Option<F>,
    /// What the look at a page found.
    seen: Option<T>,
}

impl<T, F: FnOnce(Beginning<'_>) -> T> Look<'_, T, F> {
    fn look(&mut self, value: Value<'_>) -> Result<Option<T>> {
        Ok(Beginning::of(value, self.reading)?.and_then(|beginning| Some(self.with.take()?(beginning))))
    }

    fn is_wanted_whole(&self, large: LargeRef) -> bool {
        large.len_bytes <= self.whole_bytes.saturating_add(self.reading.front_bytes()) as u64
    }
}

impl<'s, T, F: FnOnce(Beginning<'_>) -> T> Consumer<'s> for Look<'s, T, F> {
    type Output = T;

    #[inline(always)]
    fn value(mut self, stored: &[u8], _: Place<'_, 's>) -> Result<Option<T>> {
        self.look(Value::Inline(stored))
    }

    fn beginning(&mut self, large: Large<'_>) -> Result<()> {
        if !self.is_wanted_whole(large.reference()) {
            self.seen = self.look(Value::Large(large))?;
        }
        Ok(())
    }

    fn large(mut self, large: LargeRef, call: EpochGuard<'s>) -> Result<Option<T>> {
        if self.is_wanted_whole(large) {
            let _suspended = call.suspend();
            let whole = self.snapshot.large_copy(self.reading, large)?;
            return Ok(whole.and_then(|whole| Some(self.with.take()?(Beginning::whole(&whole)))));
        }
        match self.seen.take() {
            None => self.look(Value::Large(Large::of(&large.encode()))),
            seen => Ok(seen),
        }
    }
}
