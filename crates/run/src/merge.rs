//! Several deltas read as one: each key once, with what the newest says; what older ones say is dropped on the way.
//!
//! 1. Every source stands on its first record that has not been passed.
//! 2. The next record is that of the least key; of several on that key, the newest source's. The others are dropped.
//! 3. It is dropped too if a range tombstone of a newer source covers it. One of its own, or of an older source, does
//!    not touch it: range tombstones take effect before the records of their source.
//!
//! Sources are few, so that the least is found by looking at each. Memory: the cursors' pins.

use crate::cursor::Cursor;
use crate::delta::Delta;
use base::Result;
use base::slots::Reader;
use page::Value;
use pool::Pool;

/// See the module.
pub struct Merge<'a> {
    /// Newest first.
    sources: Vec<(&'a Delta, Cursor)>,
    pool: &'a Pool,
    reader: &'a Reader,
    current: Option<usize>,
    key: Vec<u8>,
}

impl<'a> Merge<'a> {
    /// A merge of `deltas`, newest first, on no record yet.
    pub fn open(
        deltas: impl IntoIterator<Item = &'a Delta>,
        pool: &'a Pool,
        reader: &'a Reader,
    ) -> Result<Merge<'a>> {
        let mut sources: Vec<_> =
            deltas.into_iter().map(|delta| (delta, Cursor::new(delta.records))).collect();
        for (_, cursor) in &mut sources {
            cursor.seek_first(pool, reader)?;
        }
        Ok(Merge { sources, pool, reader, current: None, key: Vec::new() })
    }

    /// To the next record; false at the end. `dropped` is given what newer sources replace or hide.
    pub fn next(&mut self, dropped: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<bool> {
        if let Some(current) = self.current.take() {
            self.sources[current].1.next(self.pool, self.reader)?;
        }
        loop {
            let Some(newest) = self.least() else { return Ok(false) };
            self.key.clear();
            self.key.extend_from_slice(self.sources[newest].1.entry().expect("it was found by its key").0);
            let hidden =
                self.sources[..newest].iter().any(|(delta, _)| delta.ranges.covering(&self.key).is_some());
            let first_dropped = if hidden { newest } else { newest + 1 };
            for (_, cursor) in &mut self.sources[first_dropped..] {
                if let Some((key, value)) = cursor.entry()
                    && key == self.key
                {
                    dropped(value)?;
                    cursor.next(self.pool, self.reader)?;
                }
            }
            if !hidden {
                self.current = Some(newest);
                return Ok(true);
            }
        }
    }

    /// The record that it stands on.
    pub fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        self.sources[self.current?].1.entry()
    }

    /// The newest source on the least key.
    fn least(&self) -> Option<usize> {
        let keys = self.sources.iter().enumerate();
        let keys = keys.filter_map(|(at, (_, cursor))| Some((cursor.entry()?.0, at)));
        keys.min().map(|(_, at)| at)
    }
}
