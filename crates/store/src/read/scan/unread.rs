//! Moves that read no value outside the pages, and return its beginning.

use super::Cursor;
use crate::read::beginning::Beginning;
use base::Result;
use std::ops::Bound;

/// A borrowed key with the beginning of its value.
type Begun<'c> = Option<(&'c [u8], Beginning<'c>)>;

impl Cursor<'_> {
    /// Moves to the next record. Returns its key and the beginning of its value, which is not read if it is outside the
    /// pages; [`Cursor::value`] reads it.
    ///
    /// # Errors
    /// Those of [`Cursor::next`], except for those of reading a value.
    #[inline]
    pub fn next_beginning(&mut self) -> Result<Begun<'_>> {
        self.advance()?;
        self.begun()
    }

    /// Moves to the previous record. Returns its key and the beginning of its value, as [`Cursor::next_beginning`]
    /// does.
    ///
    /// # Errors
    /// Those of [`Cursor::next_beginning`].
    #[inline]
    pub fn prev_beginning(&mut self) -> Result<Begun<'_>> {
        self.retreat()?;
        self.begun()
    }

    /// Moves to the first record at or after `key` within the span. Returns its key and the beginning of its value, as
    /// [`Cursor::next_beginning`] does.
    ///
    /// # Errors
    /// Those of [`Cursor::next_beginning`].
    pub fn seek_beginning(&mut self, key: &[u8]) -> Result<Begun<'_>> {
        self.move_to(key)?;
        self.begun()
    }

    #[inline]
    fn begun(&self) -> Result<Begun<'_>> {
        let Some((key, value)) = self.entry() else { return Ok(None) };
        Ok(Beginning::of(value, self.reading)?.map(|beginning| (key, beginning)))
    }

    /// Moves to the first record at or after `key` within the span.
    pub(super) fn move_to(&mut self, key: &[u8]) -> Result<()> {
        self.snapshot.check_held()?;
        let from = if key < self.span.start() { self.span.start() } else { key };
        let on = self.merged.seek(from, self.span.end());
        if let Some(recorder) = &mut self.recorder {
            // The keys between the old place and the new one were not read.
            recorder.begin(from, Bound::Excluded(from));
        }
        self.arrive_forward(on, false)
    }
}
