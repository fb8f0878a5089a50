//! Who is reading, and so what must not be freed under them.
//!
//! A [`Slot`] belongs to one reader at a time. Its words are written by that reader alone, but for one bit:
//!
//! * `view`: which view of the database a snapshot holds, for as long as the snapshot lives. Views that nobody
//!   holds can be freed, with the memtables and pages that only they reach. Others may set the bit `REVOKED` in it.
//! * `epoch`: set while a call is under way. While it looks at pages of the pool it is a number: a frame that was
//!   unlinked in epoch *e* is reused once no slot is in an epoch at or before *e*. A call leaves its epoch before it
//!   waits for I/O and before it runs a user's code, so that nobody's slowness holds up frames; it is `ASIDE` then.
//! * `since_ms`, `ts` and `opened_at` are for those who ask which reader it is that holds so much; `reads` for those
//!   who ask what is read.
//!
//! Each slot has cache lines of its own: beginning and ending a read writes no line that another thread writes.
//!
//! # Why a view cannot vanish between being loaded and being announced
//! A reader stores `PENDING`, then loads the current view, then stores that view's number. A reclaimer publishes
//! the newer view first and scans the slots after. All four are `SeqCst`, so they have one order: either the scan
//! sees `PENDING` (or the number) and frees nothing that this reader may hold, or the reader's load comes after
//! the publication and sees the newer view.
//!
//! # Why a view can be taken from a reader that rests, and never from one that is in a call
//! A reader that sleeps with a snapshot in its hand cannot be asked to let go. So a call announces itself *before*
//! it looks whether the view was revoked, and a reclaimer revokes *before* it looks whether a call is announced:
//!
//! 1. The reader stores `epoch`, then loads `view`: revoked, it leaves, and touches nothing of the view.
//! 2. The reclaimer sets `REVOKED`, then loads `epoch`: in a call, the view stays until a later scan.
//!
//! All four are `SeqCst`: at least one of the two sees the other. The bit is set by comparing and exchanging the
//! whole word, in which the reader counts its turns: what a reclaimer found old is not taken from a younger holder.
//! It costs a call one load of its own line, and nothing at all where a page is looked at anyway.

use crate::TableId;
use crate::latency::Latencies;
use crate::reads::{ReadCounts, ReadTotals, Reads};
use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock, loom_fence};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc; // Also under loom: who owns the slots is not in question.

/// `view` of a slot that holds none.
const IDLE: u64 = 0;
/// `view` of a slot whose reader is about to hold one, not yet known which.
const PENDING: u64 = u64::MAX;
/// Otherwise `view` has, from its low end: whether the holder means to write, whether the view was taken from it,
/// how often the slot was held before (14 bits, that run over), and the view's number.
const WRITES: u64 = 1;
const REVOKED: u64 = 2;
const TURN_SHIFT: u32 = 2;
const TURNS: u64 = 1 << 14;
const NUMBER_SHIFT: u32 = 16;

/// `epoch` of a slot whose reader is in no call.
const RESTING: u64 = 0;
/// `epoch` of a slot whose call looks at no frame just now. No frame waits for it, but its view does.
const ASIDE: u64 = u64::MAX;

/// One reader's announcements and counts. A multiple of 128 bytes: two cache lines, as neighbouring lines are fetched
/// in pairs.
#[repr(align(128))]
#[derive(Debug)]
pub struct Slot {
    view: AtomicU64,
    epoch: AtomicU64,
    /// When the view was asked for, by the clock of whoever asked.
    since_ms: AtomicU64,
    ts: AtomicU64,
    /// Null, or a `&'static`.
    opened_at: AtomicPtr<Location<'static>>,
    reads: ReadCounts,
}

impl Slot {
    fn new() -> Self {
        let word = || AtomicU64::new(0);
        let opened_at = AtomicPtr::new(ptr::null_mut());
        Slot {
            view: word(),
            epoch: word(),
            since_ms: word(),
            ts: word(),
            opened_at,
            reads: ReadCounts::new(),
        }
    }
}

/// What a slot announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// Its reader is about to hold a view: whichever is current, or was a moment ago.
    Pending,
    /// It holds a view.
    Held(Holding),
}

/// A view that is held, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    index: usize,
    word: u64,
    /// The view's number.
    pub view: u64,
    /// Whether the holder means to write.
    pub writes: bool,
    /// Whether the view was revoked while the holder was in a call, in which it still is.
    pub is_revoked: bool,
}

impl Holding {
    /// Tells holdings apart: the same for one holding from its beginning to its end.
    pub fn id(&self) -> (usize, u64) {
        (self.index, self.word & !REVOKED)
    }
}

/// What is known of a holder. Read beside a reader that may be ending: for people, and no base for freeing anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// When it began.
    pub since_ms: u64,
    /// The last commit that it sees.
    pub ts: u64,
    /// Where in the program it began.
    pub opened_at: Option<&'static Location<'static>>,
    /// Whether it is in a call, or a cursor of it is open.
    pub in_call: bool,
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
    /// Slots without an owner, each with the turns it has had.
    free: Mutex<Vec<(usize, u64)>>,
    epoch: AtomicU64,
    read_totals: ReadTotals,
    /// How long whoever has a slot waited for what.
    pub latencies: Arc<Latencies>,
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
        Slots {
            chunks,
            high: AtomicUsize::new(0),
            free: Mutex::new(Vec::new()),
            epoch: AtomicU64::new(1),
            read_totals: ReadTotals::new(),
            latencies: Arc::default(),
        }
    }

    /// A slot that is nobody's, for as long as the [`Reader`] lives; `None` when all 65,536 are taken. Takes a lock:
    /// callers keep readers at hand.
    pub fn claim(self: &Arc<Self>) -> Option<Reader> {
        let (index, turn) = self.claim_index()?;
        let slot = NonNull::from(self.get(index));
        let slots = Arc::clone(self);
        Some(Reader {
            slots,
            slot,
            index,
            turn: Cell::new(turn),
            inside: Cell::new(false),
            aside: Cell::new(0),
        })
    }

    fn claim_index(&self) -> Option<(usize, u64)> {
        let mut free = lock(&self.free);
        if let Some(freed) = free.pop() {
            return Some(freed);
        }
        let index = self.high.load(Ordering::SeqCst);
        let chunk = self.chunks.get(index / CHUNK)?;
        if chunk.load(Ordering::SeqCst).is_null() {
            let fresh: [Slot; CHUNK] = std::array::from_fn(|_| Slot::new());
            chunk.store(Box::into_raw(Box::new(fresh)), Ordering::SeqCst);
        }
        self.high.store(index + 1, Ordering::SeqCst);
        Some((index, 0))
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

    /// What the slots announce, one after the other. A view that was revoked counts only while its holder is in a
    /// call. What may be freed is what none of these holds, and nothing while one is pending.
    pub fn announced(&self) -> impl Iterator<Item = Announced> {
        (0..self.high.load(Ordering::SeqCst)).filter_map(|index| {
            let slot = self.get(index);
            let word = slot.view.load(Ordering::SeqCst);
            if word == IDLE {
                return None;
            }
            if word == PENDING {
                return Some(Announced::Pending);
            }
            let is_revoked = word & REVOKED != 0;
            if is_revoked && slot.epoch.load(Ordering::SeqCst) == RESTING {
                return None;
            }
            let (view, writes) = (word >> NUMBER_SHIFT, word & WRITES != 0);
            Some(Announced::Held(Holding { index, word, view, writes, is_revoked }))
        })
    }

    /// Takes the view from `holding`, unless that has ended: its next call finds out. Whether the view is free then is
    /// for [`Slots::announced`] to say, afterwards.
    pub fn revoke(&self, holding: &Holding) -> bool {
        let Holding { index, word, .. } = *holding;
        let view = &self.get(index).view;
        let is_done = view.compare_exchange(word, word | REVOKED, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        loom_fence();
        is_done
    }

    /// What is known of `holding`; `None` if it has ended.
    pub fn particulars(&self, holding: &Holding) -> Option<Particulars> {
        let slot = self.get(holding.index);
        let opened_at = slot.opened_at.load(Ordering::SeqCst);
        let particulars = Particulars {
            since_ms: slot.since_ms.load(Ordering::SeqCst),
            ts: slot.ts.load(Ordering::SeqCst),
            // SAFETY: only ever set from a `&'static`.
            opened_at: unsafe { opened_at.as_ref() },
            in_call: slot.epoch.load(Ordering::SeqCst) != RESTING,
        };
        (slot.view.load(Ordering::SeqCst) & !REVOKED == holding.word & !REVOKED).then_some(particulars)
    }

    /// What was read of each table. Scans all slots.
    pub fn reads(&self) -> BTreeMap<TableId, Reads> {
        self.read_totals.with(self.all().map(|slot| &slot.reads))
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
            .filter(|&epoch| epoch != RESTING)
            .min() // ASIDE is the greatest.
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
    /// How often it held a view.
    turn: Cell<u64>,
    /// Whether an [`EpochGuard`] lives.
    inside: Cell<bool>,
    /// How many [`Aside`]s live.
    aside: Cell<u32>,
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

    /// Notes for those who ask since when, and where in the program, a view is held. Before [`Reader::pending`], so
    /// that no one who sees the view held takes the time of an earlier holder for this one's.
    #[inline]
    pub fn introduce(&self, now_ms: u64, opened_at: &'static Location<'static>) {
        let slot = self.slot();
        // Relaxed: what follows, `pending` and then `hold`, is what orders them for whoever saw the view held.
        slot.since_ms.store(now_ms, Ordering::Relaxed);
        // Relaxed: likewise.
        slot.opened_at.store(ptr::from_ref(opened_at).cast_mut(), Ordering::Relaxed);
    }

    /// Counts a key that is looked up in `table`; how many that makes lately.
    #[inline]
    pub fn count_get(&self, table: TableId) -> u64 {
        self.slot().reads.get(table, &self.slots.read_totals)
    }

    /// Counts a cursor over `table` that was moved `moves` times.
    pub fn count_scan(&self, table: TableId, moves: u64) {
        self.slot().reads.scan(table, moves, &self.slots.read_totals);
    }

    /// How long operations of this database waited for what.
    pub fn latencies(&self) -> &Latencies {
        &self.slots.latencies
    }

    /// Notes the last commit that is seen.
    #[inline]
    pub fn note_ts(&self, ts: u64) {
        // Relaxed: shown to people, and decides nothing.
        self.slot().ts.store(ts, Ordering::Relaxed);
    }

    /// Announces which view is held, and whether to write later. Release, whose partner is the scan in
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

    /// The view is no longer used. Release: every read through the view comes before it for the scanner that sees
    /// it.
    #[inline]
    pub fn let_go(&self) {
        self.slot().view.store(IDLE, Ordering::Release);
    }

    /// Whether the view was taken from this reader. Asked outside of a call this is old news at once; `false` is
    /// good for as long as the call lasts that was begun before.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.slot().view.load(Ordering::SeqCst) & REVOKED != 0
    }

    /// Enters the current epoch until the guard is dropped. One call, one epoch: a second `enter` while the first
    /// guard lives is a bug in this engine, and panics.
    #[inline]
    pub fn enter(&self) -> EpochGuard<'_> {
        assert!(!self.inside.replace(true), "an epoch was entered twice");
        self.announce();
        EpochGuard { reader: self, may_wait: true }
    }

    /// Enters the current epoch, and a call with it: the view stays as long as the guard, or the [`Aside`] that comes
    /// of it, lives. `None` if the view was revoked.
    #[inline]
    pub fn begin_call(&self) -> Option<EpochGuard<'_>> {
        let guard = self.enter();
        // After the announcement: the head of this file says why.
        if self.is_revoked() { None } else { Some(guard) }
    }

    /// SeqCst on both: the announcement must be ordered before every later look at the pool's translation, so that
    /// an evictor that unlinked a frame and then scans either sees us or we do not see the frame.
    #[inline]
    fn announce(&self) {
        let epoch = self.slots.epoch.load(Ordering::SeqCst);
        self.slot().epoch.store(epoch, Ordering::SeqCst);
        loom_fence();
    }

    /// Announces that the epoch was left, and the call too unless something of it is kept.
    #[inline]
    fn step_out(&self) {
        let left = if self.aside.get() == 0 { RESTING } else { ASIDE };
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
    /// Whether who holds it may be kept waiting for the disk.
    may_wait: bool,
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
        self.reader.slot().epoch.store(ASIDE, Ordering::Release);
        let result = wait();
        self.reader.announce();
        result
    }
}

impl<'a> EpochGuard<'a> {
    /// The same guard for somebody who must not wait: a page that is not in memory is then an error,
    /// [`ErrorKind::WouldWait`](crate::ErrorKind::WouldWait), and is not read.
    #[inline]
    pub fn without_waiting(mut self) -> Self {
        self.may_wait = false;
        self
    }

    /// Whether its holder may be kept waiting for the disk.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// Leaves the epoch and stays in the call: a user's code runs now, or a cursor is kept for the next step.
    #[inline]
    pub fn aside(self) -> Aside<'a> {
        let reader = self.reader;
        reader.aside.set(reader.aside.get() + 1);
        Aside { reader }
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
pub struct Aside<'a> {
    reader: &'a Reader,
}

impl Aside<'_> {
    /// Whether the view was revoked meanwhile. It stays for now: whoever asks had better end soon.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.reader.is_revoked()
    }
}

impl Drop for Aside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.reader.aside.set(self.reader.aside.get() - 1);
        if !self.reader.inside.get() {
            self.reader.step_out();
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    /// The views held, `None` while a reader is pending.
    fn views(slots: &Slots) -> Option<Vec<u64>> {
        let view = |announced| match announced {
            Announced::Pending => None,
            Announced::Held(holding) => Some(holding.view),
        };
        slots.announced().map(view).collect()
    }

    fn holding(slots: &Slots) -> Holding {
        let held = slots.announced().find_map(|announced| match announced {
            Announced::Held(holding) => Some(holding),
            Announced::Pending => None,
        });
        held.unwrap()
    }

    #[test]
    fn a_pending_reader_holds_everything() {
        let slots = Arc::new(Slots::new());
        assert_eq!(views(&slots), Some(vec![]));
        let (a, b) = (slots.claim().unwrap(), slots.claim().unwrap());
        a.pending();
        a.hold(5, false);
        b.pending();
        assert_eq!(views(&slots), None);
        b.hold(9, true);
        assert_eq!(views(&slots), Some(vec![5, 9]));
        a.let_go();
        assert_eq!(views(&slots), Some(vec![9]));
        assert!(holding(&slots).writes);
        drop(b);
        assert_eq!((views(&slots), slots.held()), (Some(vec![]), 0));
    }

    #[test]
    fn a_view_is_taken_from_who_rests_and_left_to_who_is_in_a_call() {
        let slots = Arc::new(Slots::new());
        let reader = slots.claim().unwrap();
        reader.hold(7, false);
        let aside = reader.begin_call().unwrap().aside();
        assert!(slots.revoke(&holding(&slots)));
        assert_eq!(views(&slots), Some(vec![7]), "it is in a call");
        assert!(reader.begin_call().is_none(), "no further call begins");
        assert_eq!(views(&slots), Some(vec![7]), "the first goes on");
        drop(aside);
        assert_eq!((views(&slots), slots.held()), (Some(vec![]), 1));
        reader.let_go();
        reader.hold(7, false);
        assert!(reader.begin_call().is_some(), "the next holder is another");
    }

    #[test]
    fn what_was_found_old_is_not_taken_from_the_next_holder_of_the_slot() {
        let slots = Arc::new(Slots::new());
        let reader = slots.claim().unwrap();
        reader.introduce(3, Location::caller());
        reader.hold(7, false);
        let old = holding(&slots);
        assert_eq!(slots.particulars(&old).unwrap().since_ms, 3);
        reader.let_go();
        reader.hold(7, false);
        assert!(!slots.revoke(&old) && !reader.is_revoked());
        assert_eq!(slots.particulars(&old), None);
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
