//! Frames: the memory of pages, and when it may be written again.
//!
//! A frame is in one of four states, and only a [`Vacant`] token gives `&mut` to its bytes:
//!
//! ```text
//!   vacant ──link──► linked ──unlink──► limbo ──past all epochs──► aside ──no pins──► vacant
//! ```
//! The argument that a reader never sees a frame change, which every `SAFETY` below leans on:
//!
//! 1. Bytes, unit and checksum are written through a `Vacant`, before the link; `link` stores the table's word, which a
//!    reader loads: so a reader that finds the frame sees them whole.
//! 2. A reader looks into the table only inside an epoch that it announced before. The announcement, that look, the
//!    unlinking store, and the evictor's scan of announcements are all `SeqCst`: either the scan sees the
//!    announcement, whose epoch is not past the unlinking, and the frame stays in limbo; or the look comes after
//!    the unlinking and does not find the frame.
//! 3. A pin is counted by a reader inside the epoch in which it found the frame, by a thread that finds it under the
//!    pool's lock (unlinking takes that lock too), or by cloning a pin. Once the frame is past all epochs the first two
//!    cannot happen any more; so a count of 0 that is read *after* that stays 0, and the frame is vacant.
//! 4. Counting down is `Release` and the evictor's load `SeqCst`: all reads through a pin come before the frame is
//!    written again.
//! 5. Memory is freed when the last `Arc<Chunk>` goes: the pool's or that of a pin.
//! 6. A chunk is given back ([`Limbo::leave`]) once each of its frames is vacant, or was unlinked and is past all
//!    epochs. A reader looks up the place of a chunk only for a number that it found in the table, inside its epoch:
//!    by (2) nobody does so any more for this one. A pin has a reference of its own and needs no place.

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

/// At most this part of the limit is one chunk: what is lost by growing in chunks.
const CHUNKS_IN_LIMIT: usize = 32;

/// A frame that nobody else can reach: the right to write it. Not `Clone`.
#[derive(Debug)]
pub(crate) struct Vacant {
    chunk: Arc<Chunk>,
    index: usize,
    /// Its number in the pool; `None` for one of the overdraft, which is never linked.
    number: Option<u32>,
    /// Whether the first touch has the kernel clear a huge page.
    clears_huge: bool,
}

impl Vacant {
    /// A frame of its own, freed with the last pin on it.
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

    /// Touches the frame if that clears a huge page, and answers for how long that kept the processor.
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

    /// Ends the right to write: the page may be read through the pin from now on.
    fn pin(self) -> Pin {
        self.chunk.metas[self.index].pins.store(1, Ordering::SeqCst);
        Pin { chunk: self.chunk, index: self.index }
    }
}

/// A page that stays where it is, counted. Holds the memory it lies in, also after the pool has gone.
pub struct Pin {
    chunk: Arc<Chunk>,
    index: usize,
}

impl Pin {
    /// The page.
    #[inline]
    pub fn page(&self) -> Page<'_> {
        Page::trusted(self.bytes())
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a frame with a pin is not written, and `self` is one.
        unsafe { self.chunk.bytes(self.index) }
    }

    /// Where its page is.
    #[inline]
    pub(crate) fn frame(&self) -> (&Chunk, usize) {
        (&self.chunk, self.index)
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

/// A linked page, inside the epoch in which it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident<'g> {
    pub(crate) bytes: &'g [u8],
    chunk: &'g Chunk,
    index: usize,
}

impl<'g> Resident<'g> {
    /// Where its page is.
    #[inline]
    pub(crate) fn frame(self) -> (&'g Chunk, usize) {
        (self.chunk, self.index)
    }

    pub(crate) fn pin(self) -> Pin {
        Pin::new(self.chunk, self.index)
    }
}

/// All frames of a pool and the table that finds them. What changes links is called under the pool's lock.
#[derive(Debug)]
pub(crate) struct Frames {
    page_bytes: usize,
    /// Frames in a chunk, as a power of two, and one less than they are.
    chunk_shift: u32,
    chunk_mask: usize,
    max_chunks: usize,
    /// Allocated with the first chunk.
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

    /// The frame that holds what `ptr` names, if it is linked just now.
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

    /// The hints for the children of the page in frame `index` of `chunk`.
    #[inline]
    pub(crate) fn hints(&self, chunk: &Chunk, index: usize) -> Hints<'_> {
        // Relaxed: the hints of another page would do no harm.
        Hints::new(self.blocks.words(chunk.metas[index].hints.load(Ordering::Relaxed)), self)
    }

    /// Has the processor fetch the front of the page in frame `number`, if there is such a frame.
    #[inline]
    pub(crate) fn fetch_front(&self, number: u32) {
        let number = number as usize;
        if let Some(place) = self.chunks.get().and_then(|chunks| chunks.get(number >> self.chunk_shift)) {
            place.fetch_front((number & self.chunk_mask) * self.page_bytes);
        }
    }

    /// The page, as long as the epoch lasts; or the guard back. The caller has made sure that the guard is of the
    /// slots that [`Limbo::reclaim`] scans.
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

    /// A pin on the page, if it is linked. Called under the pool's lock.
    pub(crate) fn pin(&self, ptr: PagePtr) -> Option<Pin> {
        self.find(ptr, Hint::default()).map(|(chunk, index)| Pin::new(chunk, index))
    }

    /// Makes the frame, whose bytes are written, the one that readers of `ptr` find. An overdrawn frame is not
    /// linked. Called under the pool's lock, after [`Frames::unlink_unit`] for the same unit.
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

    /// Sends the frame of whatever page lies at `unit` to limbo. Called under the pool's lock.
    pub(crate) fn unlink_unit(&self, unit: u64, limbo: &mut Limbo) -> Option<u32> {
        let number = self.table.find(unit, |number| (self.unit_of(number) == unit).then_some(number))?;
        self.unlink(number, limbo);
        Some(number)
    }

    /// Sends a linked frame to limbo. Called under the pool's lock.
    pub(crate) fn unlink(&self, number: u32, limbo: &mut Limbo) {
        self.table.remove(self.unit_of(number), number, |number| self.unit_of(number));
        let (chunk, index) = self.locate(number);
        limbo.blocks.give_back(chunk.metas[index].hints.swap(0, Ordering::SeqCst));
        limbo.fresh.push(number);
    }

    /// Where the page lies that is in a linked frame.
    pub(crate) fn unit_of(&self, number: u32) -> u64 {
        let (chunk, index) = self.locate(number);
        chunk.metas[index].unit.load(Ordering::SeqCst)
    }

    /// For the evictor: whether the page must stay for now, being pinned, or visited since the last look.
    pub(crate) fn take_touched(&self, number: u32) -> bool {
        let (chunk, index) = self.locate(number);
        let meta = &chunk.metas[index];
        // Relaxed on both: they may change right after anyway. A wrong guess costs a fault, never a wrong page, as
        // `reclaim` reads the pins again.
        meta.visited.swap(false, Ordering::Relaxed) || meta.pins.load(Ordering::Relaxed) > 0
    }

    /// Whether the page was used since the evictor last looked, and whether somebody holds it. Changes nothing.
    pub(crate) fn is_touched(&self, number: u32) -> (bool, bool) {
        let (chunk, index) = self.locate(number);
        let meta = &chunk.metas[index];
        // Relaxed on both, as in `take_touched`.
        (meta.visited.load(Ordering::Relaxed), meta.pins.load(Ordering::Relaxed) > 0)
    }

    /// Frames of a chunk.
    pub(crate) fn chunk_frames(&self) -> usize {
        1 << self.chunk_shift
    }

    /// The chunk that frame `number` is of.
    pub(crate) fn chunk_of(&self, number: u32) -> usize {
        number as usize >> self.chunk_shift
    }

    /// Allocates another chunk, if limit and budget allow. `extra_bytes` a frame are charged for the caller. Called
    /// under the pool's lock. Returns how many numbers of frames are in use then.
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
        // The first one may be all that a small database uses.
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

/// Frames that hold no page, or not for long. Lives under the pool's lock.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    /// Unlinked since the last `reclaim`.
    fresh: Vec<u32>,
    /// Unlinked in or before the epoch that is named; the oldest first.
    waiting: VecDeque<(u64, Vec<u32>)>,
    /// Past all epochs, but pinned when last looked at.
    aside: Vec<u32>,
    vacant: Vec<Vacant>,
    /// Places that ever had a chunk, and those of them that have none now.
    chunks: usize,
    holes: Vec<usize>,
    /// Chunks that are being given back, each with the frames that readers may still look at.
    leaving: Vec<(usize, usize)>,
    /// Blocks of hints that no linked page has.
    blocks: FreeBlocks,
}

impl Limbo {
    pub(crate) fn take(&mut self) -> Option<Vacant> {
        self.vacant.pop()
    }

    /// How many frames may be taken.
    pub(crate) fn vacant(&self) -> usize {
        self.vacant.len()
    }

    /// Takes back a frame that was not linked after all.
    pub(crate) fn give_back(&mut self, vacant: Vacant) {
        if !vacant.is_overdrawn() {
            self.vacant.push(vacant);
        }
    }

    /// Whether frames wait only for calls to leave their epochs, which they do soon.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How many chunks have memory, those that are leaving included.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks - self.holes.len()
    }

    /// How many places for chunks were ever filled.
    pub(crate) fn places(&self) -> usize {
        self.chunks
    }

    /// How many chunks are being given back.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// The chunks that have memory and are not leaving.
    pub(crate) fn staying(&self) -> impl Iterator<Item = usize> {
        let gone = |at: &usize| self.holes.contains(at) || self.leaving.iter().any(|(left, _)| left == at);
        (0..self.chunks).filter(move |at| !gone(at))
    }

    /// The frames that hold no page and are in nobody's hands.
    pub(crate) fn idle(&self) -> impl Iterator<Item = u32> {
        let waiting = self.waiting.iter().flat_map(|(_, numbers)| numbers);
        let vacant = self.vacant.iter().filter_map(|vacant| vacant.number);
        self.fresh.iter().chain(waiting).chain(&self.aside).copied().chain(vacant)
    }

    /// Begins to give chunk `index` back: none of its frames is linked or in a loader's hands.
    pub(crate) fn leave(&mut self, frames: &Frames, index: usize) {
        let of_chunk = |number: u32| frames.chunk_of(number) == index;
        let before = self.vacant.len() + self.aside.len();
        self.vacant.retain(|vacant| !vacant.number.is_some_and(of_chunk));
        self.aside.retain(|&number| !of_chunk(number));
        let past_epochs = before - self.vacant.len() - self.aside.len();
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

    /// Makes vacant what is past all epochs and has no pins. Scans the slots if anything waits for them.
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
                        None => self.aside.push(number),
                    }
                }
            }
            self.let_go(frames);
        }
        for at in (0..self.aside.len()).rev() {
            let (chunk, index) = frames.locate(self.aside[at]);
            if chunk.metas[index].pins.load(Ordering::SeqCst) == 0 {
                let (number, chunk) = (Some(self.aside.swap_remove(at)), chunk.another());
                self.vacant.push(Vacant { chunk, index, number, clears_huge: false });
            }
        }
    }
}
