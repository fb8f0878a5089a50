//! A get for callers that must not wait, for example a thread that serves many sockets.
//!
//! It looks the key up as every other get does, under a guard that does not wait
//! ([`base::slots::EpochGuard::without_waiting`]), and stops at the first thing that is not in memory: a page, a value
//! outside the pages, or a table whose row would have to be looked up. It does not read from the disk, does not wait
//! for other threads, and starts no background work.

use crate::read::handle::Table;
use crate::read::resolve::{Consumer, Place};
use crate::read::snapshot::Snapshot;
use crate::state::ttl::Reading;
use base::slots::EpochGuard;
use base::{ErrorKind, LargeRef, Result, TableId};

/// The result of a read that does not wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resident<T> {
    /// The key exists.
    Found(T),
    /// The key does not exist.
    Absent,
    /// The data is not in memory; a call that may wait will find it.
    WouldWait,
}

impl Snapshot {
    /// Returns a copy of the value of `key` if the value is in memory.
    #[inline]
    pub fn get_resident(&self, table: &Table, key: &[u8]) -> Result<Resident<Vec<u8>>> {
        if !table.is_known_to(self) {
            return Ok(Resident::WouldWait);
        }
        self.get_resident_in(table.id(), table.reading(self), key)
    }

    pub(crate) fn get_resident_in(
        &self,
        table: TableId,
        reading: Reading,
        key: &[u8],
    ) -> Result<Resident<Vec<u8>>> {
        self.count_get(table);
        match self.resolve(self.call()?.without_waiting(), table, key, InMemory(reading)) {
            Err(error) if error.kind() == ErrorKind::WouldWait => Ok(Resident::WouldWait),
            found => Ok(found?.unwrap_or(Resident::Absent)),
        }
    }
}

struct InMemory(Reading);

impl<'s> Consumer<'s> for InMemory {
    type Output = Resident<Vec<u8>>;

    #[inline(always)]
    fn value(self, stored: &[u8], _: Place<'_, 's>) -> Result<Option<Self::Output>> {
        Ok(self.0.copy(stored)?.map(Resident::Found))
    }

    #[inline(always)]
    fn large(self, _: LargeRef, _: EpochGuard<'s>) -> Result<Option<Self::Output>> {
        Ok(Some(Resident::WouldWait))
    }
}
