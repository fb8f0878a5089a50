//! Frames: the memory of pages, and when it may be written again.
//!
//! A frame is in one of four states, and only a [`Vacant`] token gives `&mut` to its bytes:
//!
//! ```text
//!   vacant ──link──► linked ──unlink──► limbo ──past all epochs──► pinned ──no pins──► vacant
//! ```
//! The following argument shows that a reader never sees a frame change. Every `SAFETY` below depends on it:
//!
//! 1. Bytes, unit and checksum are written through a `Vacant`, before the link; `link` stores the table's word, which a
//!    reader loads: so a reader that finds the frame sees them whole.
//! 2. A reader looks into the table only inside an epoch that it announced before. The announcement, that look, the
//!    unlinking store, and the evictor's scan of announcements are all `SeqCst`: either the scan sees the
//!    announcement, whose epoch is not past the unlinking, and the frame stays in limbo; or the look comes after
//!    the unlinking and does not find the frame.
//! 3. A pin is counted by a reader inside the epoch in which it found the frame, by a thread that finds it under the
//!    pool's lock (unlinking takes that lock, too), or by cloning a pin. Once the frame is past all epochs the first
//!    two can no longer happen. So a count of 0 that is read *after* that stays 0, and the frame is vacant.
//! 4. Counting down is `Release` and the evictor's load `SeqCst`: all reads through a pin come before the frame is
//!    written again.
//! 5. Memory is freed when the last `Arc<Chunk>` is dropped: the pool's or that of a pin.
//! 6. A chunk is freed ([`Limbo::leave`]) once each of its frames is vacant, or was unlinked and is past all epochs. A
//!    reader looks up the place of a chunk only for a number that it found in the table, inside its epoch: by (2) no
//!    reader does so any longer for this chunk. A pin has a reference of its own and needs no place.

use crate::chunk::{Chunk, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, Meta, Place};
use crate::hints::{Blocks, FreeBlocks, Hint, Hints};
use crate::huge::MemoryPages;
use crate::ledger::Ledger;
use crate::table::{MAX_FRAMES, Table};
use base::PagePtr;
use base::slots::{EpochGuard, Slots};
use base::sync::atomic::Ordering;
use page::Page;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The number of chunks in the limit at least, so that growing in chunks wastes little of it.
const CHUNKS_IN_LIMIT: usize = 32;

/// A frame that no other thread can reach: the right to write it. Not `Clone`.
#[derive(Debug)]
pub(crate) struct Vacant {
    chunk: Arc<Chunk>,
    index: usize,
    /// The frame's number in the pool; `None` for a frame of the overdraft, which is never linked.
    number: Option<u32>,
    /// Whether the first touch makes the kernel clear a huge page.
    clears_huge: bool,
}

impl Vacant {
    /// Returns a frame with memory of its own, freed with the last pin on it.
    pub(crate) fn overdrawn(ledger: &Arc<Ledger>, page_bytes: usize) -> Option<Vacant> {
        let charge = ledger.overdraw(page_bytes)?;
        let chunk = Chunk::new(1, page_bytes, MemoryPages::Small, charge)?;
        Some(Vacant { chunk, index: 0, number: None, clears_huge: false })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let (frame, len) = (self.chunk.frame(self.index), self.chunk.page_bytes);
        // SAFETY: a vacant frame is neither linked nor pinned nor in reach of an epoch, and there is one token for
        // it, borrowed mutably here. Memory is zero before it is written.
        unsafe { std::slice::from_raw_parts_mut(frame.as_ptr(), len) }
    }

    /// Touches the frame if that clears a huge page, and returns how long that took.
    pub(crate) fn touch_huge(&mut self) -> Option<Duration> {
        std::mem::take(&mut self.clears_huge).then(|| {
            let worked = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
            let before = worked();
            self.bytes()[0] = 0;
            worked().saturating_sub(before)
        })
    }

    pub(crate) fn is_overdrawn(&self) -> bool {
        self.number.is_none()
    }

    /// Ends the right to write. The page may be read through the pin from now on.
    fn pin(self) -> Pin {
        self.chunk.metas[self.index].pins.store(1, Ordering::SeqCst);
        Pin { chunk: self.chunk, index: self.index }
    }
}

/// A counted reference to a page that keeps it in memory, even after the pool was dropped.
pub struct Pin {
    chunk: Arc<Chunk>,
    index: usize,
}

impl Pin {
    /// Returns the page.
    #[inline]
    pub fn page(&self) -> Page<'_> {
        Page::trusted(self.bytes())
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a frame with a pin is not written, and `self` is one.
        unsafe { self.chunk.bytes(self.index) }
    }

    /// Returns the chunk and the frame of the page.
    #[inline]
    pub(crate) fn frame(&self) -> (&Chunk, usize) {
        (&self.chunk, self.index)
    }

    /// Returns whether the page is in the overdraft: keep the pin for a moment only.
    #[inline]
    pub fn is_overdrawn(&self) -> bool {
        self.chunk.is_overdrawn()
    }

    fn new(chunk: &Chunk, index: usize) -> Pin {
        chunk.metas[index].pins.fetch_add(1, Ordering::SeqCst);
        Pin { chunk: chunk.another(), index }
    }
}

impl Clone for Pin {
    fn clone(&self) -> Self {
        Pin::new(&self.chunk, self.index)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Release: see 4. at the file's head.
        self.chunk.metas[self.index].pins.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin on unit {}", self.chunk.metas[self.index].unit.load(Ordering::SeqCst))
    }
}

/// A linked page, used inside the epoch in which it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident<'g> {
    pub(crate) bytes: &'g [u8],
    chunk: &'g Chunk,
    index: usize,
}

impl<'g> Resident<'g> {
    /// Returns the chunk and the frame of the page.
    #[inline]
    pub(crate) fn frame(self) -> (&'g Chunk, usize) {
        (self.chunk, self.index)
    }

    pub(crate) fn pin(self) -> Pin {
        Pin::new(self.chunk, self.index)
    }
}

/// All frames of a pool and the table that finds them. Methods that change links are called under the pool's lock.
#[derive(Debug)]
pub(crate) struct Frames {
    page_bytes: usize,
    /// The number of frames in a chunk, as a power of two, and that number less one.
    chunk_shift: u32,
    chunk_mask: usize,
    max_chunks: usize,
    /// The places of chunks, allocated with the first chunk.
    chunks: OnceLock<Box<[Place]>>,
    table: Table,
    blocks: Blocks,
    ledger: Arc<Ledger>,
}

impl Frames {
    pub(crate) fn new(page_bytes: usize, limit_bytes: usize, ledger: Arc<Ledger>) -> Self {
        let share = (limit_bytes / CHUNKS_IN_LIMIT).max(1);
        let power = 1usize << share.ilog2();
        let chunk_bytes = power.clamp(MIN_CHUNK_BYTES.max(page_bytes), MAX_CHUNK_BYTES);
        let chunk_frames = chunk_bytes / page_bytes;
        let max_chunks = (limit_bytes / chunk_bytes).min(MAX_FRAMES / chunk_frames);
        let (chunk_shift, chunk_mask) = (chunk_frames.trailing_zeros(), chunk_frames - 1);
        Frames {
            page_bytes,
            chunk_shift,
            chunk_mask,
            max_chunks,
            chunks: OnceLock::new(),
            table: Table::new(),
            blocks: Blocks::new(page_bytes),
            ledger,
        }
    }

    #[inline]
    fn locate(&self, number: u32) -> (&Chunk, usize) {
        let number = number as usize;
        let chunk = self.chunks.get().and_then(|chunks| chunks[number >> self.chunk_shift].get());
        (chunk.expect("a numbered frame has memory"), number & self.chunk_mask)
    }

    /// Returns the frame that holds what `ptr` names, if it is linked at this moment.
    #[inline]
    fn find(&self, ptr: PagePtr, hint: Hint<'_>) -> Option<(&Chunk, usize)> {
        let (number, chunk, index, meta) = self.table.find(ptr.unit(), |number| {
            let (chunk, index) = self.locate(number);
            chunk.fetch_front(index);
            let meta = &chunk.metas[index];
            // Relaxed, and below: written before the link that was just found.
            (meta.unit.load(Ordering::Relaxed) == ptr.unit()).then_some((number, chunk, index, meta))
        })?;
        if meta.checksum.load(Ordering::Relaxed) != ptr.checksum() {
            return None;
        }
        // Relaxed: a hint for the evictor. Looked at first, as most pages are visited already and a store would
        // take the line away from other readers.
        if !meta.visited.load(Ordering::Relaxed) {
            meta.visited.store(true, Ordering::Relaxed);
        }
        hint.note(number);
        Some((chunk, index))
    }

    /// Returns the hints for the children of the page in frame `index` of `chunk`.
    #[inline]
    pub(crate) fn hints(&self, chunk: &Chunk, index: usize) -> Hints<'_> {
        // Relaxed: the hints of another page would do no harm.
        Hints::new(self.blocks.words(chunk.metas[index].hints.load(Ordering::Relaxed)), self)
    }

    /// Prefetches the front of the page in frame `number`, if there is such a frame.
    #[inline]
    pub(crate) fn fetch_front(&self, number: u32) {
        let number = number as usize;
        if let Some(place) = self.chunks.get().and_then(|chunks| chunks.get(number >> self.chunk_shift)) {
            place.fetch_front((number & self.chunk_mask) * self.page_bytes);
        }
    }

    /// Returns the page, for as long as the epoch lasts, or the guard. The caller has made sure that the guard is of
    /// the slots that [`Limbo::reclaim`] scans.
    #[inline]
    pub(crate) fn read<'g, 'e>(
        &'g self,
        guard: &'g mut EpochGuard<'e>,
        ptr: PagePtr,
        hint: Hint<'_>,
    ) -> Result<Resident<'g>, &'g mut EpochGuard<'e>> {
        match self.find(ptr, hint) {
            // SAFETY: found in the table inside the epoch of `guard`, which cannot be left while it is borrowed
            // for 'g.
            Some((chunk, index)) => Ok(Resident { bytes: unsafe { chunk.bytes(index) }, chunk, index }),
            None => Err(guard),
        }
    }

    /// Returns a pin on the page, if it is linked. Called under the pool's lock.
    pub(crate) fn pin(&self, ptr: PagePtr) -> Option<Pin> {
        self.find(ptr, Hint::default()).map(|(chunk, index)| Pin::new(chunk, index))
    }

    /// Links the frame, whose bytes are written, so that readers of `ptr` find it. An overdrawn frame is not linked.
    /// Called under the pool's lock, after [`Frames::unlink_unit`] for the same unit.
    pub(crate) fn link(&self, mut vacant: Vacant, ptr: PagePtr, limbo: &mut Limbo) -> (Pin, Option<u32>) {
        let has_children = Page::trusted(vacant.bytes()).level() > 0;
        let (meta, number) = (&vacant.chunk.metas[vacant.index], vacant.number);
        meta.unit.store(ptr.unit(), Ordering::SeqCst);
        meta.checksum.store(ptr.checksum(), Ordering::SeqCst);
        meta.visited.store(false, Ordering::SeqCst);
        if has_children && number.is_some() {
            meta.hints.store(self.blocks.take(&mut limbo.blocks, &self.ledger), Ordering::SeqCst);
        }
        let pin = vacant.pin();
        if let Some(number) = number {
            self.table.insert(ptr.unit(), number);
        }
        (pin, number)
    }

    /// Moves the frame of the page at `unit`, if there is one, to limbo. Called under the pool's lock.
    pub(crate) fn unlink_unit(&self, unit: u64, limbo: &mut Limbo) -> Option<u32> {
        let number = self.table.find(unit, |number| (self.unit_of(number) == unit).then_some(number))?;
        self.unlink(number, limbo);
        Some(number)
    }

    /// Moves a linked frame to limbo. Called under the pool's lock.
    pub(crate) fn unlink(&self, number: u32, limbo: &mut Limbo) {
        self.table.remove(self.unit_of(number), number, |number| self.unit_of(number));
        let (chunk, index) = self.locate(number);
        limbo.blocks.give_back(chunk.metas[index].hints.swap(0, Ordering::SeqCst));
        limbo.fresh.push(number);
    }

    /// Returns the unit of the page in a linked frame.
    pub(crate) fn unit_of(&self, number: u32) -> u64 {
        let (chunk, index) = self.locate(number);
        chunk.metas[index].unit.load(Ordering::SeqCst)
    }

    /// Returns whether the page must stay for now, because it is pinned or was visited since the evictor's last look.
    /// Clears the visited bit.
    pub(crate) fn take_touched(&self, number: u32) -> bool {
        let (chunk, index) = self.locate(number);
        let meta = &chunk.metas[index];
        // Relaxed on both: they may change right after anyway. A wrong guess costs a fault, never a wrong page, as
        // `reclaim` reads the pins again.
        meta.visited.swap(false, Ordering::Relaxed) || meta.pins.load(Ordering::Relaxed) > 0
    }

    /// Returns whether the page was used since the evictor's last look, and whether it is pinned. Changes nothing.
    pub(crate) fn is_touched(&self, number: u32) -> (bool, bool) {
        let (chunk, index) = self.locate(number);
        let meta = &chunk.metas[index];
        // Relaxed on both, as in `take_touched`.
        (meta.visited.load(Ordering::Relaxed), meta.pins.load(Ordering::Relaxed) > 0)
    }

    /// Returns the number of frames in a chunk.
    pub(crate) fn chunk_frames(&self) -> usize {
        1 << self.chunk_shift
    }

    /// Returns the chunk of frame `number`.
    pub(crate) fn chunk_of(&self, number: u32) -> usize {
        number as usize >> self.chunk_shift
    }

    /// Allocates another chunk, if limit and budget allow it, and charges `extra_bytes` a frame for the caller. Called
    /// under the pool's lock. Returns how many frame numbers are then in use.
    pub(crate) fn grow(&self, limbo: &mut Limbo, pages: MemoryPages, extra_bytes: usize) -> Option<usize> {
        let index = limbo.holes.last().copied().unwrap_or(limbo.chunks);
        if index == self.max_chunks {
            return None;
        }
        let chunk_frames = self.chunk_frames();
        let frames = limbo.chunks.max(index + 1) * chunk_frames;
        let overhead = size_of::<Meta>() + 2 * size_of::<Vacant>() + extra_bytes;
        let directory = size_of::<Place>() * if limbo.chunks == 0 { self.max_chunks } else { 0 };
        let charge = self.ledger.charge(chunk_frames * (self.page_bytes + overhead) + directory)?;
        let wider = match self.table.growth(frames) {
            Some((level, bytes)) => Some((level, self.ledger.charge(bytes)?)),
            None => None,
        };
        // The first chunk may be all that a small database uses.
        let pages = if index > 0 { pages } else { MemoryPages::Small };
        let chunk = Chunk::new(chunk_frames, self.page_bytes, pages, charge)?;
        let is_huge = chunk.is_huge();
        if let Some((level, charge)) = wider {
            self.table.grow(level, charge, |number| self.unit_of(number));
        }
        let chunks = self.chunks.get_or_init(|| (0..self.max_chunks).map(|_| Place::empty()).collect());
        let first = index * chunk_frames;
        limbo.vacant.extend((0..chunk_frames).rev().map(|index| {
            let number = Some((first + index) as u32);
            Vacant { chunk: Arc::clone(&chunk), index, number, clears_huge: is_huge && index == 0 }
        }));
        chunks[index].set(chunk);
        if limbo.holes.pop().is_none() {
            limbo.chunks += 1;
        }
        Some(frames)
    }
}

/// The frames that hold no page, or soon will not. It is protected by the pool's lock.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    /// Frames that were unlinked since the last `reclaim`.
    fresh: Vec<u32>,
    /// Frames that were unlinked in or before the named epoch, oldest first.
    waiting: VecDeque<(u64, Vec<u32>)>,
    /// Frames past all epochs that were pinned at the last look.
    pinned: Vec<u32>,
    vacant: Vec<Vacant>,
    /// The number of places that ever had a chunk, and the places that have none now.
    chunks: usize,
    holes: Vec<usize>,
    /// Chunks that are being freed, each with the number of frames that readers may still look at.
    leaving: Vec<(usize, usize)>,
    /// Blocks of hints that no linked page has.
    blocks: FreeBlocks,
}

impl Limbo {
    pub(crate) fn take(&mut self) -> Option<Vacant> {
        self.vacant.pop()
    }

    /// Returns how many frames may be taken.
    pub(crate) fn vacant(&self) -> usize {
        self.vacant.len()
    }

    /// Returns a frame that was not linked after all.
    pub(crate) fn give_back(&mut self, vacant: Vacant) {
        if !vacant.is_overdrawn() {
            self.vacant.push(vacant);
        }
    }

    /// Returns whether frames wait only for calls to leave their epochs, which happens soon.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns how many chunks have memory, including those that are being freed.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks - self.holes.len()
    }

    /// Returns how many places for chunks were ever filled.
    pub(crate) fn places(&self) -> usize {
        self.chunks
    }

    /// Returns how many chunks are being freed.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Returns the chunks that have memory and are not being freed.
    pub(crate) fn staying(&self) -> impl Iterator<Item = usize> {
        let gone = |at: &usize| self.holes.contains(at) || self.leaving.iter().any(|(left, _)| left == at);
        (0..self.chunks).filter(move |at| !gone(at))
    }

    /// Returns the frames that hold no page and that no loader holds.
    pub(crate) fn idle(&self) -> impl Iterator<Item = u32> {
        let waiting = self.waiting.iter().flat_map(|(_, numbers)| numbers);
        let vacant = self.vacant.iter().filter_map(|vacant| vacant.number);
        self.fresh.iter().chain(waiting).chain(&self.pinned).copied().chain(vacant)
    }

    /// Begins to free chunk `index`, none of whose frames is linked or held by a loader.
    pub(crate) fn leave(&mut self, frames: &Frames, index: usize) {
        let of_chunk = |number: u32| frames.chunk_of(number) == index;
        let before = self.vacant.len() + self.pinned.len();
        self.vacant.retain(|vacant| !vacant.number.is_some_and(of_chunk));
        self.pinned.retain(|&number| !of_chunk(number));
        let past_epochs = before - self.vacant.len() - self.pinned.len();
        self.leaving.push((index, frames.chunk_frames() - past_epochs));
        self.let_go(frames);
    }

    /// Frees the chunks whose last frame is past all epochs.
    fn let_go(&mut self, frames: &Frames) {
        for (index, _) in self.leaving.extract_if(.., |(_, left)| *left == 0) {
            frames.chunks.get().expect("a chunk has a place")[index].clear();
            self.holes.push(index);
        }
    }

    /// Makes frames vacant that are past all epochs and have no pins. Scans the slots if frames wait for them.
    pub(crate) fn reclaim(&mut self, frames: &Frames, slots: &Slots) {
        if !self.fresh.is_empty() {
            self.waiting.push_back((slots.advance_epoch(), std::mem::take(&mut self.fresh)));
        }
        if !self.waiting.is_empty() {
            let oldest = slots.oldest_epoch();
            while let Some((_, past)) = self.waiting.pop_front_if(|(epoch, _)| *epoch < oldest) {
                for number in past {
                    let chunk = frames.chunk_of(number);
                    match self.leaving.iter_mut().find(|(index, _)| *index == chunk) {
                        Some((_, left)) => *left -= 1,
                        None => self.pinned.push(number),
                    }
                }
            }
            self.let_go(frames);
        }
        for at in (0..self.pinned.len()).rev() {
            let (chunk, index) = frames.locate(self.pinned[at]);
            if chunk.metas[index].pins.load(Ordering::SeqCst) == 0 {
                let (number, chunk) = (Some(self.pinned.swap_remove(at)), chunk.another());
                self.vacant.push(Vacant { chunk, index, number, clears_huge: false });
            }
        }
    }
}
