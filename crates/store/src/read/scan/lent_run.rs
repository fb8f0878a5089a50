//! Records that a cursor lends in place: many readers copy each record that a cursor shows, which costs as much as
//! finding a short record.

use super::{Cursor, Place, start_of};
use base::Result;
use base::budget::KeptPage;
use page::InlineRecord;
use run::LeafRun;

/// Records of one page, in place, which [`Cursor::lend_run`] returns.
///
/// They stay where they are for as long as this lives, even if the snapshot ends meanwhile, and their page stays in
/// memory. Drop it as soon as you need them no longer: while too many pages are lent, cursors lend none.
#[derive(Debug)]
pub struct LentRun {
    run: LeafRun,
    _kept: KeptPage,
}

impl LentRun {
    /// Returns the bytes that the records lie in.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.run.bytes()
    }

    /// Returns how many records were not shown yet.
    #[inline]
    #[must_use]
    pub fn left(&self) -> usize {
        self.run.left()
    }

    /// Returns the beginning of all keys, and the next records, `most` at most: the rest of each key, the value, and
    /// how many bytes of [`LentRun::bytes`] come after the value.
    #[inline]
    pub fn show(&mut self, most: usize) -> (&[u8], impl Iterator<Item = InlineRecord<'_>>) {
        self.run.show(most)
    }

    /// Adds the records of the page that follow these and that the cursor would show next. Returns how many were not
    /// shown yet. The cursor stays where it is. It adds none where reads are recorded: in a transaction that is
    /// serializable, only what the cursor has moved over counts as read.
    #[inline]
    pub fn extend(&mut self) -> usize {
        self.run.extend()
    }

    /// Goes to the first record at or after `key`, and does what [`LentRun::extend`] does. Returns whether it could:
    /// the record must be one of these records or the one that the cursor was on before, or, if reads are not recorded
    /// and no newer records overlap the page, any record of the page. Otherwise nothing moves. O(log records).
    #[inline]
    pub fn seek(&mut self, key: &[u8]) -> bool {
        self.run.seek(key)
    }

    /// Returns the length of the longest key among the next records, `most` at most, in bytes.
    #[inline]
    #[must_use]
    pub fn longest_key(&self, most: usize) -> usize {
        self.run.longest_key(most)
    }
}

impl Cursor<'_> {
    /// Moves over at most `most` of the records after the current one that [`Cursor::run_on`] would show, and lends
    /// them in place. In a transaction all of them count as read. Returns `None`, without moving the cursor, if there
    /// are no such records, if a value is stored outside of the page, or if too many pages are lent.
    ///
    /// # Errors
    /// `SnapshotTooOld`; the cursor stays then.
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
