//! Loading many records at once: directly into a run of the transaction's own, bypassing the write set.
//!
//! 1. As long as keys ascend, records are written from the input to the pages of one run, each once. If equal keys
//!    follow each other, the last one wins, as with puts.
//! 2. From the first record out of order on, records are put: the write set sorts as much as fits memory, spills it,
//!    and the spilled runs are merged. So an input in any order is sorted outside of memory.
//! 3. A small load stays in memory, because a run costs the commit a flush of its own.
//!
//! Either way the records are newer than everything that the transaction wrote before, and older than what follows.

use crate::read::handle::Admitted;
use crate::read::handle::Table;
use crate::uncommitted::spill;
use crate::write::transaction::Transaction;
use base::Result;
use std::cmp::Ordering;

/// The result of loading the ascending beginning of an input.
struct Ascending<R> {
    loaded: u64,
    /// The first record that is out of order, or too long for a run.
    rest: Option<R>,
}

impl Transaction {
    /// Puts all `records` into `table`, in any order; the last of several with one key wins. Returns their number.
    /// Input in ascending key order is written once, whatever its size.
    ///
    /// # Errors
    /// Those of `records`, unchanged; those of [`Transaction::put`]. Some of the records before the error may be in the
    /// transaction.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: &Table,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        let of = self.admitted(table)?;
        let mut records = records.into_iter();
        let mut first = Vec::new();
        let mut bytes = 0;
        while bytes <= self.store().memory.shares.write_set_bytes / 4 {
            let Some(record) = records.next().transpose()? else {
                let count = first.len() as u64;
                first
                    .iter()
                    .try_for_each(|(key, value): &(K, V)| self.put_in(of, key.as_ref(), value.as_ref()))?;
                return Ok(count);
            };
            bytes += record.0.as_ref().len() + record.1.as_ref().len();
            first.push(record);
        }
        let mut records = first.into_iter().map(Ok).chain(records);
        let Ascending { mut loaded, rest } = self.load_ascending(of, &mut records)?;
        for record in rest.map(Ok).into_iter().chain(records) {
            let (key, value) = record?;
            self.put_in(of, key.as_ref(), value.as_ref())?;
            loaded += 1;
        }
        Ok(loaded)
    }

    /// Writes records to one run as long as their keys ascend (step 1). What the transaction wrote before is spilled
    /// first.
    fn load_ascending<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        of: Admitted,
        records: &mut impl Iterator<Item = Result<(K, V)>>,
    ) -> Result<Ascending<(K, V)>> {
        self.spill()?;
        let mut ascending = Ascending { loaded: 0, rest: None };
        let mut dated = Vec::new();
        let spilled = spill::build(self.store(), &mut |add| {
            let mut add = |key: &[u8], value: &[u8]| {
                if !of.reading.is_dated() {
                    return add(key, value);
                }
                dated.clear();
                dated.extend_from_slice(&self.date(of.reading));
                dated.extend_from_slice(value);
                add(key, &dated)
            };
            // A record is held back until its successor is known to have another key.
            let mut last: Option<(K, V)> = None;
            for record in records.by_ref() {
                let record = record?;
                self.check_record(record.0.as_ref(), record.1.as_ref())?;
                let len_bytes = of.reading.front_bytes() + record.1.as_ref().len();
                if self.store().early.is_large(len_bytes as u64) {
                    // A record that is too long for a run is written to the data file in pieces.
                    ascending.rest = Some(record);
                    break;
                }
                let order =
                    last.as_ref().map_or(Ordering::Less, |last| last.0.as_ref().cmp(record.0.as_ref()));
                match (order, last.replace(record)) {
                    (Ordering::Less, Some((key, value))) => add(key.as_ref(), value.as_ref())?,
                    (Ordering::Greater, behind) => {
                        ascending.rest = std::mem::replace(&mut last, behind);
                        break;
                    }
                    _ => {}
                }
                ascending.loaded += 1;
            }
            last.map_or(Ok(()), |(key, value)| add(key.as_ref(), value.as_ref()))
        })?;
        if spilled.delta.records.root.is_some() {
            self.push_spilled(of.id, spilled)?;
        }
        Ok(ascending)
    }
}
