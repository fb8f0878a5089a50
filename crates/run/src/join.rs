//! Joining deltas that follow one another in key order: the leaves stay where they are, and new inner pages lead to all
//! of them. It takes a page in some hundreds to be read and another one to be written, where a merge takes all.

use crate::allocate::Allocate;
use crate::build::Builder;
use crate::delta::Delta;
use crate::descriptor::{Run, expect_level};
use crate::resident::Residence;
use base::slots::Reader;
use base::{CheckpointNo, PagePtr, Result};
use page::Kind;
use pool::Pool;
use std::sync::Arc;

/// A delta to be joined, and a key that is at or before its first record and after all records of the previous part.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The delta. It has no range tombstones.
    pub delta: &'a Delta,
    /// The key.
    pub low: &'a [u8],
}

/// Returns a delta with the records of all `parts`, and the inner pages of the parts, which it does not have. O(inner
/// pages). Neither is synced; nothing is retired.
///
/// Errors: those of reading pages, of allocating and of writing.
pub fn join<A: Allocate + Copy>(
    parts: &[Part<'_>],
    pool: &Pool,
    reader: &Reader,
    space: A,
    birth: CheckpointNo,
    buffer_bytes: usize,
) -> Result<(Delta, Vec<PagePtr>)> {
    let mut left = Vec::new();
    let mut records = Builder::new(pool, space, birth, buffer_bytes);
    let mut filter = Builder::new(pool, space, birth, buffer_bytes).of_filter();
    for Part { delta, low } in parts {
        debug_assert!(delta.ranges.is_empty(), "range tombstones cannot be joined");
        records.adopt(delta.records, low, reader, &mut left)?;
        filter.adopt(delta.filter, low, reader, &mut left)?;
    }
    let (records, filter) = (records.finish()?, filter.finish()?);
    let (ranges, ranges_run) = (Arc::default(), Run::EMPTY);
    Ok((Delta { records, ranges, ranges_run, filter, residence: Residence::default() }, left))
}

impl<A: Allocate> Builder<'_, A> {
    /// Adds the leaves of `run` after all others, and its inner pages to `left`. No record may be added besides.
    fn adopt(&mut self, run: Run, low: &[u8], reader: &Reader, left: &mut Vec<PagePtr>) -> Result<()> {
        let Some((root, level)) = run.top() else { return Ok(()) };
        if self.levels.is_empty() {
            self.push_level(Kind::Leaf);
        }
        self.adopt_subtree((root, level), low, reader, left)?;
        self.run.records += run.records;
        self.run.bytes += run.bytes;
        self.run.leaves += run.leaves;
        self.run.saved_units += run.saved_units;
        self.run.deletes |= run.deletes;
        Ok(())
    }

    fn adopt_subtree(
        &mut self,
        (ptr, level): (PagePtr, u8),
        low: &[u8],
        reader: &Reader,
        left: &mut Vec<PagePtr>,
    ) -> Result<()> {
        if level == 0 {
            return self.enter(1, low, ptr);
        }
        left.push(ptr);
        let pin = self.pool.pin(reader, ptr)?;
        let page = pin.page();
        expect_level(page, ptr, level)?;
        let mut key = Vec::new();
        for i in 0..page.count() {
            // Entry 0 has no key: its lower bound is the parent's.
            if i > 0 {
                page.copy_key(i, &mut key);
            }
            let low = if i == 0 { low } else { &key };
            self.adopt_subtree((page.child(i), level - 1), low, reader, left)?;
        }
        Ok(())
    }
}
