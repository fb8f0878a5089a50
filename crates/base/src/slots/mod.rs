//! The slots of active readers, which say what must not be freed while they read.
//!
//! A [`Slot`] belongs to one reader at a time. Its words are written by that reader alone, except for one bit:
//!
//! * `view`: the view of the database that a snapshot holds, for as long as the snapshot lives. Views that no reader
//!   holds can be freed, with the memtables and pages that only they reach. Other threads may set the bit `REVOKED` in
//!   it.
//! * `epoch`: set while a call is under way. While the call uses pages of the pool it is a number: a frame that was
//!   unlinked in epoch *e* is reused once no slot is in an epoch at or before *e*. A call leaves its epoch before it
//!   waits for I/O and before it runs user code, so that a slow call delays no frames; it is `SUSPENDED` then.
//! * `since_ms`, `ts` and `opened_at` describe the reader in diagnostics. `reads` counts what it reads.
//!
//! Each slot has its own cache lines: beginning and ending a read writes no line that another thread writes.
//!
//! # Why a view cannot be freed between being loaded and being announced
//! A reader stores `PENDING`, then loads the current view, then stores that view's number. A reclaimer publishes
//! the newer view first and scans the slots after. All four are `SeqCst`, so they have one order: either the scan
//! sees `PENDING` (or the number) and frees nothing that this reader may hold, or the reader's load comes after
//! the publication and sees the newer view.
//!
//! # Why a view can be taken from an idle reader, and never from a reader that is in a call
//! A reader that holds a snapshot and makes no calls cannot be asked to release it. So a call announces itself *before*
//! it checks whether the view was revoked, and a reclaimer revokes *before* it checks whether a call is announced:
//!
//! 1. The reader stores `epoch`, then loads `view`: if the view was revoked, the call ends without using the view.
//! 2. The reclaimer sets `REVOKED`, then loads `epoch`: if the reader is in a call, the view stays until a later scan.
//!
//! All four are `SeqCst`: at least one of the two sees the other. The bit is set by comparing and exchanging the whole
//! word, in which the reader counts its turns. So a decision about an old holder is not applied to a newer one. The
//! check costs a call one load of its own line, and nothing at all where a page is used anyway.
//!
//! This module has the slots and the threads that scan them. `reader` has the owner of a slot.

mod reader;

pub use reader::{EpochGuard, Reader, Suspended};

use crate::latency::Latencies;
use crate::reads::{ReadCounts, ReadTotals, Reads};
use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock, loom_fence, spin};
use crate::{Error, ErrorKind, Result, TableId};
use std::collections::BTreeMap;
use std::panic::Location;
use std::ptr;
use std::sync::Arc; // Also under loom: who owns the slots is not in question.

/// The `view` of a slot that holds no view.
const IDLE: u64 = 0;
/// The `view` of a slot whose reader is about to hold a view that is not yet known.
const PENDING: u64 = u64::MAX;
/// Any other `view` has, from its low end: whether the holder will write, whether the view was revoked, how often the
/// slot was held before (14 bits, which overflow), and the view's number.
const WRITES: u64 = 1;
const REVOKED: u64 = 2;
const TURN_SHIFT: u32 = 2;
const TURNS: u64 = 1 << 14;
const NUMBER_SHIFT: u32 = 16;

/// The `epoch` of a slot whose reader is in no call.
const RESTING: u64 = 0;
/// The `epoch` of a slot whose call uses no frame at this moment. No frame waits for it, but its view does.
const SUSPENDED: u64 = u64::MAX;

/// One reader's announcements and counts, in 384 bytes: a multiple of 128, two cache lines, because neighbouring lines
/// are fetched in pairs.
#[repr(align(128))]
#[derive(Debug)]
pub struct Slot {
    view: AtomicU64,
    epoch: AtomicU64,
    /// The time when the view was requested, by the clock of the thread that requested it.
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

/// The announcement of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// The reader is about to hold a view: the current one, or one that was current a moment ago.
    Pending,
    /// The reader holds a view.
    Held(Holding),
}

/// A view that a reader holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    index: usize,
    word: u64,
    /// The view's number.
    pub view: u64,
    /// Whether the holder will write.
    pub writes: bool,
    /// Whether the view was revoked while the holder was in a call, which is still under way.
    pub is_revoked: bool,
}

impl Holding {
    /// Returns the identity of this holding, which is the same from its beginning to its end.
    pub fn id(&self) -> (usize, u64) {
        (self.index, self.word & !REVOKED)
    }
}

/// A description of a holder. The reader may end while it is read, so it is for diagnostics only: nothing may be freed
/// because of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// The time when the holding began.
    pub since_ms: u64,
    /// The last commit that the reader sees.
    pub ts: u64,
    /// The place in the program where the holding began.
    pub opened_at: Option<&'static Location<'static>>,
    /// Whether the reader is in a call, or has an open cursor.
    pub in_call: bool,
}

/// The number of times that a scan looks again at a slot that is pending. A slot is pending for some ten nanoseconds,
/// and because of one such slot a scan frees nothing. If it stays pending for all these looks, its thread was
/// interrupted. Under a model checker each look is one more state, and shows nothing that a later scan does not show.
const PENDING_LOOKS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 64 };

const CHUNK: usize = if cfg!(loom) { 2 } else { 64 };
/// 65,536 slots: more than any program has live readers, in 8 KiB of pointers. Under loom, which explores every slot,
/// there are two chunks of two.
const MAX_CHUNKS: usize = if cfg!(loom) { 2 } else { 1024 };

/// All slots of a database. They are allocated in chunks of 64 when readers need them, and freed with the database.
#[derive(Debug)]
pub struct Slots {
    chunks: Box<[AtomicPtr<[Slot; CHUNK]>]>,
    /// The number of slots that were ever handed out: scans stop here.
    high: AtomicUsize,
    /// Slots without an owner, each with the turns it has had.
    free: Mutex<Vec<(usize, u64)>>,
    epoch: AtomicU64,
    read_totals: ReadTotals,
    /// Latencies of the operations of the slots' owners.
    pub latencies: Arc<Latencies>,
}

impl Default for Slots {
    fn default() -> Self {
        Slots::new()
    }
}

impl Slots {
    /// Creates an empty set of slots.
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

    /// Returns a free slot, owned for as long as the [`Reader`] lives, or `None` if all 65,536 are taken. Takes a lock,
    /// so callers reuse readers.
    pub fn claim(self: &Arc<Self>) -> Option<Reader> {
        let (index, turn) = self.claim_index()?;
        Some(Reader::new(Arc::clone(self), index, turn))
    }

    /// Returns a free slot, owned for as long as the [`Reader`] lives. Takes a lock, so callers reuse readers.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full) if all slots are taken.
    pub fn claim_or_full(self: &Arc<Self>) -> Result<Reader> {
        let full = || Error::new(ErrorKind::Full, "every reader slot is taken; drop some snapshots");
        self.claim().ok_or_else(full)
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

    /// Returns what the slots announce, one after the other. A view that was revoked counts only while its holder is in
    /// a call. A view can be freed if no announcement holds it and none is pending. A slot that is pending is looked at
    /// again for about a microsecond: what counts is the last look, which is as much a part of the scan as the first.
    pub fn announced(&self) -> impl Iterator<Item = Announced> {
        (0..self.high.load(Ordering::SeqCst)).filter_map(|index| {
            let slot = self.get(index);
            let word = settled(|| slot.view.load(Ordering::SeqCst));
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

    /// Revokes the view of `holding`, unless that has ended. The holder's next call finds out. Call
    /// [`Slots::announced`] afterwards to learn whether the view can be freed.
    pub fn revoke(&self, holding: &Holding) -> bool {
        let Holding { index, word, .. } = *holding;
        let view = &self.get(index).view;
        let is_done = view.compare_exchange(word, word | REVOKED, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        loom_fence();
        is_done
    }

    /// Returns the description of `holding`, or `None` if it has ended.
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

    /// Returns what was read of each table. Scans all slots.
    pub fn reads(&self) -> BTreeMap<TableId, Reads> {
        self.read_totals.with(self.all().map(|slot| &slot.reads))
    }

    /// Returns how many readers hold a view. Scans all slots.
    pub fn held(&self) -> usize {
        self.all().filter(|slot| slot.view.load(Ordering::SeqCst) != IDLE).count()
    }

    /// Ends the current epoch and returns it. What was unlinked before this call is unreachable once
    /// [`Slots::oldest_epoch`] is greater.
    pub fn advance_epoch(&self) -> u64 {
        let ended = self.epoch.fetch_add(1, Ordering::SeqCst);
        loom_fence();
        ended
    }

    /// Returns the oldest epoch that a call is in, or `u64::MAX` if no call is in an epoch. Scans all slots.
    pub fn oldest_epoch(&self) -> u64 {
        self.all()
            .map(|slot| slot.epoch.load(Ordering::SeqCst))
            .filter(|&epoch| epoch != RESTING)
            .min() // SUSPENDED is the greatest.
            .unwrap_or(u64::MAX)
    }
}

/// Returns what `look` finds in a slot's `view`, and looks again a few times if that is pending.
#[inline]
fn settled(look: impl Fn() -> u64) -> u64 {
    let mut word = look();
    for _ in 0..PENDING_LOOKS {
        if word != PENDING {
            break;
        }
        spin();
        word = look();
    }
    word
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

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Returns the views held, or `None` while a reader is pending.
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
    fn a_slot_that_is_pending_for_a_moment_keeps_no_scan_from_freeing() {
        let looks = Cell::new(0);
        let look = |pending: u32| {
            looks.set(0);
            settled(|| {
                looks.set(looks.get() + 1);
                if looks.get() <= pending { PENDING } else { 7 }
            })
        };
        assert_eq!((look(0), looks.get()), (7, 1));
        assert_eq!((look(9), looks.get()), (7, 10));
        assert_eq!(look(u32::MAX), PENDING, "a thread that was interrupted");
    }

    #[test]
    fn a_view_is_taken_from_who_rests_and_left_to_who_is_in_a_call() {
        let slots = Arc::new(Slots::new());
        let reader = slots.claim().unwrap();
        reader.hold(7, false);
        let suspended = reader.begin_call().unwrap().suspend();
        assert!(slots.revoke(&holding(&slots)));
        assert_eq!(views(&slots), Some(vec![7]), "it is in a call");
        assert!(reader.begin_call().is_none(), "no further call begins");
        assert_eq!(views(&slots), Some(vec![7]), "the first goes on");
        drop(suspended);
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
