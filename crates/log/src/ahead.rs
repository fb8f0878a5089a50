//! Making segments ready, before they are needed or when they are.
//!
//! A segment whose file is overwritten with zeros writes as many bytes to the disk as the log that it will hold, and
//! commits wait while the disk writes them. So a thread that makes a segment early pauses between its pieces, as long
//! as it stays ahead of the threads that append. The locks `stock` and `appender` are free meanwhile, so checkpoints
//! and appends continue.

use crate::append::{Appender, check_length};
use crate::handle::{Log, spare_of};
use crate::stock::{Room, Zeros, segment_bytes_for};
use base::Result;
use base::sync::atomic::Ordering;
use base::sync::{MutexGuard, lock};
use std::time::Duration;

/// The number of segments that are kept ready if much is written and segments are short, up to [`SHORT_BYTES`].
const READY_SEGMENTS: usize = 2;
const SHORT_BYTES: u64 = 16 << 20;

/// If the current segment has at least this many bytes, the next one is made ready at once. A new file of twice the
/// length must be written and flushed before it is used, and half of the current one might be filled sooner.
pub(crate) const EARLY_BYTES: u64 = 1 << 20;

/// The length of a new segment, as a multiple of the one before it.
const GROWTH: u64 = 2;
/// The factor that replaces [`GROWTH`] while segments are filled sooner than the next one is ready, for lengths up to
/// [`EARLY_BYTES`]. Making such a segment takes three syncs, about as long as filling a few hundred KiB. The first
/// 100,000 rows of a new database take seven segments that grow by [`GROWTH`], and three that begin to grow by this
/// factor.
const GROWTH_IN_NEED: u64 = 16;

/// The segment that is made ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// One more after those that are ready.
    Ahead,
    /// A segment for a record that is expected.
    Expected,
    /// A segment that an append waits for.
    Needed,
    /// The shortest segment that an append can use, for a full disk.
    Least,
}

/// The pause between two pieces of zeros, as a multiple of the time that the last piece took.
const PAUSE_FACTOR: u32 = 3;
/// The longest pause between two pieces of zeros.
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

impl Log {
    /// Makes sure that the next append of up to `payload_bytes` needs no more disk space.
    ///
    /// # Errors
    /// [`Full`](base::ErrorKind::Full) and the other errors of making a file. The log is unchanged, and the call may be
    /// repeated.
    #[inline]
    pub fn reserve(&self, payload_bytes: u64) -> Result<()> {
        if self.has_room(payload_bytes)? {
            return Ok(());
        }
        self.prepare(payload_bytes as usize).map(drop)
    }

    /// Makes sure that the next append of up to `payload_bytes` needs no more disk space, with the shortest segment
    /// that suffices. Use it to free space on a full disk.
    ///
    /// # Errors
    /// As [`Log::reserve`].
    pub fn reserve_least(&self, payload_bytes: u64) -> Result<()> {
        if self.has_room(payload_bytes)? {
            return Ok(());
        }
        self.make(&self.hurry(), payload_bytes as usize, Which::Least, &|_| false).map(drop)
    }

    /// Returns the length in bytes of the segment that [`Log::reserve_least`] makes for a block of `payload_bytes`.
    pub fn least_segment_bytes(&self, payload_bytes: u64) -> u64 {
        segment_bytes_for(payload_bytes as usize, self.options.first_segment_bytes)
    }

    /// Returns whether [`Log::reserve`] has nothing to do for a block of `payload_bytes`. It takes no lock unless the
    /// current segment is nearly full: a commit that waits for its turn does not disturb the one that appends.
    ///
    /// # Errors
    /// [`Invalid`](base::ErrorKind::Invalid) if `payload_bytes` is longer than a block can be.
    #[inline]
    pub fn has_room(&self, payload_bytes: u64) -> Result<bool> {
        check_length(payload_bytes)?;
        // Relaxed, partner `append_by`: an estimate. Another append may take the room in any case.
        if payload_bytes > 0 && payload_bytes <= self.room_bytes.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let appender = lock(&self.appender);
        Ok(appender.has_room(payload_bytes as usize) || appender.next_has_room(payload_bytes as usize))
    }

    /// Makes the next segment ready if it is due, without pauses. Returns whether it made one. For when it is due see
    /// [`prepare_in_time`](Log::prepare_in_time).
    ///
    /// # Errors
    /// As [`Log::reserve`].
    pub fn prepare_next(&self) -> Result<bool> {
        self.prepare_in_time(&|_| false)
    }

    /// Makes the next segment ready if the current one is long, more than half full, or was itself late, so that no
    /// append has to do it. Returns whether it made one. It also unmaps the previous segment, and asks the disk to
    /// start writing after each appended MiB. Call it from a background thread: appends continue meanwhile.
    ///
    /// If segments have reached their greatest length, much is written. If that length is short, two are always kept
    /// ready, because a flush may take longer than filling one. If flushes have become frequent and the current segment
    /// was made for few flushes, the log continues in a short segment that makes flushes cheap.
    ///
    /// `pause` is called with the duration for which the disk should be left to others, as long as there is time for
    /// that. It returns whether it paused. If it did not, the rest is written in fewer and longer pieces until it does.
    ///
    /// # Errors
    /// As [`Log::reserve`].
    pub fn prepare_in_time(&self, pause: &dyn Fn(Duration) -> bool) -> Result<bool> {
        let flushes = self.flush.flushes.load(Ordering::SeqCst);
        let (is_due, is_flushed_dearly, ended) = {
            let mut appender = lock(&self.appender);
            let is_flushed_dearly = appender.is_flushed_dearly(flushes) && appender.stop.is_none();
            let header = &appender.segment.header;
            let is_time = is_next_due(&appender);
            let is_longest = header.len_bytes >= self.longest_segment_bytes();
            let is_short = header.len_bytes <= SHORT_BYTES;
            let wanted = if is_longest && is_short { READY_SEGMENTS } else { usize::from(is_time) };
            let is_due = appender.next.len() < wanted && appender.stop.is_none();
            (is_due, is_flushed_dearly, appender.ended.take())
        };
        drop(ended);
        self.write_behind();
        if is_flushed_dearly {
            return self.go_on_written(&lock(&self.making));
        }
        if is_due { self.make(&lock(&self.making), 0, Which::Ahead, pause) } else { Ok(false) }
    }

    /// Limits segments from the next one on to `bytes`, for which the caller has memory: a segment is mapped. No other
    /// limit is set at first.
    pub fn grant_segments(&self, bytes: u64) {
        self.granted_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Returns the length that the next segment should have if a longer grant is needed for that, and if the segment is
    /// due: soon, or now (`is_needed`), or for a record of `payload_bytes`.
    pub fn wanted_grant(&self, payload_bytes: u64, is_needed: bool) -> Option<u64> {
        let (granted, most) = (self.granted_bytes.load(Ordering::SeqCst), self.most_segment_bytes());
        if granted >= most {
            return None;
        }
        let appender = lock(&self.appender);
        if !(is_needed || payload_bytes > 0 || is_next_due(&appender)) {
            return None;
        }
        let last = appender.next.back().unwrap_or(&appender.segment).header.len_bytes;
        let usual = grown(last, is_needed || appender.is_in_need);
        let wanted = segment_bytes_for(payload_bytes as usize, usual).min(most);
        (wanted > granted).then_some(wanted)
    }

    /// Makes the next segment ready, unless the current one or the next one has room for `payload_bytes` (at most the
    /// longest payload). Returns whether it made one. Call it from a background thread when a record of about this
    /// length is expected: its append then makes no file, which takes three syncs.
    ///
    /// # Errors
    /// As [`Log::reserve`].
    pub fn expect(&self, payload_bytes: u64) -> Result<bool> {
        check_length(payload_bytes)?;
        if lock(&self.appender).stop.is_some() {
            return Ok(false);
        }
        self.make(&self.hurry(), payload_bytes as usize, Which::Expected, &|_| false)
    }

    /// Makes a segment ready that has room for `payload_bytes`, and replaces those that are ready, unless the current
    /// one or one of those has the room.
    pub(crate) fn prepare(&self, payload_bytes: usize) -> Result<bool> {
        self.make(&self.hurry(), payload_bytes, Which::Needed, &|_| false)
    }

    /// Returns the right to make segments. Its holder makes no pauses while other threads wait here.
    pub(crate) fn hurry(&self) -> MutexGuard<'_, ()> {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        let making = lock(&self.making);
        self.wanted.fetch_sub(1, Ordering::SeqCst);
        making
    }

    /// Makes the segment that `which` describes, with room for `payload_bytes`, unless what is ready suffices. Returns
    /// whether it did. For `pause` see [`prepare_in_time`](Log::prepare_in_time).
    fn make(
        &self,
        making: &MutexGuard<'_, ()>,
        payload_bytes: usize,
        which: Which,
        pause: &dyn Fn(Duration) -> bool,
    ) -> Result<bool> {
        let (draft, want_bytes, is_allocated) = {
            let appender = lock(&self.appender);
            let has_room = appender.next_has_room(payload_bytes) || appender.has_room(payload_bytes);
            let ahead = which == Which::Ahead;
            let is_ready = if ahead { appender.next.len() >= READY_SEGMENTS } else { has_room };
            if is_ready {
                return Ok(false);
            }
            let last = appender.next.back().filter(|_| ahead).unwrap_or(&appender.segment).header;
            let is_late = which == Which::Needed || (ahead && appender.is_in_need);
            let longest = self.longest_segment_bytes();
            let (usual, most) =
                (grown(last.len_bytes, false).min(longest), grown(last.len_bytes, is_late).min(longest));
            // A spare of half the usual length, made when there was less data, is better than a new file.
            let of_at_least = |bytes| segment_bytes_for(payload_bytes, bytes);
            let want_bytes = match which {
                Which::Least => {
                    let least = self.least_segment_bytes(payload_bytes as u64);
                    least..=least
                }
                Which::Ahead | Which::Expected | Which::Needed => of_at_least(usual / 2)..=of_at_least(most),
            };
            (self.draft_after(&last), want_bytes, appender.segment.room == Room::Allocated)
        };
        let begun = {
            let flushes = self.flush.flushes.load(Ordering::SeqCst);
            let mut stock = lock(&self.stock);
            let room = stock.room_for(*want_bytes.end(), flushes, self.options.flush_worth_bytes);
            if which == Which::Ahead && room == Room::Written && is_allocated {
                // Flushes are frequent, and dear until the log leaves its segment. Zeros for one as long would take
                // up to seconds, and each flush would wait for some of them.
                drop(stock);
                return self.go_on_written(making);
            }
            stock.begin(draft, want_bytes, self.longest_spare_bytes(), room)?
        };
        let ready = begun.finish(&|zeros| {
            let time = (zeros.flush * PAUSE_FACTOR).min(LONGEST_PAUSE);
            self.has_time(draft.previous, zeros) && pause(time)
        })?;
        let mut stock = lock(&self.stock);
        let mut appender = lock(&self.appender);
        appender.is_in_need = which == Which::Needed;
        if appender.segment.header.number == draft.previous {
            appender.next.drain(..).for_each(|unused| stock.put(spare_of(&unused)));
            appender.next.push_back(ready);
        } else if appender.next.back().is_some_and(|last| last.header.number == draft.previous) {
            appender.next.push_back(ready);
        } else {
            // A smaller segment was ready, and another thread continued in it meanwhile.
            stock.put(spare_of(&ready));
        }
        Ok(true)
    }

    /// Returns whether no thread needs the segment after number `previous` yet, and none will need it before it is
    /// ready. Its zeros have come as far as `zeros` says.
    fn has_time(&self, previous: u64, zeros: Zeros) -> bool {
        if self.wanted.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let appender = lock(&self.appender);
        let header = &appender.segment.header;
        match header.number.cmp(&previous) {
            // Another segment is ready before it.
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => is_ahead(zeros, header.offset_of(appender.end), header.len_bytes),
            std::cmp::Ordering::Greater => false,
        }
    }
}

/// Returns whether it is time to make the next segment: the current one is long, more than half full, or was late.
fn is_next_due(appender: &Appender) -> bool {
    let header = &appender.segment.header;
    header.len_bytes >= EARLY_BYTES
        || appender.is_in_need
        || header.offset_of(appender.end) * 2 > header.len_bytes
}

/// Returns the length of the segment after one of `len_bytes`, without the limits. `is_late` says that it is needed
/// sooner than it can be ready.
fn grown(len_bytes: u64, is_late: bool) -> u64 {
    let leap = if is_late { (len_bytes * GROWTH_IN_NEED).min(EARLY_BYTES) } else { 0 };
    leap.max(len_bytes * GROWTH)
}

/// Returns whether the written share of the zeros is more than twice the filled share of the segment before. Then they
/// will be complete when half of that segment is filled.
fn is_ahead(zeros: Zeros, filled_bytes: u64, of_bytes: u64) -> bool {
    zeros.done_bytes * of_bytes > 2 * filled_bytes * zeros.of_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use base::DatabaseId;
    use io::MemDir;
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_thread_that_needs_the_segment_ends_the_pauses() {
        let options =
            Options { first_segment_bytes: 2 << 20, max_segment_bytes: 4 << 20, flush_worth_bytes: 1 << 40 };
        let log = Arc::new(Log::create(Arc::new(MemDir::new()), DatabaseId(1), options).unwrap());
        let (pauses, needing) = (Cell::new(0), RefCell::new(None));
        let pause = |_| {
            pauses.set(pauses.get() + 1);
            let shared = log.clone();
            needing.borrow_mut().get_or_insert_with(|| thread::spawn(move || shared.reserve(3 << 20)));
            while log.wanted.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            true
        };
        assert!(log.prepare_in_time(&pause).unwrap());
        needing.into_inner().expect("there was a pause").join().unwrap().unwrap();
        assert_eq!(pauses.get(), 1);
    }

    #[test]
    fn zeros_pause_while_they_are_twice_as_far_as_the_log() {
        let zeros = |done_bytes| Zeros { done_bytes, of_bytes: 64 << 20, flush: Duration::ZERO };
        assert!(is_ahead(zeros(1 << 20), 0, 32 << 20), "nobody appends");
        assert!(
            is_ahead(zeros(33 << 20), 8 << 20, 32 << 20),
            "a quarter is filled, and more than half is done"
        );
        assert!(!is_ahead(zeros(32 << 20), 8 << 20, 32 << 20));
        assert!(!is_ahead(zeros(63 << 20), 32 << 20, 32 << 20), "the log waits");
    }
}
