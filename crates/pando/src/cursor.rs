//! Records in order.

use base::Result;

pub use store::{Cursor, CursorMut, Span};

/// An iterator over copies of records in key order, or, with `.rev()`, in the opposite order. Both ends can be
/// taken from; they stop where they meet.
#[derive(Debug)]
pub struct Range<'a> {
    front: Cursor<'a>,
    back: Cursor<'a>,
    /// The last key taken from each end.
    front_key: Option<Vec<u8>>,
    back_key: Option<Vec<u8>>,
    done: bool,
}

/// A key and its value.
type Record = (Vec<u8>, Vec<u8>);

impl<'a> Range<'a> {
    pub(crate) fn new(cursor: impl Fn(Span) -> Result<Cursor<'a>>, span: Span) -> Result<Self> {
        let (front, back) = (cursor(span.clone())?, cursor(span)?);
        Ok(Range { front, back, front_key: None, back_key: None, done: false })
    }
}

impl Iterator for Range<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let record = match self.front.next() {
            Ok(Some((key, value))) if self.back_key.as_deref().is_none_or(|back| key < back) => {
                Ok((key.to_vec(), value.to_vec()))
            }
            Ok(_) => {
                self.done = true;
                return None;
            }
            Err(error) => Err(error),
        };
        match &record {
            Ok((key, _)) if self.back_key.is_none() => self.front_key = Some(key.clone()),
            Ok((key, _)) => self.front_key = Some(key.clone()),
            Err(_) => self.done = true,
        }
        Some(record)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let record = match self.back.prev() {
            Ok(Some((key, value))) if self.front_key.as_deref().is_none_or(|front| key > front) => {
                Ok((key.to_vec(), value.to_vec()))
            }
            Ok(_) => {
                self.done = true;
                return None;
            }
            Err(error) => Err(error),
        };
        match &record {
            Ok((key, _)) => self.back_key = Some(key.clone()),
            Err(_) => self.done = true,
        }
        Some(record)
    }
}
