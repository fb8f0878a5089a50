//! Records in order.

use base::Result;
use std::iter::FusedIterator;

pub use store::{Cursor, CursorMut, Span};

/// An iterator over copies of records in key order, or in descending order with `.rev()`. You can take from both
/// ends; they stop where they meet. An error ends the iterator.
#[derive(Debug)]
#[must_use = "records are read only as the range is iterated"]
pub struct Range<'a> {
    front: Cursor<'a>,
    back: Cursor<'a>,
    done: bool,
}

/// A key and its value.
type Record = (Vec<u8>, Vec<u8>);

impl<'a> Range<'a> {
    pub(crate) fn new(cursor: impl Fn(Span) -> Result<Cursor<'a>>, span: Span) -> Result<Self> {
        let (front, back) = (cursor(span.clone())?, cursor(span)?);
        Ok(Range { front, back, done: false })
    }

    /// Returns the record that one end has moved to. An end that found nothing, or met the other, ends both.
    fn take(&mut self, moved: Result<Option<Record>>) -> Option<Result<Record>> {
        self.done = !matches!(moved, Ok(Some(_)));
        moved.transpose()
    }
}

impl Iterator for Range<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let end = self.back.current().map(|(key, _)| key);
        let moved = self.front.next().map(|record| {
            let record = record.filter(|(key, _)| end.is_none_or(|end| *key < end));
            record.map(|(key, value)| (key.to_vec(), value.to_vec()))
        });
        self.take(moved)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let start = self.front.current().map(|(key, _)| key);
        let moved = self.back.prev().map(|record| {
            let record = record.filter(|(key, _)| start.is_none_or(|start| *key > start));
            record.map(|(key, value)| (key.to_vec(), value.to_vec()))
        });
        self.take(moved)
    }
}

impl FusedIterator for Range<'_> {}
