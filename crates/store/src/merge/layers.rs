//! What stands behind [`Layer`]: own writes, memtables and deltas above. An enum, so that a step is a jump and not a
//! virtual call.

use super::{DeltaLayer, Item, Layer, Span};
use crate::write_set::{self, Own};
use base::{CommitTs, Result, TableId};
use memtable::{Found, Memtable};
use std::sync::Arc;

/// A layer above the run.
// A cursor has few of these, in one vector: a box each would cost more than the room.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Upper<'a> {
    /// The transaction's own writes.
    Own(write_set::Cursor<'a>),
    /// A memtable as of one timestamp.
    Memtable(MemtableLayer<'a>),
    /// A run of the transaction's own, or one that was attached.
    Delta(DeltaLayer<'a>),
}

/// A memtable's cursor, and its range tombstones as of the same timestamp.
#[derive(Debug)]
pub struct MemtableLayer<'a> {
    cursor: memtable::Cursor<'a>,
    ranges: Vec<Span<'a>>,
}

impl<'a> MemtableLayer<'a> {
    /// `table` in `memtable` as of `at`. Without range tombstones nothing is allocated; with *n* of them, O(n log n).
    pub fn new(memtable: &'a Memtable, table: TableId, at: CommitTs) -> Self {
        let tombstones = memtable.range_tombstones(table).iter().filter(|tombstone| tombstone.ts <= at);
        let ranges = union(tombstones.map(|tombstone| (tombstone.start, tombstone.end)).collect());
        MemtableLayer { cursor: memtable.cursor(table, at), ranges }
    }

    /// What lies outside of `span` may be missing, `None` being all: see [`memtable::Cursor::within`].
    #[must_use]
    pub fn within(self, span: Option<Arc<base::Span>>) -> Self {
        MemtableLayer { cursor: self.cursor.within(span), ..self }
    }
}

/// The same ranges, sorted and disjoint.
fn union(mut ranges: Vec<Span<'_>>) -> Vec<Span<'_>> {
    ranges.sort_unstable_by_key(|&(start, _)| start);
    ranges.dedup_by(|next, last| {
        let joins = last.1.is_none_or(|end| next.0 <= end);
        if joins {
            last.1 = last.1.zip(next.1).map(|(a, b)| a.max(b));
        }
        joins
    });
    ranges
}

impl<'a> From<write_set::Cursor<'a>> for Upper<'a> {
    fn from(cursor: write_set::Cursor<'a>) -> Self {
        Upper::Own(cursor)
    }
}

impl<'a> From<MemtableLayer<'a>> for Upper<'a> {
    fn from(layer: MemtableLayer<'a>) -> Self {
        Upper::Memtable(layer)
    }
}

impl<'a> From<DeltaLayer<'a>> for Upper<'a> {
    fn from(layer: DeltaLayer<'a>) -> Self {
        Upper::Delta(layer)
    }
}

/// One move on whichever layer it is. Moves in memory cannot fail.
macro_rules! moved {
    ($upper:expr, $move:ident $(, $key:expr)?) => {
        match $upper {
            Upper::Own(cursor) => {
                cursor.$move($($key)?);
                Ok(cursor.entry().is_some())
            }
            Upper::Memtable(layer) => {
                layer.cursor.$move($($key)?);
                Ok(layer.cursor.entry().is_some())
            }
            Upper::Delta(layer) => layer.$move($($key)?),
        }
    };
}

impl Layer for Upper<'_> {
    fn seek_first(&mut self) -> Result<bool> {
        moved!(self, seek_first)
    }
    fn seek_last(&mut self) -> Result<bool> {
        moved!(self, seek_last)
    }
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        moved!(self, seek, key)
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<bool> {
        moved!(self, seek_before, key)
    }
    #[inline]
    fn next(&mut self) -> Result<bool> {
        moved!(self, next)
    }
    #[inline]
    fn prev(&mut self) -> Result<bool> {
        moved!(self, prev)
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], Item<'_>)> {
        match self {
            Upper::Own(cursor) => cursor.entry().map(|(key, own)| match own {
                Own::Value(value) => (key, Item::Value(value)),
                Own::Large(large) => (key, Item::Large(large)),
                Own::Deleted => (key, Item::Deleted),
            }),
            Upper::Memtable(layer) => layer.cursor.entry().map(|(key, found)| match found {
                Found::Value(value) => (key, Item::Value(value)),
                Found::Large(large) => (key, Item::Large(large)),
                Found::Deleted => (key, Item::Deleted),
            }),
            Upper::Delta(layer) => layer.entry(),
        }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self {
            Upper::Own(cursor) => cursor.entry().map(|(key, _)| key),
            Upper::Memtable(layer) => layer.cursor.entry().map(|(key, _)| key),
            Upper::Delta(layer) => layer.key(),
        }
    }

    fn has_ranges(&self) -> bool {
        match self {
            Upper::Own(cursor) => cursor.has_ranges(),
            Upper::Memtable(layer) => !layer.ranges.is_empty(),
            Upper::Delta(layer) => layer.has_ranges(),
        }
    }

    fn covering(&self, key: &[u8]) -> Option<Span<'_>> {
        match self {
            Upper::Own(cursor) => cursor.covering(key),
            Upper::Delta(layer) => layer.covering(key),
            Upper::Memtable(layer) => {
                let behind = layer.ranges.partition_point(|&(start, _)| start <= key);
                let &(start, end) = layer.ranges[..behind].last()?;
                end.is_none_or(|end| key < end).then_some((start, end))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_are_joined() {
        let joined =
            union(vec![(b"m", Some(b"n")), (b"a", Some(b"c")), (b"b", Some(b"e")), (b"e", Some(b"f"))]);
        assert_eq!(joined, [(&b"a"[..], Some(&b"f"[..])), (b"m", Some(b"n"))]);
        let open = union(vec![(b"x", Some(b"y")), (b"a", None), (b"c", Some(b"d"))]);
        assert_eq!(open, [(&b"a"[..], None)]);
    }
}
