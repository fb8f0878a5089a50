//! An index that a scan makes for itself, as SQLite does for its own tables but not for virtual ones. Without it, a
//! join by columns without an index reads one table as often as the other has rows.
//!
//! 1. The first scan of a statement reads all rows, because there may be no second one.
//! 2. The second one reads all rows once more, and keeps for each the *bucket* of its value and its key.
//! 3. From then on, the rows of a value's bucket are looked up by their keys.
//!
//! Values that any comparison considers equal are in one bucket, for all affinities and collations, and SQLite compares
//! the rows that are found. The index counts as memory of SQLite. If there is no room for it, scans continue to read
//! all rows.

use crate::affinity::{Affinity, number_of};
use crate::vtab::Reserved;
use rows::{ColumnType, Value};
use rusqlite::types::ValueRef;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// The step in which its memory is reserved.
const RESERVED_BYTES: usize = 1 << 20;
/// The largest index of one scan.
const MOST_BYTES: usize = 64 << 20;

/// Returns whether equal values of such a column are always in one bucket. A value without affinity may be compared as
/// text, of which a number has several forms.
pub(crate) fn is_indexable(kind: ColumnType, affinity: Affinity) -> bool {
    affinity != Affinity::Blob || kind == ColumnType::Bytes || kind == ColumnType::Uuid
}

/// Returns the bucket of a value; `None`: it is equal to nothing.
pub(crate) fn bucket(value: ValueRef<'_>) -> Option<u64> {
    let number = |number: f64| (0u8, (number + 0.0).to_bits(), &[][..]);
    let mut folded;
    let parts = match value {
        ValueRef::Null => return None,
        ValueRef::Integer(integer) => number(integer as f64),
        ValueRef::Real(real) => number(real),
        ValueRef::Blob(bytes) => (2, 0, bytes),
        ValueRef::Text(text) => match str::from_utf8(text).ok().and_then(number_of) {
            Some(Value::Int(integer)) => number(integer as f64),
            Some(Value::Float(real)) => number(real),
            _ => {
                folded = text.to_ascii_lowercase();
                let count = folded.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
                folded.truncate(count);
                (1, 0, &folded[..])
            }
        },
    };
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    Some(hasher.finish())
}

/// An index that is being made.
#[derive(Default)]
pub(crate) struct Making {
    /// The bucket of each row, and the position of its key.
    entries: Vec<(u64, Range<u32>)>,
    keys: Vec<u8>,
    reserved: Vec<Reserved>,
}

impl Making {
    /// Adds a row. Returns whether there was room for it.
    pub fn add(&mut self, bucket: u64, key: &[u8]) -> bool {
        let entry_bytes = size_of::<(u64, Range<u32>)>();
        let bytes = (self.entries.len() + 1) * entry_bytes + self.keys.len() + key.len();
        while bytes > self.reserved.len() * RESERVED_BYTES {
            match Reserved::new(RESERVED_BYTES).filter(|_| bytes <= MOST_BYTES) {
                Some(reserved) => self.reserved.push(reserved),
                None => return false,
            }
        }
        let start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        self.entries.push((bucket, start..self.keys.len() as u32));
        true
    }
}

/// A scan's index.
#[derive(Default)]
pub(crate) struct Transient {
    /// The number of scans so far.
    scans: u32,
    index: Option<Making>,
    is_given_up: bool,
    /// The entries that were found and not taken yet; `None`: all rows are read.
    found: Option<Range<usize>>,
}

impl Transient {
    /// Notes that a scan begins. Returns whether to make the index now.
    pub fn is_wanted(&mut self) -> bool {
        self.scans = self.scans.saturating_add(1);
        self.scans > 1 && self.index.is_none() && !self.is_given_up
    }

    /// Abandons the index, because there is no room for it.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    pub fn made(&mut self, mut making: Making) {
        // The sort is stable, so rows of a bucket stay in the order of their keys.
        making.entries.sort_by_key(|(bucket, _)| *bucket);
        self.index = Some(making);
    }

    /// Finds the rows of a value in a column of this type.
    pub fn find(&mut self, kind: ColumnType, value: ValueRef<'_>) {
        self.found = None;
        let Some(index) = &self.index else { return };
        let has_texts = matches!(kind, ColumnType::Text | ColumnType::Json);
        if has_texts && matches!(value, ValueRef::Real(_)) {
            // As a text it may be equal to another number.
            return;
        }
        let entries = &index.entries;
        self.found = Some(match bucket(value) {
            None => 0..0,
            Some(wanted) => {
                entries.partition_point(|(bucket, _)| *bucket < wanted)
                    ..entries.partition_point(|(bucket, _)| *bucket <= wanted)
            }
        });
    }

    /// Notes that a scan begins that does not use the index: the one of a `RIGHT JOIN` for the rows that were not met.
    pub fn leave(&mut self) {
        self.found = None;
    }

    /// Returns whether rows were looked up in the index.
    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// Returns the next entries that were found, at most `most`.
    pub fn take(&mut self, most: usize) -> Vec<Range<u32>> {
        let (Some(found), Some(index)) = (&mut self.found, &self.index) else { return Vec::new() };
        let end = found.end.min(found.start + most);
        let taken = index.entries[found.start..end].iter().map(|(_, key)| key.clone()).collect();
        found.start = end;
        taken
    }

    /// Returns the key of an entry.
    pub fn key(&self, entry: &Range<u32>) -> &[u8] {
        self.index.as_ref().map_or(&[], |index| &index.keys[entry.start as usize..entry.end as usize])
    }
}
