//! A get for callers that must not wait: a thread that serves many sockets, say.
//!
//! It goes the way of every other get as far as memory reaches, under a guard that says not to wait
//! ([`base::slots::EpochGuard::without_waiting`]), and stops at the first thing that is not there: a page, a value
//! outside the pages, attached runs, a table whose row would have to be looked up. Nothing is read from the disk,
//! nobody is waited for, and nothing is begun on the caller's behalf.

use crate::read::handle::Table;
use crate::read::snapshot::Snapshot;
use crate::state::ttl::Reading;
use base::{ErrorKind, Result, TableId};
use memtable::Found;
use page::Value;

/// What a read that does not wait found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resident<T> {
    /// The key is present.
    Found(T),
    /// The key is absent.
    Absent,
    /// Memory does not say; a call that may wait will.
    WouldWait,
}

impl Resident<Vec<u8>> {
    fn of(value: Option<&[u8]>) -> Self {
        value.map_or(Resident::Absent, |value| Resident::Found(value.to_vec()))
    }
}

impl Snapshot {
    /// A copy of the value of `key`, if memory alone can tell.
    #[inline]
    pub fn get_resident(&self, table: &Table, key: &[u8]) -> Result<Resident<Vec<u8>>> {
        if !table.is_known_to(self) {
            return Ok(Resident::WouldWait);
        }
        match self.get_resident_in(table.id(), table.reading(self), key) {
            Err(error) if error.kind() == ErrorKind::WouldWait => Ok(Resident::WouldWait),
            result => result,
        }
    }

    fn get_resident_in(&self, table: TableId, reading: Reading, key: &[u8]) -> Result<Resident<Vec<u8>>> {
        self.count_get(table);
        let mut call = self.call()?.without_waiting();
        let view = self.view(&call);
        if view.has_attached {
            return Ok(Resident::WouldWait);
        }
        match self.in_memtables(view, table, key) {
            Some(Found::Value(value)) => return Ok(Resident::of(reading.value(value)?)),
            Some(Found::Large(_)) => return Ok(Resident::WouldWait),
            Some(Found::Deleted) => return Ok(Resident::Absent),
            None => {}
        }
        let leaf = self.in_runs(&mut call, table, key)?;
        Ok(match leaf.as_ref().map(|leaf| leaf.value()) {
            Some(Value::Inline(value)) => Resident::of(reading.value(value)?),
            Some(Value::Large(_)) => Resident::WouldWait,
            Some(Value::Deleted) | None => Resident::Absent,
        })
    }
}
