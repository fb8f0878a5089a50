//! A fault: finding a frame, and reading the page into it.
//!
//! 1. Under the lock: if the page is linked by now, pin it. If another thread is loading it, wait and look again.
//! 2. Record that this thread loads it, and take a frame: vacant, or past its epoch, or of a new chunk, or evicted.
//! 3. Without the lock: read and verify. After any failure, dropping [`Load`] returns the frame and wakes the waiters,
//!    each of which then tries for itself: a failure is not cached.
//! 4. Under the lock: unlink any other page at that unit, link, queue, wake the waiters.

mod give;

use crate::exhausted::exhausted;
use crate::frames::{Frames, Limbo, Pin, Vacant};
use crate::growth::Growth;
use crate::huge::{HugePages, MemoryPages};
use crate::ledger::Ledger;
use crate::policy::{self, Fate, Policy};
use base::slots::Slots;
use base::sync::{Condvar, Mutex, MutexGuard, lock, spin, wait};
use base::{PagePtr, Result, background};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The number of frames that are unlinked for one scan of the reader slots. It is less in a small pool.
const EVICTION_BATCH: usize = 32;
/// The number of refusals of the budget after which the other databases that share it are asked for memory.
const REFUSALS_A_WISH: u64 = 32;
/// How often a fault yields if other calls use all frames. Then it asks for an overdraft, and sleeps as often before it
/// fails: about a second in all, while such a call lasts microseconds.
const YIELDS: usize = 128;
const SLEEPS: usize = 5_000;
const SLEEP: Duration = Duration::from_micros(200);
/// Whether a fault also waits if all memory has other uses, and other calls have the overdraft.
const WAITS_FOR_OVERDRAFT: bool = cfg!(not(any(loom, shuttle)));
/// The number of units that are looked up at once when many were freed. Other threads wait for the lock for a few
/// microseconds.
const FORGOTTEN_AT_ONCE: usize = 256;

/// The part of the pool that faults change.
#[derive(Debug)]
pub(crate) struct Misses {
    frames: Frames,
    slots: Arc<Slots>,
    ledger: Arc<Ledger>,
    page_bytes: usize,
    huge: HugePages,
    state: Mutex<State>,
    loaded: Condvar,
}

/// A function that returns a frame for a page that is offered, if one is available at the price that it accepts.
pub(crate) type FrameFor = fn(&Misses, &mut State, MemoryPages) -> Option<Vacant>;

#[derive(Debug)]
pub(crate) struct State {
    limbo: Limbo,
    policy: Policy,
    growth: Growth,
    /// The pages that threads read at this moment: at most one for each such thread.
    loading: Vec<PagePtr>,
    waiters: usize,
    /// The vacant frames that were freed by evictions for later faults, because evictions come in batches.
    left_for_misses: usize,
    /// The number of times that the budget refused to let the pool grow, which decides when to ask other databases.
    refusals: u64,
    wants_others: bool,
    counts: Counts,
}

/// Counters under the lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) faults: u64,
    pub(crate) waits: u64,
    pub(crate) admitted: u64,
    pub(crate) evictions: u64,
    pub(crate) frames: usize,
    pub(crate) pages: usize,
    pub(crate) given_chunks: u64,
}

/// The result of steps 1 and 2.
pub(crate) enum Begun<'a> {
    Linked(Pin),
    Load(Load<'a>),
}

/// The right to load one page, and the frame for it.
pub(crate) struct Load<'a> {
    misses: &'a Misses,
    ptr: PagePtr,
    vacant: Option<Vacant>,
}

impl Misses {
    pub(crate) fn new(frames: Frames, slots: Arc<Slots>, ledger: Arc<Ledger>, page_bytes: usize) -> Self {
        let state = State {
            limbo: Limbo::default(),
            policy: Policy::new(),
            growth: Growth::new(usize::MAX),
            loading: Vec::new(),
            waiters: 0,
            left_for_misses: 0,
            refusals: 0,
            wants_others: false,
            counts: Counts::default(),
        };
        let (huge, state) = (HugePages::default(), Mutex::new(state));
        Misses { frames, slots, ledger, page_bytes, huge, state, loaded: Condvar::new() }
    }

    /// Sets the share beyond which the pool grows only if that is worth it.
    pub(crate) fn keep_to(&self, share_bytes: usize) {
        lock(&self.state).growth = Growth::new(share_bytes);
    }

    #[inline]
    pub(crate) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Returns the slots whose epochs an eviction waits for.
    #[inline]
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = lock(&self.state);
        let frames = state.limbo.chunks() * self.frames.chunk_frames();
        Counts { pages: state.policy.len(), frames, ..state.counts }
    }

    /// Pins a needed page if it is in memory, or else takes a frame to load it into (steps 1 and 2). Waits for other
    /// loaders and for other calls to leave their epochs, so the caller must be in no epoch.
    pub(crate) fn begin(&self, ptr: PagePtr) -> Result<Begun<'_>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(pin) = self.frames.pin(ptr) {
                return Ok(Begun::Linked(pin));
            }
            if !state.loading.contains(&ptr) {
                break;
            }
            state.waiters += 1;
            state.counts.waits += 1;
            state = wait(&self.loaded, state);
            state.waiters -= 1;
        }
        state.counts.faults += 1;
        state.loading.push(ptr);
        drop(state);
        let mut load = Load { misses: self, ptr, vacant: None };
        load.vacant = Some(self.frame()?);
        Ok(Begun::Load(load))
    }

    /// Takes a frame for a page that is offered (steps 1 and 2). Returns `None` if the page is already in memory, or if
    /// no frame is available at once.
    pub(crate) fn begin_admission(&self, ptr: PagePtr, frame: FrameFor) -> Option<Load<'_>> {
        let pages = self.huge.pages(background::is_throttled);
        let mut state = lock(&self.state);
        if self.frames.pin(ptr).is_some() || state.loading.contains(&ptr) {
            return None;
        }
        let vacant = frame(self, &mut state, pages)?;
        state.loading.push(ptr);
        state.counts.admitted += 1;
        Some(Load { misses: self, ptr, vacant: Some(vacant) })
    }

    /// Unlinks the page at `unit`.
    pub(crate) fn forget(&self, unit: u64) {
        self.unlink_unit(&mut lock(&self.state), unit);
    }

    fn unlink_unit(&self, state: &mut State, unit: u64) {
        if let Some(number) = self.frames.unlink_unit(unit, &mut state.limbo) {
            state.policy.remove(number);
        }
    }

    /// Unlinks the pages in `freed`: ranges of units, in order.
    pub(crate) fn forget_all(&self, freed: &[Range<u64>]) {
        let chunks = lock(&self.state).limbo.places();
        let units: u64 = freed.iter().map(|range| range.end - range.start).sum();
        if units <= (chunks * self.frames.chunk_frames()) as u64 {
            self.forget_units(freed);
        } else {
            self.forget_frames(chunks, freed);
        }
    }

    /// Unlinks by looking up each unit.
    fn forget_units(&self, freed: &[Range<u64>]) {
        for range in freed {
            for from in range.clone().step_by(FORGOTTEN_AT_ONCE) {
                let mut state = lock(&self.state);
                let end = range.end.min(from + FORGOTTEN_AT_ONCE as u64);
                (from..end).for_each(|unit| self.unlink_unit(&mut state, unit));
                drop(state);
                background::pause();
            }
        }
    }

    /// Unlinks by looking up the unit of each frame.
    fn forget_frames(&self, chunks: usize, freed: &[Range<u64>]) {
        let is_freed = |unit: u64| {
            let ends_behind = freed.partition_point(|range| range.end <= unit);
            freed.get(ends_behind).is_some_and(|range| range.start <= unit)
        };
        for chunk in 0..chunks {
            let mut state = lock(&self.state);
            for number in self.numbers(chunk) {
                if state.policy.is_queued(number) && is_freed(self.frames.unit_of(number)) {
                    state.policy.remove(number);
                    self.frames.unlink(number, &mut state.limbo);
                }
            }
            drop(state);
            background::pause();
        }
    }

    /// Returns a frame, if necessary after waiting or from the overdraft.
    fn frame(&self) -> Result<Vacant> {
        for attempt in 0..YIELDS + SLEEPS {
            let mut state = lock(&self.state);
            if std::mem::take(&mut state.wants_others) {
                drop(state);
                self.ledger.account().ask_others(self.page_bytes * self.frames.chunk_frames());
                state = lock(&self.state);
            }
            if let Some(vacant) = self.try_frame(&mut state, MemoryPages::Huge) {
                return Ok(vacant);
            }
            let waiting = state.limbo.is_waiting();
            drop(state);
            if (!waiting || attempt >= YIELDS)
                && let Some(vacant) = Vacant::overdrawn(&self.ledger, self.page_bytes)
            {
                return Ok(vacant);
            }
            let others_have_it = WAITS_FOR_OVERDRAFT && self.ledger.overdrawn_bytes() > 0;
            if !waiting && !others_have_it {
                break;
            }
            pause(attempt);
        }
        let counts = self.counts();
        Err(exhausted(counts.frames, counts.pages))
    }

    /// Returns a frame, if one is available without waiting.
    pub(crate) fn try_frame(&self, state: &mut State, pages: MemoryPages) -> Option<Vacant> {
        if !self.has_vacant(state, 0, pages) {
            self.note_refusal(state);
            self.evict(state);
            state.limbo.reclaim(&self.frames, &self.slots);
        }
        state.left_for_misses = state.left_for_misses.saturating_sub(1);
        state.limbo.take()
    }

    /// Returns a frame for which no page had to be evicted, and which leaves enough for faults.
    pub(crate) fn spare_frame(&self, state: &mut State, pages: MemoryPages) -> Option<Vacant> {
        if self.has_vacant(state, state.left_for_misses, pages) { state.limbo.take() } else { None }
    }

    /// Returns whether more than `some` frames are vacant without an eviction. Takes a new chunk of `pages` if
    /// necessary.
    fn has_vacant(&self, state: &mut State, some: usize, pages: MemoryPages) -> bool {
        if state.limbo.vacant() > some {
            return true;
        }
        state.limbo.reclaim(&self.frames, &self.slots);
        state.limbo.vacant() > some || self.grow(state, pages)
    }

    /// Takes another chunk, if one is available and worth it.
    fn grow(&self, state: &mut State, pages: MemoryPages) -> bool {
        if !state.growth.allows(self.ledger.used_bytes(), self.frames.chunk_frames()) {
            return false;
        }
        let Some(frames) = self.frames.grow(&mut state.limbo, pages, policy::FRAME_BYTES) else {
            return false;
        };
        if pages == MemoryPages::Small {
            self.huge.took_small();
        }
        state.policy.cover(frames);
        state.growth.grown(self.ledger.used_bytes());
        true
    }

    fn evict(&self, state: &mut State) {
        let frames = state.limbo.chunks() * self.frames.chunk_frames();
        state.left_for_misses = 0;
        for _ in 0..(frames / 8).clamp(1, EVICTION_BATCH) {
            let look = |number| if self.frames.take_touched(number) { Fate::Stays } else { Fate::Goes };
            let Some(number) = state.policy.evict(look) else { return };
            self.frames.unlink(number, &mut state.limbo);
            state.counts.evictions += 1;
            state.left_for_misses += 1;
        }
    }

    /// Counts a refusal of the budget. At regular counts, asks the other databases that share it for unused memory.
    fn note_refusal(&self, state: &mut State) {
        if self.ledger.take_refusal() {
            state.refusals += 1;
            state.wants_others |= state.refusals % REFUSALS_A_WISH == 1;
        }
    }

    /// Returns the numbers of a chunk's frames.
    fn numbers(&self, chunk: usize) -> Range<u32> {
        let chunk_frames = self.frames.chunk_frames();
        (chunk * chunk_frames) as u32..((chunk + 1) * chunk_frames) as u32
    }

    fn done(&self, state: &mut MutexGuard<'_, State>, ptr: PagePtr) {
        state.loading.retain(|loading| *loading != ptr);
        if state.waiters > 0 {
            self.loaded.notify_all();
        }
    }
}

/// Lets other threads run: at first for an instant, later for longer.
fn pause(attempt: usize) {
    spin();
    if cfg!(not(any(loom, shuttle))) {
        if attempt < YIELDS { std::thread::yield_now() } else { std::thread::sleep(SLEEP) }
    }
}

impl Load<'_> {
    /// Returns the frame's bytes, which have arbitrary contents.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let vacant = self.vacant.as_mut().expect("a load has its frame until it is finished");
        if let Some(worked) = vacant.touch_huge() {
            self.misses.huge.note(worked);
        }
        vacant.bytes()
    }

    /// Links the loaded page in its frame, and wakes the waiters (step 4). The bytes must be those that `ptr` names.
    pub(crate) fn finish(mut self) -> Pin {
        let vacant = self.vacant.take().expect("a load has its frame until it is finished");
        let mut state = lock(&self.misses.state);
        let inner = &mut *state;
        if !vacant.is_overdrawn() {
            self.misses.unlink_unit(inner, self.ptr.unit());
        }
        let (pin, number) = self.misses.frames.link(vacant, self.ptr, &mut inner.limbo);
        if let Some(number) = number
            && inner.policy.insert(number, self.ptr.checksum() ^ self.ptr.unit())
        {
            inner.growth.page_returned();
        }
        pin
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.misses.state);
        if let Some(vacant) = self.vacant.take() {
            state.limbo.give_back(vacant);
        }
        self.misses.done(&mut state, self.ptr);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use base::budget::Account;
    use std::rc::Rc;

    const LIMIT_BYTES: usize = 256 << 20;
    const PAGE_BYTES: usize = 64 << 10;

    fn misses() -> Misses {
        let ledger = Arc::new(Ledger::new(Account::alone(LIMIT_BYTES), LIMIT_BYTES, PAGE_BYTES));
        let frames = Frames::new(PAGE_BYTES, LIMIT_BYTES, Arc::clone(&ledger));
        Misses::new(frames, Arc::new(Slots::new()), ledger, PAGE_BYTES)
    }

    /// Returns the frames of the next chunk, none of which was touched.
    fn next_chunk<'a>(misses: &'a Misses, units: &mut impl Iterator<Item = u64>) -> Vec<Load<'a>> {
        let ptrs = units.map(|unit| PagePtr::new(unit, 16, 0)).take(misses.frames.chunk_frames());
        let admitted = ptrs.map(|ptr| misses.begin_admission(ptr, Misses::try_frame));
        admitted.collect::<Option<_>>().expect("the limit is not reached")
    }

    #[test]
    fn after_a_slow_huge_page_a_throttled_thread_grows_by_small_ones() {
        let (misses, mut units, mut held) = (misses(), (1..).step_by(16), Vec::new());
        let mut next_is_huge = || {
            let mut chunk = next_chunk(&misses, &mut units);
            let worked = chunk[0].vacant.as_mut().expect("it is not finished").touch_huge();
            held.push(chunk);
            worked.is_some()
        };
        assert!(!next_is_huge(), "the first one may stay nearly empty");
        assert!(background::throttled(Rc::new(|| ()), &mut next_is_huge), "nothing was slow");
        misses.huge.note(Duration::from_secs(1));
        assert!(next_is_huge(), "in a hurry");
        let before = misses.huge.small_left();
        assert!(!background::throttled(Rc::new(|| ()), &mut next_is_huge));
        assert_eq!(misses.huge.small_left(), before - 1);
    }

    #[test]
    fn the_first_touch_of_a_huge_page_is_timed() {
        let (misses, mut units) = (misses(), (1..).step_by(16));
        let _small = next_chunk(&misses, &mut units);
        misses.huge.note(Duration::from_secs(1));
        misses.huge.took_small();
        let before = misses.huge.small_left();
        let mut huge = next_chunk(&misses, &mut units);
        huge[1].bytes();
        assert_eq!(misses.huge.small_left(), before, "only the first frame's");
        huge[0].bytes();
        assert_ne!(misses.huge.small_left(), before, "fast or slow, it counts");
    }
}
