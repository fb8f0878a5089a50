//! Several deltas read as one: each key once, with its newest entry. Older entries are dropped on the way.
//!
//! 1. Every source is on its first record that has not been passed.
//! 2. The next record is that of the least key; if several have that key, the newest source's. The others are dropped.
//! 3. It is dropped, too, if a range tombstone of a newer source covers it. Range tombstones of its own or an older
//!    source do not hide it: they take effect before the records of their source.
//!
//! Sources are few, so the least key is found by comparing all of them: by the key's first eight bytes, kept side by
//! side, and by the whole key if these are equal. Memory: the cursors' pins.

use crate::cursor::Cursor;
use crate::delta::Delta;
use base::Result;
use base::keys::head8;
use base::slots::Reader;
use page::Value;
use pool::Pool;

/// A merge of several deltas; see the module.
pub struct Merge<'a> {
    /// The sources, newest first.
    sources: Vec<Source<'a>>,
    pool: &'a Pool,
    reader: &'a Reader,
    current: Option<usize>,
    key: Vec<u8>,
}

struct Source<'a> {
    delta: &'a Delta,
    cursor: Cursor,
    /// The first eight bytes of the cursor's key; the greatest value if the cursor is off.
    head: u64,
}

impl<'a> Merge<'a> {
    /// Creates a merge of `deltas`, newest first, on no record yet.
    pub fn open(
        deltas: impl IntoIterator<Item = &'a Delta>,
        pool: &'a Pool,
        reader: &'a Reader,
    ) -> Result<Merge<'a>> {
        let new = |delta: &'a Delta| Source { delta, cursor: Cursor::new(delta.records), head: u64::MAX };
        let mut sources: Vec<_> = deltas.into_iter().map(new).collect();
        for source in &mut sources {
            source.cursor.seek_first(pool, reader)?;
            source.note();
        }
        Ok(Merge { sources, pool, reader, current: None, key: Vec::new() })
    }

    /// Moves to the next record. Returns false at the end. Calls `dropped` with values that newer sources replace or
    /// hide.
    pub fn next(&mut self, dropped: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<bool> {
        if let Some(current) = self.current.take() {
            self.sources[current].go_on(self.pool, self.reader)?;
        }
        loop {
            let Some(newest) = self.least() else { return Ok(false) };
            self.key.clear();
            self.key.extend_from_slice(self.sources[newest].cursor.key().expect("it was found by its key"));
            let head = self.sources[newest].head;
            let newer = &self.sources[..newest];
            let hidden = newer.iter().any(|newer| newer.delta.ranges.covering(&self.key).is_some());
            let first_dropped = if hidden { newest } else { newest + 1 };
            for source in self.sources[first_dropped..].iter_mut().filter(|source| source.head == head) {
                if let Some((key, value)) = source.cursor.entry()
                    && key == self.key
                {
                    dropped(value)?;
                    source.go_on(self.pool, self.reader)?;
                }
            }
            if !hidden {
                self.current = Some(newest);
                return Ok(true);
            }
        }
    }

    /// Returns the current record.
    pub fn entry(&self) -> Option<(&[u8], Value<'_>)> {
        self.sources[self.current?].cursor.entry()
    }

    /// Returns the newest source on the least key.
    fn least(&self) -> Option<usize> {
        let head = self.sources.iter().map(|source| source.head).min()?;
        let keys = self.sources.iter().enumerate().filter(|(_, source)| source.head == head);
        let keys = keys.filter_map(|(at, source)| Some((source.cursor.key()?, at)));
        keys.min().map(|(_, at)| at)
    }
}

impl Source<'_> {
    #[inline]
    fn go_on(&mut self, pool: &Pool, reader: &Reader) -> Result<()> {
        let moved = self.cursor.next(pool, reader);
        self.note();
        moved.map(drop)
    }

    #[inline]
    fn note(&mut self) {
        self.head = self.cursor.key().map_or(u64::MAX, head8);
    }
}
