//! The memory of cursors, which is kept from one to the next.

use crate::sys::Row;

/// What a cursor needs memory for.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The rows of the batch, and their records.
    pub rows: Vec<Row>,
    pub bytes: Vec<u8>,
    /// The saved key, where the place has one.
    pub key: Vec<u8>,
    /// The key of the first row of the batch, for indexes.
    pub first_key: Vec<u8>,
    /// The key that is sought.
    pub sought: Vec<u8>,
    /// What is sought beyond the key, in a `WITHOUT ROWID` table.
    pub sought_rest: Vec<u8>,
    /// How the last stored key began, if it was cut.
    pub group: Vec<u8>,
}

/// The memory of cursors that were closed.
#[derive(Debug, Default)]
#[allow(clippy::vec_box, reason = "moving a box is cheaper than moving seven vectors")]
pub(crate) struct Spare(Vec<Box<Memory>>);

/// How many cursors' memory is kept, and up to how many bytes and rows of each: 1,000 idle connections should need
/// little.
const MOST: usize = 4;
const MOST_BYTES: usize = 8 << 10;
const MOST_ROWS: usize = 256;

impl Spare {
    /// Returns the memory of a closed cursor, or new memory.
    pub(crate) fn take(&mut self) -> Box<Memory> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the memory of a cursor, unless that is a lot.
    pub(crate) fn keep(&mut self, mut memory: Box<Memory>) {
        let Memory { rows, bytes, key, first_key, sought, sought_rest, group } = &mut *memory;
        let mut all = [bytes, key, first_key, sought, sought_rest, group];
        let bytes = all.iter().map(|bytes| bytes.capacity()).sum::<usize>();
        if self.0.len() < MOST && bytes <= MOST_BYTES && rows.capacity() <= MOST_ROWS {
            rows.clear();
            all.iter_mut().for_each(|bytes| bytes.clear());
            self.0.push(memory);
        }
    }
}
