//! The run as a layer: its cursor, with the pool and the reader that the cursor's moves need.

use super::Layer;
use base::Result;
use base::slots::Reader;
use page::Value;
use pool::Pool;
use run::{Cursor, LeafRun, Run};

/// The lowest layer of a table. It has no deletes: a deleted key is not in a run.
pub struct RunLayer<'a> {
    cursor: Cursor,
    pool: &'a Pool,
    reader: &'a Reader,
}

impl<'a> RunLayer<'a> {
    /// Creates a layer of `run`, whose pages `pool` holds and the view announced by `reader` keeps. It reads nothing
    /// yet.
    pub fn new(run: Run, pool: &'a Pool, reader: &'a Reader) -> Self {
        RunLayer { cursor: Cursor::new(run), pool, reader }
    }
}

impl Layer for RunLayer<'_> {
    fn seek_first(&mut self) -> Result<bool> {
        self.cursor.seek_first(self.pool, self.reader)
    }
    fn seek_last(&mut self) -> Result<bool> {
        self.cursor.seek_last(self.pool, self.reader)
    }
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.cursor.seek(self.pool, self.reader, key)
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<bool> {
        self.cursor.seek_before(self.pool, self.reader, key)
    }
    #[inline]
    fn next(&mut self) -> Result<bool> {
        self.cursor.next(self.pool, self.reader)
    }
    #[inline]
    fn prev(&mut self) -> Result<bool> {
        self.cursor.prev(self.pool, self.reader)
    }
    #[inline(always)] // As `Merged::entry`.
    fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        self.cursor.entry()
    }
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.cursor.key()
    }
    #[inline]
    fn steps_before(&self, key: &[u8], forward: bool, most: u32) -> u32 {
        self.cursor.steps_before(key, forward, most)
    }
    #[inline]
    fn step_in_leaf(&mut self, forward: bool) -> bool {
        self.cursor.step_in_leaf(forward)
    }
    #[inline]
    fn stepped(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.stepped()
    }
    #[inline]
    fn run<const FORWARD: bool>(
        &mut self,
        limit: Option<&[u8]>,
        most: u32,
        each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> u32 {
        let most = limit.map_or(most, |limit| self.cursor.steps_before(limit, FORWARD, most));
        // A leaf has fewer than 2^16 records.
        self.cursor.run::<FORWARD>(most as usize, each) as u32
    }
    #[inline]
    fn lend_run(&mut self, limit: Option<&[u8]>, most: u32, certain: u32) -> Option<LeafRun> {
        let certain = limit.map_or(certain, |limit| self.cursor.steps_before(limit, true, certain));
        self.cursor.lend_run(most.min(certain) as usize, certain as usize)
    }
}
