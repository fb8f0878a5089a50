//! The owner of a slot. It announces a view and calls, enters epochs, and waits for I/O outside of them.
//!
//! The head of [`super`] explains what the announcements mean and why they have their order.

use super::{IDLE, NUMBER_SHIFT, PENDING, RESTING, REVOKED, SUSPENDED, Slot, Slots, TURN_SHIFT, TURNS};
use crate::TableId;
use crate::latency::Latencies;
use crate::sync::atomic::Ordering;
use crate::sync::{lock, loom_fence};
use std::cell::Cell;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc; // Also under loom: who owns the slots is not in question.

/// The owner of a slot: the right to hold a view and to enter epochs through it. It is `Send`, but neither `Sync` nor
/// `Clone`, because all code that frees memory relies on a slot's words having one writer.
///
/// ```
/// use pando_base::slots::Slots;
/// use pando_base::sync::Arc;
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
    pub(super) index: usize,
    /// The number of times that this slot held a view.
    turn: Cell<u64>,
    /// Whether an [`EpochGuard`] lives.
    inside: Cell<bool>,
    /// The number of live [`Suspended`]s.
    suspended: Cell<u32>,
}

// SAFETY: `slot` points into `slots`, which lives as long as this does, and a Slot is made of atomics.
unsafe impl Send for Reader {}

impl Reader {
    /// Creates the owner of slot `index`, which has had `turn` turns.
    pub(super) fn new(slots: Arc<Slots>, index: usize, turn: u64) -> Self {
        let slot = NonNull::from(slots.get(index));
        let (turn, inside, suspended) = (Cell::new(turn), Cell::new(false), Cell::new(0));
        Reader { slots, slot, index, turn, inside, suspended }
    }

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

    /// Records since when, and from which place in the program, a view is held. Call it before [`Reader::pending`], so
    /// that no thread that sees the view held takes the time of an earlier holder for this one's.
    #[inline]
    pub fn introduce(&self, now_ms: u64, opened_at: &'static Location<'static>) {
        let slot = self.slot();
        // Relaxed: what follows, `pending` and then `hold`, is what orders them for a thread that saw the view held.
        slot.since_ms.store(now_ms, Ordering::Relaxed);
        // Relaxed: ordered by the same two stores.
        slot.opened_at.store(ptr::from_ref(opened_at).cast_mut(), Ordering::Relaxed);
    }

    /// Counts a key that is looked up in `table`, and returns the recent count.
    #[inline]
    pub fn count_get(&self, table: TableId) -> u64 {
        self.slot().reads.get(table, &self.slots.read_totals)
    }

    /// Counts a cursor over `table` that was moved `moves` times.
    pub fn count_scan(&self, table: TableId, moves: u64) {
        self.slot().reads.scan(table, moves, &self.slots.read_totals);
    }

    /// Returns the latencies of this database's operations.
    pub fn latencies(&self) -> &Latencies {
        &self.slots.latencies
    }

    /// Records the last commit that the reader sees.
    #[inline]
    pub fn note_ts(&self, ts: u64) {
        // Relaxed: shown to people, and decides nothing.
        self.slot().ts.store(ts, Ordering::Relaxed);
    }

    /// Announces which view is held, and whether the holder will write. Release, whose partner is the scan in
    /// [`Slots::announced`]: a scan that still sees `PENDING` frees less, never more.
    #[inline]
    pub fn hold(&self, view: u64, writes: bool) {
        debug_assert!(view != 0 && view.leading_zeros() > NUMBER_SHIFT);
        let turn = self.turn.get() + 1;
        self.turn.set(turn);
        // Release, as said above.
        let word = (view << NUMBER_SHIFT) | ((turn % TURNS) << TURN_SHIFT) | u64::from(writes);
        self.slot().view.store(word, Ordering::Release);
    }

    /// Announces that the view is no longer used. Release: every read through the view comes before it for the scanner
    /// that sees it.
    #[inline]
    pub fn let_go(&self) {
        self.slot().view.store(IDLE, Ordering::Release);
    }

    /// Returns the identity of what the reader holds, as [`Holding::id`](super::Holding::id) has it.
    pub fn holding_id(&self) -> (usize, u64) {
        (self.index, self.slot().view.load(Ordering::SeqCst) & !REVOKED)
    }

    /// Returns whether the view was revoked. Outside of a call, the result may be out of date at once. Inside a call,
    /// `false` holds until the call ends.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.slot().view.load(Ordering::SeqCst) & REVOKED != 0
    }

    /// Enters the current epoch until the guard is dropped. A call is in one epoch: a second `enter` while the first
    /// guard lives is a bug in this engine, and panics.
    #[inline]
    pub fn enter(&self) -> EpochGuard<'_> {
        assert!(!self.inside.replace(true), "an epoch was entered twice");
        self.announce();
        EpochGuard { reader: self, may_wait: true }
    }

    /// Begins a call and enters the current epoch. The view stays for as long as the guard, or the [`Suspended`] made
    /// from it, lives. Returns `None` if the view was revoked.
    #[inline]
    pub fn begin_call(&self) -> Option<EpochGuard<'_>> {
        let guard = self.enter();
        // After the announcement: the head of this file says why.
        if self.is_revoked() { None } else { Some(guard) }
    }

    /// Announces the epoch. SeqCst on both: the announcement must be ordered before every later look at the pool's
    /// translation, so that an evictor that unlinked a frame and then scans either sees us or we do not see the frame.
    #[inline]
    fn announce(&self) {
        let epoch = self.slots.epoch.load(Ordering::SeqCst);
        self.slot().epoch.store(epoch, Ordering::SeqCst);
        loom_fence();
    }

    /// Announces that the epoch was left, and that the call ended unless a [`Suspended`] of it lives.
    #[inline]
    fn step_out(&self) {
        let left = if self.suspended.get() == 0 { RESTING } else { SUSPENDED };
        // Release: every read under the guard comes before it, for the evictor, or reclaimer, whose scan sees it.
        self.slot().epoch.store(left, Ordering::Release);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.let_go();
        lock(&self.slots.free).push((self.index, self.turn.get()));
    }
}

/// Proof that a reader is inside an epoch.
#[derive(Debug)]
pub struct EpochGuard<'a> {
    reader: &'a Reader,
    /// Whether the holder may wait for the disk.
    may_wait: bool,
}

impl EpochGuard<'_> {
    /// Returns whether the epoch is one of `slots`: a guard of other slots would protect nothing.
    #[inline]
    pub fn belongs_to(&self, slots: &Arc<Slots>) -> bool {
        Arc::ptr_eq(&self.reader.slots, slots)
    }

    /// Leaves the epoch, runs `wait` (usually I/O), and enters the epoch that is current then. Because of `&mut`, no
    /// reference obtained under the guard can outlive this call.
    pub fn outside<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        // Release: every read under the guard comes before it, for the evictor whose scan sees it.
        self.reader.slot().epoch.store(SUSPENDED, Ordering::Release);
        let result = wait();
        self.reader.announce();
        result
    }
}

impl<'a> EpochGuard<'a> {
    /// Turns the guard into one whose holder must not wait: a page that is not in memory is not read, and its use fails
    /// with [`ErrorKind::WouldWait`](crate::ErrorKind::WouldWait).
    #[inline]
    pub fn without_waiting(mut self) -> Self {
        self.may_wait = false;
        self
    }

    /// Returns whether the holder may wait for the disk.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// Leaves the epoch and stays in the call, to run user code or to keep a cursor until its next step.
    #[inline]
    pub fn suspend(self) -> Suspended<'a> {
        let reader = self.reader;
        reader.suspended.set(reader.suspended.get() + 1);
        Suspended { reader }
    }
}

impl Drop for EpochGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.reader.inside.set(false);
        self.reader.step_out();
    }
}

/// Proof that a reader is in a call, and in no epoch: its view stays, and no frame waits for it.
#[derive(Debug)]
pub struct Suspended<'a> {
    reader: &'a Reader,
}

impl Suspended<'_> {
    /// Returns whether the view was revoked meanwhile. It stays until the call ends, so the caller should end soon.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.reader.is_revoked()
    }
}

impl Drop for Suspended<'_> {
    #[inline]
    fn drop(&mut self) {
        self.reader.suspended.set(self.reader.suspended.get() - 1);
        if !self.reader.inside.get() {
            self.reader.step_out();
        }
    }
}
