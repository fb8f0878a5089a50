//! The implementations of [`Layer`] above the run: own writes, memtables and deltas. They are an enum, so that a step
//! is a jump and not a virtual call.

use super::{DeltaLayer, Layer, Span};
use crate::uncommitted::write_set;
use base::{CommitTs, Result, TableId, Value};
use memtable::{Fragment, Memtable, Ranges};
use run::LeafRun;
use std::cell::Cell;
use std::sync::Arc;

/// A layer above the run.
// A cursor has few of these, in one vector: a box each would cost more than the space.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Upper<'a> {
    /// The transaction's own writes.
    Own(write_set::Cursor<'a>),
    /// A memtable as of one timestamp.
    Memtable(MemtableLayer<'a>),
    /// A run of the transaction's own, or an attached run.
    Delta(DeltaLayer<'a>),
}

/// A memtable's cursor, and its range deletes as of the same timestamp.
#[derive(Debug)]
pub struct MemtableLayer<'a> {
    cursor: memtable::Cursor<'a>,
    ranges: Ranges<'a>,
    /// The fragment of range deletes around the last key that was asked for: it mostly contains the next key, too.
    around: Cell<Fragment<'a>>,
}

impl<'a> MemtableLayer<'a> {
    /// Creates a layer of `table` in `memtable` as of `at`. It may omit keys outside of `span`; see
    /// [`memtable::Cursor::within`]. It allocates nothing. O(log n) in its range deletes.
    #[inline]
    pub fn new(memtable: &'a Memtable, table: TableId, at: CommitTs, span: Option<Arc<base::Span>>) -> Self {
        let ranges = memtable.ranges(table, at);
        let cursor = memtable.cursor(table, at).within(span);
        MemtableLayer { cursor, ranges, around: Cell::new(ranges.covering(&[])) }
    }

    fn covering(&self, key: &[u8]) -> Option<Span<'a>> {
        if self.ranges.is_empty() {
            return None;
        }
        if !self.around.get().holds(key) {
            self.around.set(self.ranges.covering(key));
        }
        let around = self.around.get();
        (around.covered > CommitTs(0)).then_some((around.start, around.end))
    }
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

/// Makes one move on whichever layer it is. Moves in memory cannot fail.
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
    fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        match self {
            Upper::Own(cursor) => cursor.entry(),
            Upper::Memtable(layer) => layer.cursor.entry(),
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

    fn run<const FORWARD: bool>(
        &mut self,
        limit: Option<&[u8]>,
        most: u32,
        mut each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> u32 {
        match self {
            Upper::Memtable(layer) => {
                layer.cursor.run::<FORWARD>(limit, most, |key, value| each(&[], key, value))
            }
            Upper::Delta(layer) => layer.run::<FORWARD>(limit, most, each),
            Upper::Own(cursor) => cursor.run::<FORWARD>(limit, most, |key, value| each(&[], key, value)),
        }
    }

    fn lend_run(&mut self, limit: Option<&[u8]>, most: u32, certain: u32) -> Option<LeafRun> {
        match self {
            Upper::Delta(layer) => layer.lend_run(limit, most, certain),
            Upper::Own(_) | Upper::Memtable(_) => None,
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
            Upper::Memtable(layer) => layer.covering(key),
        }
    }
}
