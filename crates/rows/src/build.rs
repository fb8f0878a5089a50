//! Filling an index with the rows that are there.

use crate::table::{DynamicTable, Entry};
use crate::value::Value;
use pando::{ErrorKind, Result, Span, Transaction};
use std::ops::Bound;

/// Rows whose entries are made together.
const CHUNK_ROWS: usize = 1000;

impl DynamicTable {
    /// Makes the entries of all rows in index number `place`.
    pub(crate) fn fill(&self, tx: &mut Transaction, place: usize) -> Result<()> {
        let mut after = None;
        while let Some(last) = self.fill_chunk(tx, place, after.as_deref())? {
            after = Some(last);
        }
        Ok(())
    }

    /// Makes the entries of the next rows behind the key `after` in index number `place`. Answers the last row's key;
    /// `None`: there was no row left.
    ///
    /// # Errors
    /// `Exists` with [`crate::Cause::Duplicate`] if a unique index has the entry for another row.
    pub(crate) fn fill_chunk(
        &self,
        tx: &mut Transaction,
        place: usize,
        after: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let entries = self.next_entries(tx, place, after)?;
        let open = &self.inner.indexes[place];
        for (primary, entry) in &entries {
            if entry.value.is_empty() {
                tx.put(&open.table, &entry.key, b"").map_err(|error| self.told(error, Some(open)))?;
                continue;
            }
            match tx.insert(&open.table, &entry.key, &entry.value) {
                // The row's own entry may be there: whoever wrote it since the index was declared made one.
                Err(error) if error.kind() == ErrorKind::Exists => {
                    if tx.get(&open.table, &entry.key)?.as_deref() != Some(&entry.value[..]) {
                        let row = self.get_bytes(tx, primary, |row| self.duplicate(Some(open), &row))?;
                        return Err(row.unwrap_or(error));
                    }
                }
                done => done.map_err(|error| self.told(error, Some(open)))?,
            }
        }
        Ok(entries.into_iter().next_back().map(|(primary, _)| primary))
    }

    /// The keys of the next rows, and their entries.
    fn next_entries(
        &self,
        tx: &Transaction,
        place: usize,
        after: Option<&[u8]>,
    ) -> Result<Vec<(Vec<u8>, Entry)>> {
        let open = &self.inner.indexes[place];
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut cursor = tx.cursor(&self.inner.data, Span::between(from, Bound::Unbounded))?;
        let mut entries = Vec::new();
        while entries.len() < CHUNK_ROWS {
            let Some((key, value)) = cursor.next()? else { break };
            let row: Vec<Value<'_>> = self.decode(key, value)?;
            entries.push((key.to_vec(), self.entry(open, &row, key)?));
        }
        Ok(entries)
    }
}
