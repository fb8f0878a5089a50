//! A miss: finding a frame, and reading the page into it.
//!
//! 1. Under the lock: if the page is linked by now, pin it. If another thread is loading it, wait and look again.
//! 2. Note that this thread loads it, and take a frame: vacant, or past its epoch, or of a new chunk, or evicted.
//! 3. Without the lock: read and verify. Whatever goes wrong, dropping [`Load`] gives the frame back and wakes the
//!    waiters, each of which then tries for itself: a failure is not cached.
//! 4. Under the lock: unlink what else lay at that unit, link, queue, wake the waiters.

use crate::frames::{Frames, Limbo, Pin, Vacant};
use crate::ledger::Ledger;
use crate::policy::{self, Fate, Policy};
use base::slots::Slots;
use base::sync::{Condvar, Mutex, MutexGuard, lock, spin};
use base::{Error, ErrorKind, PagePtr, Result};
use std::sync::Arc;
use std::time::Duration;

/// So many frames are unlinked for one scan of the reader slots; fewer in a small pool.
const EVICTION_BATCH: usize = 32;
/// How often a fault that finds all frames under the eyes of other calls yields before it asks for an overdraft, and
/// then sleeps before it gives up: about a second, while such a call lasts microseconds.
const YIELDS: usize = 128;
const SLEEPS: usize = 5_000;
const SLEEP: Duration = Duration::from_micros(200);

/// The part of the pool that misses change.
#[derive(Debug)]
pub(crate) struct Misses {
    frames: Frames,
    slots: Arc<Slots>,
    ledger: Arc<Ledger>,
    page_bytes: usize,
    state: Mutex<State>,
    loaded: Condvar,
}

#[derive(Debug)]
struct State {
    limbo: Limbo,
    policy: Policy,
    /// Pages that some thread reads just now: as many as there are such threads, at most.
    loading: Vec<PagePtr>,
    waiters: usize,
    counts: Counts,
}

/// What is counted under the lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) faults: u64,
    pub(crate) waits: u64,
    pub(crate) admitted: u64,
    pub(crate) evictions: u64,
    pub(crate) frames: usize,
    pub(crate) pages: usize,
}

/// The outcome of steps 1 and 2.
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
            loading: Vec::new(),
            waiters: 0,
            counts: Counts::default(),
        };
        Misses { frames, slots, ledger, page_bytes, state: Mutex::new(state), loaded: Condvar::new() }
    }

    #[inline]
    pub(crate) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// The slots whose epochs an eviction waits for.
    #[inline]
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = lock(&self.state);
        Counts { pages: state.policy.len(), ..state.counts }
    }

    /// Steps 1 and 2 for a page that is wanted. Waits for other loaders and for other calls to leave their epochs,
    /// so the caller must be in no epoch.
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
            state = self.loaded.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            state.waiters -= 1;
        }
        state.counts.faults += 1;
        state.loading.push(ptr);
        drop(state);
        let mut load = Load { misses: self, ptr, vacant: None };
        load.vacant = Some(self.frame()?);
        Ok(Begun::Load(load))
    }

    /// Steps 1 and 2 for a page that is offered: `None` if it is here already, or no frame is to be had at once.
    pub(crate) fn begin_admission(&self, ptr: PagePtr) -> Option<Load<'_>> {
        let mut state = lock(&self.state);
        if self.frames.pin(ptr).is_some() || state.loading.contains(&ptr) {
            return None;
        }
        let vacant = self.try_frame(&mut state)?;
        state.loading.push(ptr);
        state.counts.admitted += 1;
        Some(Load { misses: self, ptr, vacant: Some(vacant) })
    }

    /// Unlinks the page at `unit`.
    pub(crate) fn forget(&self, unit: u64) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if let Some(number) = self.frames.unlink_unit(unit, &mut state.limbo) {
            state.policy.remove(number);
        }
    }

    /// A frame, at the price of waiting or of the overdraft.
    fn frame(&self) -> Result<Vacant> {
        for attempt in 0..YIELDS + SLEEPS {
            let mut state = lock(&self.state);
            if let Some(vacant) = self.try_frame(&mut state) {
                return Ok(vacant);
            }
            let waiting = state.limbo.is_waiting();
            drop(state);
            if (!waiting || attempt >= YIELDS)
                && let Some(vacant) = Vacant::overdrawn(&self.ledger, self.page_bytes)
            {
                return Ok(vacant);
            }
            if !waiting {
                break;
            }
            pause(attempt);
        }
        let counts = self.counts();
        let message =
            format!("page pool: all {} frames pinned, {} of them linked", counts.frames, counts.pages);
        Err(Error::new(ErrorKind::Full, message))
    }

    /// A frame, if one is to be had without waiting.
    fn try_frame(&self, state: &mut MutexGuard<'_, State>) -> Option<Vacant> {
        let state = &mut **state;
        if let Some(vacant) = state.limbo.take() {
            return Some(vacant);
        }
        state.limbo.reclaim(&self.frames, &self.slots);
        if let Some(vacant) = state.limbo.take() {
            return Some(vacant);
        }
        match self.frames.grow(&mut state.limbo, policy::FRAME_BYTES) {
            Some(frames) => {
                state.counts.frames = frames;
                state.policy.cover(frames);
            }
            None => {
                self.evict(state);
                state.limbo.reclaim(&self.frames, &self.slots);
            }
        }
        state.limbo.take()
    }

    fn evict(&self, state: &mut State) {
        for _ in 0..(state.counts.frames / 8).clamp(1, EVICTION_BATCH) {
            let look = |number| if self.frames.take_touched(number) { Fate::Stays } else { Fate::Goes };
            let Some(number) = state.policy.evict(look) else { return };
            self.frames.unlink(number, &mut state.limbo);
            state.counts.evictions += 1;
        }
    }

    fn done(&self, state: &mut MutexGuard<'_, State>, ptr: PagePtr) {
        state.loading.retain(|loading| *loading != ptr);
        if state.waiters > 0 {
            self.loaded.notify_all();
        }
    }
}

/// Lets others run: at first for an instant, later for longer.
fn pause(attempt: usize) {
    spin();
    if cfg!(not(any(loom, shuttle))) {
        if attempt < YIELDS { std::thread::yield_now() } else { std::thread::sleep(SLEEP) }
    }
}

impl Load<'_> {
    /// The frame's bytes, whatever they were.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.vacant.as_mut().expect("a load has its frame until it is finished").bytes()
    }

    /// Step 4. The bytes must be those that `ptr` names.
    pub(crate) fn finish(mut self) -> Pin {
        let vacant = self.vacant.take().expect("a load has its frame until it is finished");
        let mut state = lock(&self.misses.state);
        let inner = &mut *state;
        if !vacant.is_overdrawn()
            && let Some(stale) = self.misses.frames.unlink_unit(self.ptr.unit(), &mut inner.limbo)
        {
            inner.policy.remove(stale);
        }
        let (pin, number) = self.misses.frames.link(vacant, self.ptr);
        if let Some(number) = number {
            inner.policy.insert(number, self.ptr.checksum() ^ self.ptr.unit());
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
