//! An index that a scan makes for itself, as SQLite does for its own tables, and not for virtual ones: without it, a
//! join by columns that nothing is in the order of reads one table as often as the other has rows.
//!
//! 1. The first scan of a statement reads all rows: there may be no second one.
//! 2. The second one reads all rows once more, and keeps for each the *bucket* of its value and its key.
//! 3. From then on, the rows of a value's bucket are looked up by their keys.
//!
//! Values that any comparison calls equal are in one bucket, whatever affinities and collations it goes by, and SQLite
//! compares the rows that are found. What is kept counts as memory of SQLite's: where there is no room, scans go on
//! reading all rows.

use crate::affinity::{Affinity, number_of};
use crate::vtab::Reserved;
use rows::{ColumnType, Value};
use rusqlite::types::ValueRef;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// What of it is reserved at a time.
const RESERVED_BYTES: usize = 1 << 20;
/// The most of one scan.
const MOST_BYTES: usize = 64 << 20;

/// Whether values of such a column are in one bucket if they are equal. What no affinity has touched may be compared as
/// text, which a number has several of.
pub(crate) fn is_indexable(kind: ColumnType, affinity: Affinity) -> bool {
    affinity != Affinity::Blob || kind == ColumnType::Bytes || kind == ColumnType::Uuid
}

/// Where a value is; `None`: it is equal to nothing.
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

/// An index as it is made.
#[derive(Default)]
pub(crate) struct Making {
    /// A row's bucket, and where its key is.
    entries: Vec<(u64, Range<u32>)>,
    keys: Vec<u8>,
    reserved: Vec<Reserved>,
}

impl Making {
    /// Adds a row. Answers whether there was room for it.
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
    /// Scans so far.
    scans: u32,
    index: Option<Making>,
    is_given_up: bool,
    /// Entries that were found and not taken yet; `None`: all rows are read.
    found: Option<Range<usize>>,
}

impl Transient {
    /// A scan begins: whether it is worth making the index now.
    pub fn is_wanted(&mut self) -> bool {
        self.scans = self.scans.saturating_add(1);
        self.scans > 1 && self.index.is_none() && !self.is_given_up
    }

    /// There is no room for it.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    pub fn made(&mut self, mut making: Making) {
        // Rows of a bucket stay in the order of their keys.
        making.entries.sort_by_key(|(bucket, _)| *bucket);
        self.index = Some(making);
    }

    /// Finds the rows of a value in a column of this kind.
    pub fn find(&mut self, kind: ColumnType, value: ValueRef<'_>) {
        self.found = None;
        let Some(index) = &self.index else { return };
        let has_texts = matches!(kind, ColumnType::Text | ColumnType::Json);
        if has_texts && matches!(value, ValueRef::Real(_)) {
            // As a text it may be another number.
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

    /// Whether rows were looked for in the index.
    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// The next entries that were found, `most` or fewer.
    pub fn take(&mut self, most: usize) -> Vec<Range<u32>> {
        let (Some(found), Some(index)) = (&mut self.found, &self.index) else { return Vec::new() };
        let end = found.end.min(found.start + most);
        let taken = index.entries[found.start..end].iter().map(|(_, key)| key.clone()).collect();
        found.start = end;
        taken
    }

    /// The key of an entry.
    pub fn key(&self, entry: &Range<u32>) -> &[u8] {
        self.index.as_ref().map_or(&[], |index| &index.keys[entry.start as usize..entry.end as usize])
    }
}
