//! Who is reading, and so what must not be freed under them.
//!
//! A [`Slot`] belongs to one reader at a time and has two words, both written by that reader alone:
//!
//! * `view`: which view of the database a snapshot holds, for as long as the snapshot lives. Views older than every
//!   held one can be freed, with the memtables and pages that only they reach.
//! * `epoch`: set while one call looks at pages of the pool. A frame that was unlinked in epoch *e* is reused once
//!   no slot is in an epoch at or before *e*. A call leaves its epoch before it waits for I/O and before it runs a
//!   user's code, so that nobody's slowness holds up frames.
//!
//! Each slot has cache lines of its own: beginning and ending a read writes no line that another thread writes.
//!
//! # Why a view cannot vanish between being loaded and being announced
//! A reader stores `PENDING`, then loads the current view, then stores that view's number. A reclaimer publishes
//! the newer view first and scans the slots after. All four are `SeqCst`, so they have one order: either the scan
//! sees `PENDING` (or the number) and frees nothing that this reader may hold, or the reader's load comes after
//! the publication and sees the newer view.

use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock, loom_fence};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc; // Also under loom: who owns the slots is not in question.

/// `view` of a slot that holds none.
const IDLE: u64 = 0;
/// `view` of a slot whose reader is about to hold one, not yet known which.
const PENDING: u64 = u64::MAX;

/// One reader's announcements. 128 bytes: two cache lines, as neighbouring lines are fetched in pairs.
#[repr(align(128))]
#[derive(Debug)]
pub struct Slot {
    view: AtomicU64,
    epoch: AtomicU64,
}

const CHUNK: usize = if cfg!(loom) { 2 } else { 64 };
/// 65,536 slots: more live readers than anyone has threads or patience for, in 8 KiB of pointers. Two chunks of two
/// under loom, which follows every one of them.
const MAX_CHUNKS: usize = if cfg!(loom) { 2 } else { 1024 };

/// All slots of a database. They are allocated by chunks of 64 as readers come, and never freed before the
/// database is.
#[derive(Debug)]
pub struct Slots {
    chunks: Box<[AtomicPtr<[Slot; CHUNK]>]>,
    /// How many slots were ever handed out: scans stop here.
    high: AtomicUsize,
    free: Mutex<Vec<usize>>,
    epoch: AtomicU64,
}

impl Default for Slots {
    fn default() -> Self {
        Slots::new()
    }
}

impl Slots {
    /// No slots yet.
    pub fn new() -> Self {
        let chunks = (0..MAX_CHUNKS).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Slots { chunks, high: AtomicUsize::new(0), free: Mutex::new(Vec::new()), epoch: AtomicU64::new(1) }
    }

    /// A slot that is nobody's, for as long as the [`Reader`] lives; `None` when all 65,536 are taken. Takes a lock:
    /// callers keep readers at hand.
    pub fn claim(self: &Arc<Self>) -> Option<Reader> {
        let index = self.claim_index()?;
        let slot = NonNull::from(self.get(index));
        Some(Reader { slots: Arc::clone(self), slot, index, inside: Cell::new(false) })
    }

    fn claim_index(&self) -> Option<usize> {
        let mut free = lock(&self.free);
        if let Some(index) = free.pop() {
            return Some(index);
        }
        let index = self.high.load(Ordering::SeqCst);
        let chunk = self.chunks.get(index / CHUNK)?;
        if chunk.load(Ordering::SeqCst).is_null() {
            let fresh: [Slot; CHUNK] =
                std::array::from_fn(|_| Slot { view: AtomicU64::new(IDLE), epoch: AtomicU64::new(0) });
            chunk.store(Box::into_raw(Box::new(fresh)), Ordering::SeqCst);
        }
        self.high.store(index + 1, Ordering::SeqCst);
        Some(index)
    }

    fn get(&self, index: usize) -> &Slot {
        let chunk = self.chunks[index / CHUNK].load(Ordering::SeqCst);
        assert!(!chunk.is_null(), "slot {index} was never claimed");
        // SAFETY: a chunk is set once, from a Box, before any index in it is handed out, and freed only by `drop`,
        // which has `&mut self`; the reference lives no longer than `&self`.
        unsafe { &(&*chunk)[index % CHUNK] }
    }

    fn all(&self) -> impl Iterator<Item = &Slot> {
        (0..self.high.load(Ordering::SeqCst)).map(|index| self.get(index))
    }

    /// The lowest view number that a reader holds; `Some(0)` while a reader has not made up its mind (so that
    /// nothing may be freed), `None` when nobody holds a view. Scans all slots.
    pub fn oldest_view(&self) -> Option<u64> {
        self.oldest_view_where(|_| true)
    }

    /// [`Slots::oldest_view`] among the view numbers that `counts` names (a caller may keep marks in the numbers'
    /// low bits). A reader that has not made up its mind always counts.
    pub fn oldest_view_where(&self, counts: impl Fn(u64) -> bool) -> Option<u64> {
        let held = self.all().map(|slot| slot.view.load(Ordering::SeqCst)).filter(|&view| view != IDLE);
        held.filter(|&view| view == PENDING || counts(view))
            .map(|view| if view == PENDING { 0 } else { view })
            .min()
    }

    /// How many readers hold a view. Scans all slots.
    pub fn held(&self) -> usize {
        self.all().filter(|slot| slot.view.load(Ordering::SeqCst) != IDLE).count()
    }

    /// Ends the current epoch and returns it: what was unlinked before this call is out of reach once
    /// [`Slots::oldest_epoch`] is greater.
    pub fn advance_epoch(&self) -> u64 {
        let ended = self.epoch.fetch_add(1, Ordering::SeqCst);
        loom_fence();
        ended
    }

    /// The oldest epoch that a call is in; `u64::MAX` when no call is in any. Scans all slots.
    pub fn oldest_epoch(&self) -> u64 {
        self.all()
            .map(|slot| slot.epoch.load(Ordering::SeqCst))
            .filter(|&epoch| epoch != 0)
            .min()
            .unwrap_or(u64::MAX)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            let chunk = chunk.load(Ordering::SeqCst);
            if !chunk.is_null() {
                // SAFETY: it came from Box::into_raw in `claim`, and `&mut self` means that no slot is borrowed.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}

/// The one owner of a slot: the right to hold a view and to enter epochs through it. `Send`, not `Sync`, not `Clone`:
/// that a slot's words have one writer is what everything that frees memory relies on.
///
/// ```
/// use base::slots::Slots;
/// use base::sync::Arc;
/// let slots = Arc::new(Slots::new());
/// let reader = slots.claim().unwrap();
/// {
///     let _guard = reader.enter();
///     assert_ne!(slots.oldest_epoch(), u64::MAX);
/// }
/// assert_eq!(slots.oldest_epoch(), u64::MAX);
/// ```
#[derive(Debug)]
pub struct Reader {
    slots: Arc<Slots>,
    slot: NonNull<Slot>,
    index: usize,
    inside: Cell<bool>,
}

// SAFETY: `slot` points into `slots`, which lives as long as this does, and a Slot is made of atomics.
unsafe impl Send for Reader {}

impl Reader {
    #[inline]
    fn slot(&self) -> &Slot {
        // SAFETY: slots are freed with `Slots`, which `self.slots` keeps.
        unsafe { self.slot.as_ref() }
    }

    /// Announces that this reader is about to hold a view. From here until [`Reader::hold`] or [`Reader::let_go`]
    /// nothing is freed.
    #[inline]
    pub fn pending(&self) {
        self.slot().view.store(PENDING, Ordering::SeqCst);
        loom_fence();
    }

    /// Announces which view is held. Release, whose partner is the scan in [`Slots::oldest_view`]: a scan that
    /// still sees `PENDING` frees less, never more.
    #[inline]
    pub fn hold(&self, view: u64) {
        debug_assert!(view != IDLE && view != PENDING);
        self.slot().view.store(view, Ordering::Release);
    }

    /// The view is no longer used. Release: every read through the view comes before it for the scanner that sees
    /// it.
    #[inline]
    pub fn let_go(&self) {
        self.slot().view.store(IDLE, Ordering::Release);
    }

    /// Enters the current epoch until the guard is dropped. One call, one epoch: a second `enter` while the first
    /// guard lives is a bug in this engine, and panics.
    #[inline]
    pub fn enter(&self) -> EpochGuard<'_> {
        assert!(!self.inside.replace(true), "an epoch was entered twice");
        self.announce();
        EpochGuard { reader: self }
    }

    /// SeqCst on both: the announcement must be ordered before every later look at the pool's translation, so that
    /// an evictor that unlinked a frame and then scans either sees us or we do not see the frame.
    #[inline]
    fn announce(&self) {
        let epoch = self.slots.epoch.load(Ordering::SeqCst);
        self.slot().epoch.store(epoch, Ordering::SeqCst);
        loom_fence();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.let_go();
        lock(&self.slots.free).push(self.index);
    }
}

/// Proof that a reader is inside an epoch.
#[derive(Debug)]
pub struct EpochGuard<'a> {
    reader: &'a Reader,
}

impl EpochGuard<'_> {
    /// Whether the epoch is one of `slots`: a guard of other slots would protect nothing.
    #[inline]
    pub fn belongs_to(&self, slots: &Arc<Slots>) -> bool {
        Arc::ptr_eq(&self.reader.slots, slots)
    }

    /// Leaves the epoch, runs `wait` (I/O, most likely), and enters the epoch that is current then. `&mut`: no
    /// reference obtained under the guard can outlive this.
    pub fn outside<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        // Release: every read under the guard comes before it, for the evictor whose scan sees it.
        self.reader.slot().epoch.store(0, Ordering::Release);
        let result = wait();
        self.reader.announce();
        result
    }
}

impl Drop for EpochGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: every read under the guard comes before it, for the evictor whose scan sees it.
        self.reader.slot().epoch.store(0, Ordering::Release);
        self.reader.inside.set(false);
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_pending_reader_holds_everything() {
        let slots = Arc::new(Slots::new());
        assert_eq!(slots.oldest_view(), None);
        let (a, b) = (slots.claim().unwrap(), slots.claim().unwrap());
        a.pending();
        a.hold(5);
        b.pending();
        assert_eq!(slots.oldest_view(), Some(0));
        b.hold(9);
        assert_eq!(slots.oldest_view(), Some(5));
        assert_eq!(slots.oldest_view_where(|view| view > 5), Some(9));
        a.let_go();
        assert_eq!(slots.oldest_view(), Some(9));
        drop(b);
        assert_eq!((slots.oldest_view(), slots.held()), (None, 0));
    }

    #[test]
    fn slots_are_reused_and_bounded_by_the_most_that_were_live() {
        let slots = Arc::new(Slots::new());
        for _ in 0..3 {
            let claimed: Vec<_> = (0..200).map(|_| slots.claim().unwrap()).collect();
            assert!(claimed.iter().all(|reader| reader.index < 200));
        }
    }

    #[test]
    fn an_epoch_is_left_while_waiting() {
        let slots = Arc::new(Slots::new());
        let reader = slots.claim().unwrap();
        let mut guard = reader.enter();
        assert!(guard.belongs_to(&slots) && !guard.belongs_to(&Arc::new(Slots::new())));
        let unlinked = slots.advance_epoch();
        assert!(slots.oldest_epoch() <= unlinked);
        guard.outside(|| assert!(slots.oldest_epoch() > unlinked));
        assert!(slots.oldest_epoch() > unlinked);
    }

    #[test]
    #[should_panic(expected = "twice")]
    fn an_epoch_is_entered_once_at_a_time() {
        let reader = Arc::new(Slots::new()).claim().unwrap();
        let _outer = reader.enter();
        let _inner = reader.enter();
    }
}
