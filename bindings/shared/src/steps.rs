//! Steps over the records of a table, in both directions.
//!
//! Records are read in chunks, each with a cursor of its own, so that nothing is borrowed between two calls: a
//! transaction can write while steps over it are open, and everything can be closed and freed in any order.
//!
//! 1. The first chunk is small, so that looking at a few records costs little; each further one is twice as long.
//! 2. A chunk is dropped when the direction changes or the transaction has written. The next one begins after the
//!    record that was shown last.
//! 3. After the last record a step returns `None`; a step back returns the last record again, and the same holds at
//!    the other end.

use crate::failure::Outcome;
use crate::source::{Reads, Source};
use pando::{Result, Span, Table};
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

    /// Reads up to `most` records. Returns whether the span may have more.
    fn fill(
        &mut self,
        reads: &dyn Reads,
        table: &Table,
        (span, direction): (Span, Direction),
        most: usize,
    ) -> Result<bool> {
        let mut cursor = reads.cursor(table, span)?;
        loop {
            if self.is_full(most) {
                return Ok(true);
            }
            let record = match direction {
                Direction::Forward => cursor.next()?,
                Direction::Backward => cursor.prev()?,
            };
            let Some((key, value)) = record else { return Ok(false) };
            self.push(key, b"", value);
            if direction == Direction::Forward && !self.is_full(most) {
                // Bounded in bytes by a page, as it only goes over records at hand.
                cursor.run_on(most - self.ends.len(), |key, rest, value| self.push(key, rest, value))?;
            }
        }
    }
}

/// Steps over the records of a span.
#[derive(Debug)]
pub struct Steps {
    source: Source,
    table: Table,
    span: Span,
    place: Place,
    chunk: Chunk,
    direction: Direction,
    has_more: bool,
    next_records: usize,
    /// What [`Source::changes`] was when the chunk was read.
    changes: u64,
    /// The key that was shown last, where its chunk is gone.
    last_key: Vec<u8>,
}

impl Steps {
    /// Over the records in `span`; the first step goes to either end.
    pub fn new(source: Source, table: Table, span: Span) -> Self {
        Steps {
            source,
            table,
            span,
            place: Place::Fresh,
            chunk: Chunk::default(),
            direction: Direction::Forward,
            has_more: true,
            next_records: FIRST_RECORDS,
            changes: 0,
            last_key: Vec::new(),
        }
    }

    /// Goes to the next record of the direction. What it returns is lent until the next call.
    pub fn step(&mut self, direction: Direction) -> Outcome<Option<(&[u8], &[u8])>> {
        if !self.has_next(direction) && !self.refill(direction)? {
            return Ok(None);
        }
        self.place = Place::On;
        self.chunk.shown += 1;
        Ok(self.chunk.record(self.chunk.shown - 1))
    }

    /// Goes to a place between records: a step forward goes to the first one at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.chunk.clear();
        self.next_records = FIRST_RECORDS;
        self.place = Place::Before(key.to_vec());
    }

    /// Goes over all records that are at hand, reading a chunk if none is: `each` gets keys and values. Returns whether
    /// there were any.
    pub fn run(&mut self, direction: Direction, mut each: impl FnMut(&[u8], &[u8])) -> Outcome<bool> {
        if !self.has_next(direction) && !self.refill(direction)? {
            return Ok(false);
        }
        self.place = Place::On;
        while let Some((key, value)) = self.chunk.record(self.chunk.shown) {
            each(key, value);
            self.chunk.shown += 1;
        }
        Ok(true)
    }

    /// Whether the chunk has a record that this direction has not shown, and that still counts.
    fn has_next(&self, direction: Direction) -> bool {
        self.chunk.shown < self.chunk.ends.len()
            && self.direction == direction
            && self.changes == self.source.changes()
    }

    /// Reads the next chunk. Returns whether it has a record; at the end, the place is that end.
    fn refill(&mut self, direction: Direction) -> Outcome<bool> {
        let changes = self.source.changes();
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
            let Steps { source, table, chunk, next_records, .. } = self;
            let filled = source.read(|reads| chunk.fill(reads, table, (span, direction), *next_records));
            if filled.is_err() {
                // A part of a chunk would hide that records are missing. The place remains.
                self.chunk.clear();
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
