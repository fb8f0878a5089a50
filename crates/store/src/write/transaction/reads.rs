//! What a transaction reads: its own writes first, then what it spilled, then its snapshot. What comes from the
//! snapshot is noted, for the commit to validate.

use super::Transaction;
use crate::read::handle::Admitted;
use crate::read::handle::Table;
use crate::read::located::Located;
use crate::read::scan::Cursor;
use crate::read::value_reader::ValueReader;
use crate::state::ttl::Reading;
use crate::uncommitted::large::Unpublished;
use crate::uncommitted::spill;
use crate::uncommitted::write_set::Own;
use base::{Result, Span, TableId};
use run::PinnedRecord;
use std::ops::Bound;
use std::sync::Arc;

impl Transaction {
    /// A copy of the value of `key`, own writes included.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(stored)) => Ok(reading.value(stored)?.map(<[u8]>::to_vec)),
            Some(Own::Large(large)) => self.snapshot.large_copy(reading, large),
            Some(Own::Deleted) => Ok(None),
            None if self.spills.is_some() => self.get_below(id, reading, key, <[u8]>::to_vec),
            None => {
                self.note_read(id, key);
                self.snapshot.get_in(id, reading, key)
            }
        }
    }

    /// Runs `with` on the value of `key` where it lies.
    pub fn get_with<T>(&self, table: &Table, key: &[u8], with: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(stored)) => Ok(reading.value(stored)?.map(with)),
            Some(Own::Large(large)) => Ok(self.snapshot.large_copy(reading, large)?.as_deref().map(with)),
            Some(Own::Deleted) => Ok(None),
            None if self.spills.is_some() => self.get_below(id, reading, key, with),
            None => {
                self.note_read(id, key);
                self.snapshot.get_with_in(id, reading, key, with)
            }
        }
    }

    /// What was spilled says of `key`; else the snapshot, from which it was read then.
    #[cold]
    fn get_below<T>(
        &self,
        table: TableId,
        reading: Reading,
        key: &[u8],
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        match self.find_spilled(table, key)? {
            Some(found) => spill::value_of(found, reading, &self.store().pool, with),
            None => {
                self.note_read(table, key);
                self.snapshot.get_with_in(table, reading, key, with)
            }
        }
    }

    #[inline]
    pub(super) fn find_spilled(&self, table: TableId, key: &[u8]) -> Result<Option<Option<PinnedRecord>>> {
        match &self.spills {
            Some(spills) => spills.find(self.store(), self.snapshot.reader(), table, key),
            None => Ok(None),
        }
    }

    /// Whether `key` is present.
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        // What it wrote itself has not expired: its dates are not before the snapshot's time.
        match self.writes().get(id, key) {
            Some(own) => Ok(own != Own::Deleted),
            None => match self.find_spilled(id, key)? {
                Some(found) => Ok(found.is_some()),
                None => {
                    self.note_read(id, key);
                    self.snapshot.contains_in(id, reading, key)
                }
            },
        }
    }

    /// Where the value of `key` is, and what guards it if it is this transaction's own.
    fn locate(&self, table: &Table, key: &[u8]) -> Result<Option<(Located, Option<Arc<Unpublished>>)>> {
        let Admitted { id, reading, .. } = self.admitted(table)?;
        match self.writes().get(id, key) {
            Some(Own::Value(stored)) => {
                Ok(reading.value(stored)?.map(|value| (Located::Bytes(value.to_vec()), None)))
            }
            Some(Own::Large(large)) => {
                let own = || self.writes().large(id, key).cloned();
                Ok(Located::of_large(large, reading).map(|located| (located, own())))
            }
            Some(Own::Deleted) => Ok(None),
            None => match self.find_spilled(id, key)? {
                // Not longer than a value that the log would hold; a reference could outlive the run.
                Some(found) => {
                    let value = spill::value_of(found, reading, &self.store().pool, <[u8]>::to_vec)?;
                    Ok(value.map(|value| (Located::Bytes(value), None)))
                }
                None => {
                    self.note_read(id, key);
                    Ok(self.snapshot.locate_in(id, reading, key)?.map(|located| (located, None)))
                }
            },
        }
    }

    /// A reader of the value of `key`, own writes included. It may outlive the transaction.
    pub fn value_reader(&self, table: &Table, key: &[u8]) -> Result<Option<ValueReader>> {
        let located = self.locate(table, key)?;
        located.map(|(located, own)| ValueReader::new(located, &self.snapshot, own)).transpose()
    }

    /// The length of the value of `key`, in bytes, own writes included.
    pub fn value_len(&self, table: &Table, key: &[u8]) -> Result<Option<u64>> {
        Ok(self.locate(table, key)?.map(|(located, _)| located.len_bytes()))
    }

    /// A cursor over the keys in `span`, own writes included. What it passes is part of what was read.
    pub fn cursor(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        let admitted = self.admitted(table)?;
        let reads = self.is_serializable().then_some(&self.gathered().reads);
        let spills = self.spills.as_deref();
        Cursor::over_transaction(&self.snapshot, self.writes(), spills, reads, admitted, span)
    }

    /// A cursor whose user notes what was read itself.
    pub(crate) fn cursor_untracked(&self, table: &Table, span: Span) -> Result<Cursor<'_>> {
        let of = self.admitted(table)?;
        Cursor::over_transaction(&self.snapshot, self.writes(), self.spills.as_deref(), None, of, span)
    }

    pub(crate) fn note_read(&self, table: TableId, key: &[u8]) {
        if self.is_serializable() {
            self.gathered().reads.key(self.store(), table, key);
        }
    }

    /// A cursor that writes reads another range from now on.
    pub(crate) fn begin_range(&mut self, table: &Table, low: &[u8], high: Bound<&[u8]>) {
        self.end_range();
        if self.is_serializable() {
            self.range = Some(self.gathered().reads.range(self.store(), table.id(), low, high));
        }
    }

    /// It went on to `high`.
    pub(crate) fn extend_range_high(&self, high: Bound<&[u8]>) {
        if let Some(token) = self.range {
            self.gathered().reads.extend_high(self.store(), token, high);
        }
    }

    /// It went back to `low`.
    pub(crate) fn extend_range_low(&self, low: &[u8]) {
        if let Some(token) = self.range {
            self.gathered().reads.extend_low(self.store(), token, low);
        }
    }

    /// It reads no more of its range.
    pub(crate) fn end_range(&mut self) {
        self.range.take().into_iter().for_each(|token| self.gathered().reads.close(token));
    }
}
