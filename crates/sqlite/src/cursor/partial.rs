//! Long records, of which a batch has the beginning.
//!
//! A program that lists files by name does not want their contents. So of a record that lies outside of pages, a batch
//! has what its page has: the header and the first columns ([`pando::Beginning`]). SQLite asks for the rest by
//! `BtreePayload`, as it does for what is on overflow pages, and then the record is read as a whole and kept until that
//! of another row is. It is looked up by its rowid for that. So where most rows of a batch were completed, the next
//! batches are read with whole records; then a short one follows that finds out whether that is still worth it.
//!
//! Entries of indexes are read as wholes, because their key is in the record.

use super::{Cursor, Own, SEEK_ROWS, nowhere};
use crate::failure::{ABORT, CORRUPT, Failure, Outcome};
use crate::memory::{Memory, Records};
use crate::state::read;
use crate::sys::Row;
use pando::{Beginning, ReadTables};
use sqlite_format::key;

/// The length up to which a record is copied as a whole if it is in memory, and read as a whole by a look-up: another
/// look-up would cost more.
pub(super) const LONG_BYTES: usize = 16 << 10;
/// How many bytes of a longer one are copied.
const KEPT_BYTES: usize = 512;
/// The fewest bytes of a record that SQLite looks at: the length of its header.
pub(super) const LEAST_BYTES: usize = 16;
/// How many batches are read with whole records, once that has seemed worth it.
const WHOLE_BATCHES: usize = 16;

/// Returns a row with a copy of its record, or of the beginning if it `may_be_cut`.
#[inline]
pub(super) fn own_row(records: &mut Records, rowid: i64, value: Beginning<'_>, may_be_cut: bool) -> Row {
    let is_long = may_be_cut && value.bytes.len() > LONG_BYTES;
    let here = if is_long { &value.bytes[..KEPT_BYTES] } else { value.bytes };
    // The lengths were checked: see `length`.
    Row { rowid, record: records.copy(here), bytes: value.len_bytes as u32, here: here.len() as u32 }
}

impl Own {
    /// Returns whether records are read as wholes.
    #[inline]
    pub(super) fn reads_whole(&self) -> bool {
        self.shape.is_some() || self.whole_batches > 0
    }

    /// Decides whether the next batch is read with whole records.
    pub(super) fn choose_whole(&mut self) {
        let completed = std::mem::take(&mut self.completed);
        if self.whole_batches == 0 {
            let is_worth_it = completed > 0 && 2 * completed >= self.memory.rows.len();
            self.whole_batches = if is_worth_it { WHOLE_BATCHES } else { 0 };
            return;
        }
        self.whole_batches -= 1;
        if self.whole_batches == 0 {
            self.wanted = SEEK_ROWS;
        }
    }
}

impl Cursor<'_> {
    /// Reads the record of the row that the cursor is on, of which the batch has the beginning, as a whole.
    pub(crate) fn complete(&mut self) -> Outcome<()> {
        if !self.is_fresh() && self.restore()? {
            return Err(Failure::new(ABORT, "the row whose columns are read was deleted meanwhile"));
        }
        self.complete_at(self.tail.row as usize)
    }

    pub(super) fn complete_at(&mut self, at: usize) -> Outcome<()> {
        let (own, state) = (&mut *self.own, &*self.state);
        let Memory { rows, records, .. } = &mut *own.memory;
        let Some(&row) = rows.get(at) else { return Err(nowhere()) };
        if row.here == row.bytes {
            return Ok(());
        }
        let (table, key) = (&own.tree.table, key::of_rowid(row.rowid));
        let found = read!(state, reader => {
            let keep = |value: &[u8]| {
                let is_same = value.len() == row.bytes as usize;
                if is_same {
                    records.keep_whole(rows, at, value);
                }
                is_same
            };
            reader.get_with(table, key, keep).map_err(Failure::from)
        })?;
        own.completed += 1;
        match found {
            Some(true) => Ok(()),
            _ => Err(Failure::new(CORRUPT, "a row is not what its beginning said")),
        }
    }
}
