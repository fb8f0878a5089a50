//! Steps over the records of a table, in both directions.
//!
//! A [`Walk`] knows the place and the records that were read ahead, and its caller reads for it. [`Steps`] is a walk
//! with a [`Source`].
//!
//! Records are read in chunks, each with a cursor of its own, so that nothing is borrowed between two calls: a
//! transaction can write while steps over it are open, and everything can be closed and freed in any order.
//!
//! 1. The first chunk is small, so that looking at a few records costs little; each further one is twice as long.
//! 2. A chunk is dropped when the direction changes or the transaction has written. The next one begins after the
//!    record that was shown last.
//! 3. Records that were read ahead end with their source: each step fails once the transaction, the snapshot or the
//!    database has ended. [`Steps`] checks that, and the caller of a [`Walk`] does.
//! 4. After the last record a step returns `None`; a step back returns the last record again, and the same holds at
//!    the other end.

use crate::failure::Outcome;
use crate::source::{Reads, Source};
use pando::{Span, Table};
use std::ops::Bound;

/// The records of the first chunk, and the most of any.
const FIRST_RECORDS: usize = 16;
const MOST_RECORDS: usize = 2048;
/// A chunk ends after so many bytes.
const CHUNK_BYTES: usize = 512 << 10;

/// Where a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To larger keys.
    Forward,
    /// To smaller keys.
    Backward,
}

/// Where the steps are.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// At neither end: forward goes to the first record, backward to the last.
    Fresh,
    /// Before the first record from this key on. A step back goes to the record before it.
    Before(Vec<u8>),
    /// On the record that was shown last; its key is that of the chunk, or the one kept here.
    On,
    BeforeFirst,
    AfterLast,
}

/// Records that were read, in the order of the direction, and how many were shown.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
    shown: usize,
}

impl Chunk {
    fn push(&mut self, key: &[u8], rest: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(rest);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn is_full(&self, most: usize) -> bool {
        self.ends.len() >= most || self.bytes.len() >= CHUNK_BYTES
    }

    fn record(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let &(key_end, end) = self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.shown = 0;
    }
}

/// A chunk that a walk needs.
#[derive(Debug)]
pub struct Fill<'a> {
    chunk: &'a mut Chunk,
    span: Span,
    direction: Direction,
    most: usize,
    keys_only: bool,
}

impl Fill<'_> {
    /// Reads the records. Returns whether the span may have more.
    pub fn run(self, reads: &dyn Reads, table: &Table) -> pando::Result<bool> {
        let Fill { chunk, span, direction, most, keys_only } = self;
        let mut cursor = reads.cursor(table, span)?;
        loop {
            if chunk.is_full(most) {
                return Ok(true);
            }
            if keys_only {
                let is_on = match direction {
                    Direction::Forward => cursor.advance()?,
                    Direction::Backward => cursor.retreat()?,
                };
                let Some(key) = cursor.key().filter(|_| is_on) else { return Ok(false) };
                chunk.push(key, b"", b"");
                continue;
            }
            let record = match direction {
                Direction::Forward => cursor.next()?,
                Direction::Backward => cursor.prev()?,
            };
            let Some((key, value)) = record else { return Ok(false) };
            chunk.push(key, b"", value);
            if direction == Direction::Forward && !chunk.is_full(most) {
                // It shows no more bytes than a page has.
                cursor.run_on(most - chunk.ends.len(), |key, rest, value| chunk.push(key, rest, value))?;
            }
        }
    }
}

/// A place among the records of a span, and the records around it that were read.
#[derive(Debug)]
pub struct Walk {
    span: Span,
    place: Place,
    chunk: Chunk,
    direction: Direction,
    has_more: bool,
    next_records: usize,
    /// What the caller's number of changes was when the chunk was read.
    changes: u64,
    /// The key that was shown last, where its chunk is gone.
    last_key: Vec<u8>,
    /// Whether values are left out.
    keys_only: bool,
}

impl Walk {
    /// Over the records in `span`; the first step goes to either end.
    pub fn new(span: Span) -> Self {
        Walk {
            span,
            place: Place::Fresh,
            chunk: Chunk::default(),
            direction: Direction::Forward,
            has_more: true,
            next_records: FIRST_RECORDS,
            changes: 0,
            last_key: Vec::new(),
            keys_only: false,
        }
    }

    /// Goes to the next record of the direction. Returns whether there is one. `read` runs the [`Fill`], if the walk
    /// needs further records. `changes` is a number that differs once the caller has written to what it reads.
    pub fn step<E>(
        &mut self,
        direction: Direction,
        changes: u64,
        read: impl FnOnce(Fill<'_>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let ready = self.ready(direction, changes, read)?;
        if ready {
            self.place = Place::On;
            self.chunk.shown += 1;
        }
        Ok(ready)
    }

    /// The record of the last step; `None` if it found none, and before the first step.
    pub fn current(&self) -> Option<(&[u8], &[u8])> {
        self.chunk.record(self.chunk.shown.checked_sub(1)?)
    }

    /// Goes to a place between records: a step forward goes to the first one at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.rewind();
        self.place = Place::Before(key.to_vec());
    }

    /// Goes to where the walk began: the next step goes to either end.
    pub fn rewind(&mut self) {
        self.chunk.clear();
        self.next_records = FIRST_RECORDS;
        self.place = Place::Fresh;
    }

    /// Sees to it that the chunk has a record that this direction has not shown, and that still counts. Returns
    /// whether there is one.
    fn ready<E>(
        &mut self,
        direction: Direction,
        changes: u64,
        read: impl FnOnce(Fill<'_>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let is_at_hand = self.chunk.shown < self.chunk.ends.len();
        if is_at_hand && self.direction == direction && self.changes == changes {
            return Ok(true);
        }
        self.refill(direction, changes, read)
    }

    /// Reads the next chunk. Returns whether it has a record; at the end, the place is that end.
    fn refill<E>(
        &mut self,
        direction: Direction,
        changes: u64,
        read: impl FnOnce(Fill<'_>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        if let Some(shown) = self.chunk.shown.checked_sub(1) {
            let (key, _) = self.chunk.record(shown).unwrap_or_default();
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        let turned = self.direction != direction;
        let ended = !self.has_more && !turned && changes == self.changes && self.place == Place::On;
        let span = if ended { None } else { self.rest(direction) };
        if turned {
            self.next_records = FIRST_RECORDS;
        }
        self.chunk.clear();
        self.direction = direction;
        if let Some(span) = span {
            let (chunk, most, keys_only) = (&mut self.chunk, self.next_records, self.keys_only);
            let filled = read(Fill { chunk, span, direction, most, keys_only });
            if filled.is_err() {
                // A part of a chunk would hide that records are missing. The place remains.
                self.chunk.clear();
                // What is known of the end is of the chunk before, perhaps in the other direction.
                self.has_more = true;
            }
            self.has_more = filled?;
            self.changes = changes;
            self.next_records = (self.next_records * 2).min(MOST_RECORDS);
        }
        if self.chunk.ends.is_empty() {
            self.place = match direction {
                Direction::Forward => Place::AfterLast,
                Direction::Backward => Place::BeforeFirst,
            };
            return Ok(false);
        }
        Ok(true)
    }

    /// What is left in this direction, from the place on.
    fn rest(&self, direction: Direction) -> Option<Span> {
        match (&self.place, direction) {
            (Place::Fresh, _)
            | (Place::BeforeFirst, Direction::Forward)
            | (Place::AfterLast, Direction::Backward) => Some(self.span.clone()),
            (Place::BeforeFirst, Direction::Backward) | (Place::AfterLast, Direction::Forward) => None,
            (Place::Before(key), Direction::Forward) => Some(self.span.starting(Bound::Included(key))),
            (Place::Before(key), Direction::Backward) => Some(self.span.until(key)),
            (Place::On, Direction::Forward) => Some(self.span.starting(Bound::Excluded(&self.last_key))),
            (Place::On, Direction::Backward) => Some(self.span.until(&self.last_key)),
        }
    }
}

/// Steps over the records of a span.
#[derive(Debug)]
pub struct Steps {
    source: Source,
    table: Table,
    walk: Walk,
}

impl Steps {
    /// Over the records in `span`; the first step goes to either end.
    pub fn new(source: Source, table: Table, span: Span) -> Self {
        Steps { source, table, walk: Walk::new(span) }
    }

    /// Over the keys in `span`. Their values are not read, and are shown as empty.
    pub fn over_keys(source: Source, table: Table, span: Span) -> Self {
        Steps { source, table, walk: Walk { keys_only: true, ..Walk::new(span) } }
    }

    /// Goes to the next record of the direction. What it returns is lent until the next call.
    pub fn step(&mut self, direction: Direction) -> Outcome<Option<(&[u8], &[u8])>> {
        let Steps { source, table, walk } = self;
        source.check()?;
        let read = |fill: Fill<'_>| source.read(|reads| fill.run(reads, table));
        let found = walk.step(direction, source.changes(), read)?;
        Ok(if found { walk.current() } else { None })
    }

    /// Goes to a place between records: a step forward goes to the first one at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Outcome<()> {
        self.source.handle().check_process()?;
        self.walk.seek(key);
        Ok(())
    }

    /// Goes over all records that are at hand, reading a chunk if none is: `each` gets keys and values. Returns whether
    /// there were any.
    pub fn run(&mut self, direction: Direction, mut each: impl FnMut(&[u8], &[u8])) -> Outcome<bool> {
        let Steps { source, table, walk } = self;
        source.check()?;
        let read = |fill: Fill<'_>| source.read(|reads| fill.run(reads, table));
        if !walk.ready(direction, source.changes(), read)? {
            return Ok(false);
        }
        walk.place = Place::On;
        while let Some((key, value)) = walk.chunk.record(walk.chunk.shown) {
            each(key, value);
            walk.chunk.shown += 1;
        }
        Ok(true)
    }
}
