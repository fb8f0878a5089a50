//! A cursor that writes at its position.
//!
//! Records are fetched and copied a batch at a time, so that a write, which changes the layers under a scan, needs no
//! new descent: writing the current record leaves those ahead as they were.

use crate::read::handle::Table;
use crate::read::scan::Cursor;
use crate::write::transaction::Transaction;
use base::{Result, Span};
use std::collections::VecDeque;
use std::ops::Bound;

/// The length of the first batch; each following one is twice as long, because a long scan is likely to continue.
const FIRST_BATCH: usize = 4;
const MAX_BATCH: usize = 256;
/// The size in bytes at which a batch ends early.
const BATCH_BYTES: usize = 64 << 10;

type Record = (Vec<u8>, Vec<u8>);

/// A cursor over a [`Span`] that can put and delete while it scans. [`Transaction::cursor_mut`] returns it. As with
/// [`Cursor`], after a step past an end, a step back leads to the record at that end.
#[derive(Debug)]
#[must_use = "a cursor reads records only as it moves"]
pub struct CursorMut<'a> {
    tx: &'a mut Transaction,
    table: Table,
    span: Span,
    current: Option<Record>,
    /// The records that were fetched. The next batch begins after (forward) or before (backward) the last one fetched
    /// or passed.
    ahead: VecDeque<Record>,
    forward: bool,
    batch: usize,
    /// The key that was moved to last; it stays when the record is deleted. `None` before the first move and off the
    /// ends.
    at: Option<Vec<u8>>,
    /// Whether the cursor is off the end in the present direction.
    off: bool,
    ended: bool,
    /// Whether the transaction's open range belongs to this cursor.
    tracks: bool,
}

impl<'a> CursorMut<'a> {
    pub(crate) fn new(tx: &'a mut Transaction, table: Table, span: Span) -> Self {
        tx.end_range();
        CursorMut {
            tx,
            table,
            span,
            current: None,
            ahead: VecDeque::new(),
            forward: true,
            batch: FIRST_BATCH,
            at: None,
            off: false,
            ended: false,
            tracks: false,
        }
    }

    /// Returns the current record, or `None` before the first record, after the last, and after the record was deleted.
    pub fn current(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }

    /// Moves to the next record.
    #[allow(clippy::should_implement_trait)] // It lends, which `Iterator` cannot.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(true)
    }

    /// Moves to the previous record.
    pub fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(false)
    }

    /// Moves to the first record at or after `key`, within the span. After an error the cursor is where it was.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
        let (forward, off) = (self.forward, self.off);
        self.turn(true);
        self.batch = FIRST_BATCH;
        let from = key.max(self.span.start()).to_vec();
        if let Err(error) = self.fetch(Bound::Included(&from)) {
            // The next step starts from the old position, and extends the old range.
            self.turn(forward);
            self.off = off;
            return Err(error);
        }
        self.tx.begin_range(&self.table, &from, Bound::Excluded(&from));
        self.tracks = true;
        self.take()
    }

    /// Sets the value of the current record.
    ///
    /// # Errors
    /// [`base::ErrorKind::Invalid`] if there is no current record.
    pub fn put(&mut self, value: &[u8]) -> Result<()> {
        let Some((key, current)) = &mut self.current else { return Err(no_record()) };
        self.tx.put(&self.table, key, value)?;
        value.clone_into(current);
        Ok(())
    }

    /// Deletes the current record. The cursor stays between its neighbours.
    ///
    /// # Errors
    /// [`base::ErrorKind::Invalid`] if there is no current record.
    pub fn delete(&mut self) -> Result<()> {
        let Some((key, _)) = self.current.take() else { return Err(no_record()) };
        self.tx.delete(&self.table, &key)
    }

    /// Returns the transaction, for other operations. The cursor forgets the records that it has read ahead, because
    /// these operations may change them.
    pub fn transaction(&mut self) -> &mut Transaction {
        self.ahead.clear();
        self.ended = false;
        // Another cursor may use the open range there.
        self.tx.end_range();
        self.tracks = false;
        self.tx
    }

    fn step(&mut self, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        if forward != self.forward {
            self.turn(forward);
        } else if self.off {
            return Ok(None);
        }
        if self.ahead.is_empty() && !self.ended {
            let at = self.at.take();
            let from = match &at {
                Some(key) => Bound::Excluded(&key[..]),
                None => Bound::Unbounded,
            };
            let fetched = self.fetch(from);
            self.at = at;
            fetched?;
        }
        self.take()
    }

    fn turn(&mut self, forward: bool) {
        self.ahead.clear();
        self.ended = false;
        self.off = false;
        self.forward = forward;
    }

    /// Fills the batch from a key on, in the present direction.
    fn fetch(&mut self, from: Bound<&[u8]>) -> Result<()> {
        let within = match (self.forward, from) {
            (_, Bound::Unbounded) => self.span.clone(),
            (true, from) => self.span.starting(from),
            (false, Bound::Excluded(key) | Bound::Included(key)) => self.span.until(key),
        };
        let mut cursor: Cursor<'_> = self.tx.cursor_untracked(&self.table, within)?;
        let (mut bytes, mut count) = (0, 0);
        while count < self.batch && bytes < BATCH_BYTES {
            let record = if self.forward { cursor.next()? } else { cursor.prev()? };
            let Some((key, value)) = record else {
                self.ended = true;
                break;
            };
            bytes += key.len() + value.len();
            count += 1;
            self.ahead.push_back((key.to_vec(), value.to_vec()));
        }
        self.batch = (self.batch * 2).min(MAX_BATCH);
        Ok(())
    }

    /// Moves to the first fetched record, and records it as read.
    fn take(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.current = self.ahead.pop_front();
        let key = self.current.as_ref().map(|(key, _)| &key[..]);
        let (start, end) = (self.span.start(), self.span.end().map_or(Bound::Unbounded, Bound::Excluded));
        // An ended range continues from the cursor's position.
        let (start, end) = match (&self.at, self.tracks) {
            (Some(at), false) if self.forward => (&at[..], end),
            (Some(at), false) => (start, Bound::Included(&at[..])),
            _ => (start, end),
        };
        let (low, high) = match (self.forward, key) {
            (true, Some(key)) => (start, Bound::Included(key)),
            (true, None) => (start, end),
            (false, Some(key)) => (key, end),
            (false, None) => (start, end),
        };
        match (self.tracks, self.forward) {
            (false, _) => self.tx.begin_range(&self.table, low, high),
            (true, true) => self.tx.extend_range_high(high),
            (true, false) => self.tx.extend_range_low(low),
        }
        self.tracks = true;
        self.at = self.current.as_ref().map(|(key, _)| key.clone());
        self.off = self.at.is_none();
        Ok(self.current())
    }
}

#[cold]
fn no_record() -> base::Error {
    base::Error::invalid("the cursor is not on a record; move it to one first")
}
