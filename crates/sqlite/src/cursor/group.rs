//! Long groups: entries of an index whose keys are cut and begin in the same way, too many to be one batch.
//!
//! A group has no order, so all of it is read for each batch. Of its entries, those are kept that come first in the
//! batch's direction: as many as a seek wants, and at most [`MOST_KEPT_BYTES`] of them. So a look-up needs little
//! memory, and a scan reads the group once for each [`MOST_KEPT_BYTES`] of it.

use super::{Cursor, Own, RANGE_ROWS, length};
use crate::failure::{CORRUPT, Failure, INTERRUPT, Outcome};
use crate::memory::Memory;
use crate::state::read;
use crate::sys::{Row, is_interrupted};
use pando::{ReadTables, RecordCursor, Span};
use sqlite_format::key::{self, Shape};
use std::collections::BTreeMap;

/// The most bytes of keys and records that are kept: a compromise between the memory of a cursor and how often a scan
/// reads a group.
const MOST_KEPT_BYTES: usize = 16 << 20;
/// How many entries are read between two looks at interrupts: some milliseconds' worth.
const ENTRIES_BETWEEN_LOOKS: usize = 1024;

/// The entries that come first of those that were offered.
struct Kept {
    /// The records by what their keys have after the group's beginning.
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    most_rows: usize,
    is_backward: bool,
    /// The first of the keys that were not kept. What comes after it is not kept either, so that nothing is left out
    /// between two entries.
    end: Option<Vec<u8>>,
}

impl Kept {
    fn new(most_rows: usize, is_backward: bool) -> Kept {
        Kept { records: BTreeMap::new(), bytes: 0, most_rows, is_backward, end: None }
    }

    fn offer(&mut self, key: &[u8], record: &[u8]) {
        let is_beyond = |end: &Vec<u8>| if self.is_backward { key <= &end[..] } else { key >= &end[..] };
        if self.end.as_ref().is_some_and(is_beyond) {
            return;
        }
        self.bytes += key.len() + record.len();
        self.records.insert(key.to_vec(), record.to_vec());
        while self.records.len() > self.most_rows || self.records.len() > 1 && self.bytes > MOST_KEPT_BYTES {
            let last = if self.is_backward { self.records.pop_first() } else { self.records.pop_last() };
            let Some((key, record)) = last else { break };
            self.bytes -= key.len() + record.len();
            self.end = Some(key);
        }
    }

    /// Returns the entries in their direction.
    fn in_order(&self) -> Box<dyn Iterator<Item = (&Vec<u8>, &Vec<u8>)> + '_> {
        if self.is_backward { Box::new(self.records.iter().rev()) } else { Box::new(self.records.iter()) }
    }
}

impl Cursor<'_> {
    /// Reads the entries of a group that come first of those whose whole keys `is_wanted` says, and moves to the first,
    /// or to nowhere if there is none.
    pub(super) fn load_group(
        &mut self,
        group: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
        is_backward: bool,
    ) -> Outcome<()> {
        let (own, state, tail) = (&mut *self.own, &*self.state, &*self.tail);
        own.forget_batch();
        let Own { shape: Some(shape), memory, tree, wanted, must_end, .. } = own else {
            return Err(Failure::new(CORRUPT, "the key of a row does not have 8 bytes"));
        };
        // More rows than a step beside a look-up wants are those of a scan.
        let most_rows = if *wanted > RANGE_ROWS { usize::MAX } else { (*wanted).max(1) };
        let mut kept = Kept::new(most_rows, is_backward);
        let stops = || !*must_end && is_interrupted(tail) != 0;
        read!(state, reader => {
            let mut cursor = reader.cursor(&tree.table, Span::prefix(group))?;
            keep_first(&mut cursor, shape, &mut kept, is_wanted, stops)
        })?;
        let Memory { rows, records, first_key, .. } = &mut **memory;
        for (key, record) in kept.in_order() {
            if rows.is_empty() {
                first_key.clear();
                first_key.extend_from_slice(group);
                first_key.extend_from_slice(key);
            }
            rows.push(Row::whole(0, records.copy(record), length(record.len() as u64)?));
        }
        // Others can come after it.
        self.show(is_backward, false);
        Ok(())
    }
}

/// Offers all entries that are wanted, unless it is to stop.
fn keep_first(
    cursor: &mut impl RecordCursor,
    shape: &Shape,
    kept: &mut Kept,
    is_wanted: impl Fn(&[u8]) -> bool,
    stops: impl Fn() -> bool,
) -> Outcome<()> {
    let (mut whole, mut count) = (Vec::new(), 0_usize);
    while let Some((stored, record)) = cursor.next()? {
        if count.is_multiple_of(ENTRIES_BETWEEN_LOOKS) && stops() {
            return Err(Failure::new(INTERRUPT, "interrupted"));
        }
        count += 1;
        if !key::is_cut(stored.len()) {
            continue;
        }
        shape.key_of(record, &mut whole)?;
        if is_wanted(&whole) {
            let rest = whole.get(key::CUT_BYTES..).ok_or_else(not_its_key)?;
            kept.offer(rest, record);
        }
    }
    Ok(())
}

/// Returns the failure for a record whose key is shorter than the one by which it is stored.
#[cold]
fn not_its_key() -> Failure {
    Failure::new(CORRUPT, "an index entry does not have the key of its record")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers a record of each key and length in turn, and returns the first bytes of the keys that are kept.
    fn kept(most_rows: usize, is_backward: bool, lengths: &[(u8, usize)]) -> Vec<u8> {
        let mut kept = Kept::new(most_rows, is_backward);
        lengths.iter().for_each(|&(key, bytes)| kept.offer(&[key], &vec![0; bytes]));
        kept.in_order().map(|(key, _)| key[0]).collect()
    }

    #[test]
    fn the_first_entries_are_kept_in_their_direction() {
        let few = [(3, 1), (1, 1), (4, 1), (2, 1), (5, 1)];
        assert_eq!(kept(2, false, &few), [1, 2]);
        assert_eq!(kept(2, true, &few), [5, 4]);
        assert_eq!(kept(usize::MAX, false, &few), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn nothing_is_left_out_between_two_entries_that_are_kept() {
        let half = MOST_KEPT_BYTES / 2;
        // The third one does not fit, so that the fourth, which would, is not kept.
        let offered = [(1, half), (2, half / 2), (3, half), (4, 1)];
        assert_eq!(kept(usize::MAX, false, &offered), [1, 2]);
        let backward = [(4, half), (3, half / 2), (2, half), (1, 1)];
        assert_eq!(kept(usize::MAX, true, &backward), [4, 3]);
        assert_eq!(kept(usize::MAX, false, &[(1, 2 * MOST_KEPT_BYTES), (2, 1)]), [1]);
        assert_eq!(kept(usize::MAX, false, &[(2, 1), (1, 2 * MOST_KEPT_BYTES)]), [1]);
    }
}
