//! Records that a cursor lends in place: many readers copy each record that a cursor shows, which costs as much as
//! finding a short record.

use super::{Cursor, Place, start_of};
use base::Result;
use base::budget::KeptPage;
use page::InlineRecord;
use run::LeafRun;

/// Records of one page that a cursor lends in place. [`Cursor::lend_run`] returns it.
///
/// The records stay where they are and their page stays in memory until this is dropped, even if the snapshot ends
/// before. Drop it as soon as you no longer need it: while too many pages are lent, cursors lend none.
#[derive(Debug)]
pub struct LentRun {
    run: LeafRun,
    _kept: KeptPage,
}

impl LentRun {
    /// Returns the bytes in which the records lie.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.run.bytes()
    }

    /// Returns the number of records that [`LentRun::show`] has not returned yet.
    #[inline]
    #[must_use]
    pub fn left(&self) -> usize {
        self.run.left()
    }

    /// Returns the bytes with which all keys begin, and the next records, at most `most`. A record consists of the rest
    /// of its key, its value, and the number of bytes of [`LentRun::bytes`] after the value.
    #[inline]
    pub fn show(&mut self, most: usize) -> (&[u8], impl Iterator<Item = InlineRecord<'_>>) {
        self.run.show(most)
    }

    /// Adds the records of the page that follow these, and that the cursor would return next. Returns the number of
    /// records that were not returned yet. The cursor does not move. In a serializable transaction it adds none,
    /// because only records that the cursor has moved over count as read.
    #[inline]
    pub fn extend(&mut self) -> usize {
        self.run.extend()
    }

    /// Goes to the first record at or after `key`, and adds records as [`LentRun::extend`] does. Returns whether it
    /// could go there. The record must be one of these records or the one that the cursor was on before, or, outside of
    /// serializable transactions and if no newer records overlap the page, any record of the page. If not, nothing
    /// moves. O(log records).
    #[inline]
    pub fn seek(&mut self, key: &[u8]) -> bool {
        self.run.seek(key)
    }

    /// Returns the length of the longest key, in bytes, among the next records, at most `most` of them.
    #[inline]
    #[must_use]
    pub fn longest_key(&self, most: usize) -> usize {
        self.run.longest_key(most)
    }
}

impl Cursor<'_> {
    /// Lends the records after the current one in place, at most `most`, and moves to the last of them. They are those
    /// on which [`Cursor::run_on`] would call its function. In a transaction all of them count as read. Returns `None`,
    /// without a move, if there are no such records, if a value is stored outside of the page, or if too many pages are
    /// lent.
    ///
    /// # Errors
    /// `SnapshotTooOld`; the cursor did not move then.
    #[inline]
    pub fn lend_run(&mut self, most: usize) -> Result<Option<LentRun>> {
        if self.place != Place::On || self.reading.is_dated() {
            return Ok(None);
        }
        self.snapshot.check_held()?;
        let Some(kept) = self.snapshot.store().pool.keep_page() else { return Ok(None) };
        let (most, ahead) = (u32::try_from(most).unwrap_or(u32::MAX), self.recorder.is_none());
        let Some(run) = self.merged.lend_run(most, ahead, self.span.end()) else { return Ok(None) };
        // What the cursor has passed is known as well, if there is nothing but this page's run.
        let is_whole = ahead && self.merged.is_lower_alone() && start_of(&self.span).is_none();
        let run = if is_whole { run.with_all_before() } else { run };
        self.steps.taken += run.left() as u64;
        self.large = None;
        self.track_forward(false);
        Ok(Some(LentRun { run, _kept: kept }))
    }
}
