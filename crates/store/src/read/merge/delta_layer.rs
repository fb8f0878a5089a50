//! A delta as a layer: a run's cursor, including deletes, and its range tombstones.

use super::{Layer, RunLayer, Span};
use base::slots::Reader;
use base::{Result, Value};
use pool::Pool;
use run::{Delta, LeafRun, Ranges};
use std::fmt;
use std::sync::Arc;

/// A delta between the memtables and the table's run: one that a transaction spilled, or that a commit attached.
pub struct DeltaLayer<'a> {
    records: RunLayer<'a>,
    ranges: Arc<Ranges>,
}

impl fmt::Debug for DeltaLayer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaLayer").finish_non_exhaustive()
    }
}

impl<'a> DeltaLayer<'a> {
    /// Creates a layer of `delta`, whose pages `pool` holds and the owner of `reader` keeps. It reads nothing yet.
    pub fn new(delta: &Delta, pool: &'a Pool, reader: &'a Reader) -> Self {
        DeltaLayer { records: RunLayer::new(delta.records, pool, reader), ranges: Arc::clone(&delta.ranges) }
    }
}

impl Layer for DeltaLayer<'_> {
    fn seek_first(&mut self) -> Result<bool> {
        self.records.seek_first()
    }
    fn seek_last(&mut self) -> Result<bool> {
        self.records.seek_last()
    }
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.records.seek(key)
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<bool> {
        self.records.seek_before(key)
    }
    #[inline]
    fn next(&mut self) -> Result<bool> {
        self.records.next()
    }
    #[inline]
    fn prev(&mut self) -> Result<bool> {
        self.records.prev()
    }
    #[inline]
    fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        self.records.entry()
    }
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.records.key()
    }
    #[inline]
    fn run<const FORWARD: bool>(
        &mut self,
        limit: Option<&[u8]>,
        most: u32,
        each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> u32 {
        self.records.run::<FORWARD>(limit, most, each)
    }
    #[inline]
    fn lend_run(&mut self, limit: Option<&[u8]>, most: u32, certain: u32) -> Option<LeafRun> {
        self.records.lend_run(limit, most, certain)
    }

    fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    fn covering(&self, key: &[u8]) -> Option<Span<'_>> {
        self.ranges.covering(key)
    }
}
