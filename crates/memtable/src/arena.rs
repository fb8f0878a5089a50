//! The arena: memory that is allocated piece by piece, and freed as a whole once it was published.
//!
//! 1. The writer allocates through its [`Bump`], and a thread that stages changes through one of its own. The
//!    [`Arena`] owns the chunks and frees them when the memtable is dropped, with pauses if the thread is throttled
//!    ([`background`]): a thread that drops the last reference to a memtable holds no lock that others wait for.
//!    Nothing in a chunk is dropped: only plain data and atomics are placed there.
//! 2. Records grow from a chunk's low end, nodes from its high end. Nodes are aligned to cache lines and records to
//!    eight bytes, and neither pays for the other's alignment.
//! 3. Chunks double from [`FIRST_CHUNK_BYTES`] to at most [`MAX_CHUNK_BYTES`], so that an idle table costs a page and a
//!    busy one a system call each megabyte. A piece that would fill a quarter of the largest chunk gets a chunk of its
//!    own, and the current chunk stays in use. Large chunks of a large memtable are mapped ([`Memory`]), and go to the
//!    next memtable ([`IdleChunks`]) or back to the system. Those of a small one are allocated: the next one, which
//!    comes soon, gets the same memory without its first touches.
//! 4. What was allocated since a bump's [`Mark`] can be freed, as long as no other thread knows of it: the chunks that
//!    were added go back, and the bump is where it was.
//! 5. If there is an account, each chunk is charged to it out of the bump's *credit*: memory
//!    that was reserved while the operation could still be refused. The arena returns all of it when it is freed.

use crate::idle::IdleChunks;
use base::background;
use base::budget::{Account, Charge, MemoryCategory};
use base::sync::atomic::{AtomicUsize, Ordering};
use base::sync::{Mutex, lock};
use io::memory::Memory;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr;
use std::sync::Arc;

/// The size of the first chunk in bytes: the cost of an empty memtable with one written table.
const FIRST_CHUNK_BYTES: usize = 4 << 10;
/// The size of the largest shared chunk in bytes.
const MAX_CHUNK_BYTES: usize = 1 << 20;
/// The size in bytes from which on a chunk of a large memtable is mapped.
pub(crate) const MAPPED_BYTES: usize = 256 << 10;
/// The alignment of chunks: a cache line, as for nodes.
const CHUNK_ALIGN: usize = 64;

/// All chunks of a memtable.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Mutex<Chunks>,
    bytes: AtomicUsize,
    /// The size in bytes from which on chunks are mapped.
    mapped_from: usize,
    /// The bytes of the chunks of stages in which nothing is linked: free ones, and those of commits to come.
    unlinked: AtomicUsize,
    /// Where mapped chunks come from and go to, if there are such.
    idle: Option<Arc<IdleChunks>>,
}

#[derive(Debug)]
struct Chunks {
    list: Vec<Chunk>,
    /// The charge for the chunks, if there is an account.
    charge: Option<Charge>,
}

/// Memory for a chunk.
#[derive(Debug)]
enum Chunk {
    Allocated(Block),
    Mapped(Memory),
}

/// A block of the allocator's.
#[derive(Debug)]
struct Block {
    start: *mut u8,
    layout: Layout,
}

impl Chunk {
    fn new(size: usize, is_mapped: bool) -> Chunk {
        if is_mapped {
            return Chunk::Mapped(Memory::in_small_pages(size));
        }
        let layout = Layout::from_size_align(size, CHUNK_ALIGN).expect("a chunk fits memory");
        // SAFETY: the layout has a size above zero: callers ask for a chunk's size or for a piece's.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Chunk::Allocated(Block { start, layout })
    }

    fn start(&self) -> *mut u8 {
        match self {
            Chunk::Allocated(block) => block.start,
            Chunk::Mapped(memory) => memory.start().as_ptr(),
        }
    }

    fn size(&self) -> usize {
        match self {
            Chunk::Allocated(block) => block.layout.size(),
            Chunk::Mapped(memory) => memory.size(),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc` with this layout. The arena drops a chunk when nothing points into it.
        unsafe { dealloc(self.start, self.layout) };
    }
}

// SAFETY: a block owns its memory, which is as free to move between threads as a Box's.
unsafe impl Send for Block {}

impl Arena {
    /// Creates an arena without chunks. `max_chunk_bytes` is the size of the writer's largest chunk: a small memtable
    /// has small ones. `idle` has the same account.
    pub fn new(
        account: Option<&Arc<Account>>,
        max_chunk_bytes: usize,
        idle: Option<&Arc<IdleChunks>>,
    ) -> Arena {
        let charge = account.map(|account| Charge::none(account, MemoryCategory::Memtables));
        Arena {
            chunks: Mutex::new(Chunks { list: Vec::new(), charge }),
            bytes: AtomicUsize::new(0),
            mapped_from: if max_chunk_bytes < MAX_CHUNK_BYTES { usize::MAX } else { MAPPED_BYTES },
            unlinked: AtomicUsize::new(0),
            idle: idle.cloned(),
        }
    }

    /// Returns the bytes of all chunks.
    pub fn bytes(&self) -> usize {
        // Relaxed: a statistic, which orders nothing.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of chunks in which something is linked or free for the writer.
    pub fn linked_bytes(&self) -> usize {
        // Relaxed: statistics, which order nothing. A stage may have changed one of them and not yet the other one.
        self.bytes().saturating_sub(self.unlinked.load(Ordering::Relaxed))
    }

    /// Returns an empty credit of the account, if there is one.
    pub fn no_credit(&self) -> Option<Charge> {
        let chunks = lock(&self.chunks);
        chunks.charge.as_ref().map(|charge| Charge::none(charge.account(), MemoryCategory::Memtables))
    }

    /// Allocates a chunk, charged to `credit` as far as that reaches, or takes an idle one with its charge.
    fn add(&self, size: usize, credit: &mut Option<Charge>) -> *mut u8 {
        // Before the lock, which other threads wait for: a large one is a system call.
        let is_mapped = size >= self.mapped_from;
        let idle = self.idle.as_ref().filter(|_| is_mapped).and_then(|idle| idle.take(size));
        let (chunk, own_charge) = match idle {
            Some((memory, charge)) => (Chunk::Mapped(memory), Some(charge)),
            None => (Chunk::new(size, is_mapped), None),
        };
        let start = chunk.start();
        let mut chunks = lock(&self.chunks);
        if let (Some(charge), Some(credit)) = (&mut chunks.charge, credit) {
            charge.join(own_charge.unwrap_or_else(|| credit.split(size)));
            let missing = self.bytes() + size - charge.bytes();
            charge.join(credit.account().charge_by_force(MemoryCategory::Memtables, missing));
        }
        chunks.list.push(chunk);
        // Relaxed, in two steps: the lock of `chunks` is held, and `bytes` is a statistic.
        self.bytes.store(self.bytes() + size, Ordering::Relaxed);
        start
    }

    /// Frees the chunks that begin at `starts`, and returns their charge to the budget. O(chunks) at most, and O(1) for
    /// each of the newest.
    ///
    /// # Safety
    /// They are chunks of this arena, and no pointer into them is used any longer.
    #[cold]
    unsafe fn remove(&self, starts: &[*mut u8]) {
        let (mut freed, mut size) = (Vec::with_capacity(starts.len()), 0);
        let mut chunks = lock(&self.chunks);
        for start in starts.iter().rev() {
            let at = chunks.list.iter().rposition(|chunk| chunk.start() == *start);
            let chunk = chunks.list.swap_remove(at.expect("it is a chunk of this arena"));
            size += chunk.size();
            freed.push(chunk);
        }
        // Relaxed, in two steps: as in `add`.
        self.bytes.store(self.bytes() - size, Ordering::Relaxed);
        let mut charge = chunks.charge.as_mut().map(|charge| charge.split(size));
        drop(chunks);
        for chunk in freed {
            release(chunk, charge.as_mut(), self.idle.as_deref());
        }
    }
}

/// Gives a chunk to `idle` if others could use it, or frees it, with its part of `charge`. Returns whether it was
/// freed.
fn release(chunk: Chunk, charge: Option<&mut Charge>, idle: Option<&IdleChunks>) -> bool {
    // A piece that is too large for a shared chunk has one of its own size.
    let is_shared = chunk.size().is_power_of_two() && chunk.size() <= MAX_CHUNK_BYTES;
    let own_charge = charge.map(|charge| charge.split(chunk.size()));
    match (chunk, own_charge, idle) {
        // What is returned is dropped, the memory first.
        (Chunk::Mapped(memory), Some(charge), Some(idle)) if is_shared => idle.keep(memory, charge).is_some(),
        (chunk, charge, _) => {
            drop(chunk);
            drop(charge);
            true
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // This takes no lock: in a child that was forked while another thread had it, it stays locked.
        let chunks = self.chunks.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // What was borrowed from a chunk borrowed the memtable too.
        for chunk in chunks.list.drain(..) {
            // Freeing 64 MiB at once takes the kernel 20 ms.
            if release(chunk, chunks.charge.as_mut(), self.idle.as_deref()) {
                background::pause();
            }
        }
    }
}

/// The free middle of the current chunk. It belongs to one thread.
#[derive(Debug)]
pub(crate) struct Bump {
    low: *mut u8,
    room: usize,
    next_chunk_bytes: usize,
    max_chunk_bytes: usize,
    /// The chunks that were added since the mark, as long as [`Bump::rewind`] may free them. Until then, each page of a
    /// new chunk is written to at once: its first write interrupts the thread for a microsecond, and should not come
    /// later, when other threads wait.
    since_mark: Option<Added>,
    /// The charge for chunks to come; `None` if there is no account.
    credit: Option<Charge>,
}

/// The chunks that a bump has added since its mark.
#[derive(Debug, Default)]
struct Added {
    starts: Vec<*mut u8>,
    bytes: usize,
}

// SAFETY: the free middle is reachable through nothing but this Bump, which is as free to move as a `&mut
// [u8]`. The chunks since the mark are compared, and freed under the conditions of `rewind`.
unsafe impl Send for Bump {}

impl Bump {
    pub fn new(credit: Option<Charge>, max_chunk_bytes: usize) -> Bump {
        let max_chunk_bytes = max_chunk_bytes.clamp(FIRST_CHUNK_BYTES, MAX_CHUNK_BYTES);
        let (low, next_chunk_bytes) = (ptr::null_mut(), FIRST_CHUNK_BYTES);
        Bump { low, room: 0, next_chunk_bytes, max_chunk_bytes, since_mark: None, credit }
    }

    /// Returns the free bytes in the current chunk.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Returns by how much the arena grows at most when pieces of `bytes` in total are allocated. If `is_anew`, they
    /// may be allocated in the empty arena of the bump that takes over the credit.
    #[inline]
    fn growth(&self, bytes: usize, is_anew: bool) -> usize {
        // A piece is at most a quarter of a chunk, so that three quarters are filled before the next one is started;
        // the last one may be nearly empty. It is the next one, or less than four times its first piece, or twice the
        // one before, which has less than `bytes`.
        let all = |next_chunk_bytes: usize| {
            bytes + bytes / 3 + next_chunk_bytes.max(4 * bytes).min(self.max_chunk_bytes)
        };
        match bytes <= self.room {
            true if is_anew => all(FIRST_CHUNK_BYTES),
            true => 0,
            false => all(self.next_chunk_bytes),
        }
    }

    /// Charges enough for pieces of `bytes` in total, and more for the pieces after those. Returns false if the budget
    /// refuses. Never waits. Costs a comparison unless a chunk is needed. [`Bump::growth`] explains `is_anew`.
    #[inline]
    pub fn reserve(&mut self, bytes: usize, is_anew: bool) -> bool {
        let growth = self.growth(bytes, is_anew);
        match &self.credit {
            // Charges the next chunk, too, if possible, so that this happens seldom.
            Some(credit) if credit.bytes() < growth => {
                self.add_credit(growth + self.next_chunk_bytes) || self.add_credit(growth)
            }
            _ => true,
        }
    }

    /// Charges enough for pieces of `bytes` in total, and nothing for later pieces. Makes room in the budget if
    /// necessary: page pools give pages up. Returns false if the budget refuses nevertheless. The caller has no lock of
    /// a pool, and none that others wait for.
    #[inline]
    pub fn reserve_exactly(&mut self, bytes: usize) -> bool {
        let growth = self.growth(bytes, false);
        match &mut self.credit {
            Some(credit) if credit.bytes() < growth => {
                let missing = growth - credit.bytes();
                let more = credit.account().charge_making_room(MemoryCategory::Memtables, missing);
                more.map(|charge| credit.join(charge)).is_some()
            }
            _ => true,
        }
    }

    /// Charges what is missing for a credit of `bytes`, which is more than there is.
    #[cold]
    fn add_credit(&mut self, bytes: usize) -> bool {
        let credit = self.credit.as_mut().expect("asked for where there is one");
        let more = credit.account().charge(MemoryCategory::Memtables, bytes - credit.bytes());
        let is_charged = more.is_some();
        more.into_iter().for_each(|charge| credit.join(charge));
        is_charged
    }

    /// Returns how much more must be charged for pieces of `bytes` in total.
    pub fn missing(&self, bytes: usize, is_anew: bool) -> usize {
        let credit = self.credit.as_ref().map_or(usize::MAX, Charge::bytes);
        self.growth(bytes, is_anew).saturating_sub(credit)
    }

    /// Returns the credit, to add to it or to take it.
    pub fn credit(&mut self) -> &mut Option<Charge> {
        &mut self.credit
    }

    /// Takes the next chunk now if the current one has no room for pieces of `bytes` in total, and these are no more
    /// than a piece may be.
    #[inline]
    pub fn prepare(&mut self, arena: &Arena, bytes: usize) {
        if bytes > self.room && bytes <= self.max_chunk_bytes / 4 {
            self.refill(arena, bytes);
        }
    }

    /// Returns the place that [`Bump::rewind`] goes back to. It replaces an earlier mark.
    #[inline]
    pub fn mark(&mut self) -> Mark {
        self.since_mark = Some(Added::default());
        Mark { low: self.low, room: self.room, next_chunk_bytes: self.next_chunk_bytes }
    }

    /// Gives up the mark: what was allocated since stays until the arena is freed. Returns the bytes that are unlinked
    /// until then, for [`Bump::note_linked`].
    #[inline]
    pub fn keep(&mut self, mark: Mark) -> usize {
        mark.room + self.since_mark.take().map_or(0, |added| added.bytes)
    }

    /// Notes that of `unlinked` bytes all are linked now that are not free.
    #[inline]
    pub fn note_linked(&self, arena: &Arena, unlinked: usize) {
        // Relaxed, in two steps: a statistic, to which other stages add their own.
        arena.unlinked.fetch_add(self.room, Ordering::Relaxed);
        arena.unlinked.fetch_sub(unlinked, Ordering::Relaxed);
    }

    /// Frees everything that was allocated since `mark`, so that bump and arena are as they were.
    ///
    /// # Safety
    /// `mark` is the newest mark of this bump, [`Bump::keep`] was not called since, all chunks are those of `arena`,
    /// and no pointer to what was allocated since is used any longer.
    pub unsafe fn rewind(&mut self, arena: &Arena, mark: Mark) {
        (self.low, self.room, self.next_chunk_bytes) = (mark.low, mark.room, mark.next_chunk_bytes);
        let added = self.since_mark.take().unwrap_or_default();
        if added.bytes > 0 {
            // Relaxed: a statistic.
            arena.unlinked.fetch_sub(added.bytes, Ordering::Relaxed);
            // SAFETY: they were added to `arena` since the mark, and the caller promises that nothing uses them.
            unsafe { arena.remove(&added.starts) };
        }
    }

    /// Adds a chunk to the arena, and notes it if it may be freed early.
    fn add_chunk(&mut self, arena: &Arena, size: usize) -> *mut u8 {
        let start = arena.add(size, &mut self.credit);
        if let Some(added) = &mut self.since_mark {
            added.starts.push(start);
            added.bytes += size;
            arena.unlinked.fetch_add(size, Ordering::Relaxed); // Relaxed: a statistic.
        }
        start
    }

    /// Returns new, uninitialised memory for a record, from the low end.
    #[inline]
    pub fn low(&mut self, arena: &Arena, layout: Layout) -> *mut u8 {
        debug_assert!(layout.align() <= RECORD_ALIGN && layout.size() > 0);
        let size = layout.size().next_multiple_of(RECORD_ALIGN);
        if size > self.room
            && let Some(own) = self.refill(arena, size)
        {
            return own;
        }
        let at = self.low;
        // SAFETY: `size <= room` bytes from `low` on belong to the chunk.
        self.low = unsafe { at.add(size) };
        self.room -= size;
        at
    }

    /// Places `value` at the high end, and returns a reference that lives as long as the memtable is borrowed.
    #[inline]
    pub fn place<'m, T>(&mut self, arena: &'m Arena, value: T) -> &'m T {
        const { assert!(align_of::<T>() <= CHUNK_ALIGN && !std::mem::needs_drop::<T>()) };
        let at = self.high(arena, Layout::new::<T>()).cast::<T>();
        // SAFETY: fresh memory of T's layout; written here, and shared from here on. `rewind`, whose
        // contract excludes such references, and the arena's end free it.
        unsafe {
            at.write(value);
            &*at
        }
    }

    /// Returns new, uninitialised memory for `count` values (at least one) side by side, from the high end.
    pub fn room_for<T>(&mut self, arena: &Arena, count: usize) -> *mut T {
        const { assert!(align_of::<T>() <= CHUNK_ALIGN && !std::mem::needs_drop::<T>()) };
        self.high(arena, Layout::array::<T>(count).expect("an array fits memory")).cast()
    }

    #[inline]
    fn high(&mut self, arena: &Arena, layout: Layout) -> *mut u8 {
        // Where `low + room` is not aligned, up to `align - 1` bytes below it are skipped too.
        let skipped =
            |bump: &Bump| (bump.low.addr() + bump.room).wrapping_sub(layout.size()) % layout.align();
        let mut taken = layout.size() + skipped(self);
        if taken > self.room {
            if let Some(own) = self.refill(arena, layout.size()) {
                return own;
            }
            taken = layout.size() + skipped(self);
        }
        self.room -= taken;
        // SAFETY: `taken <= room` held, so the place lies inside the chunk's free middle.
        unsafe { self.low.add(self.room) }
    }

    /// Makes room for `size` bytes: starts a new chunk, without using the rest of the old one, or returns separate
    /// memory for a piece that is too large for that.
    #[cold]
    fn refill(&mut self, arena: &Arena, size: usize) -> Option<*mut u8> {
        if size > self.max_chunk_bytes / 4 {
            return Some(self.add_chunk(arena, size));
        }
        // The factor two leaves room for alignment.
        let chunk_bytes = self.next_chunk_bytes.max((2 * size).next_power_of_two());
        (self.low, self.room) = (self.add_chunk(arena, chunk_bytes), chunk_bytes);
        if self.since_mark.is_some() {
            for offset in (0..chunk_bytes).step_by(PAGE_BYTES) {
                // SAFETY: inside the chunk that was just allocated, which nothing else knows. Volatile, as nothing
                // reads the byte.
                unsafe { self.low.add(offset).write_volatile(0) };
            }
        }
        self.next_chunk_bytes = (2 * chunk_bytes).min(self.max_chunk_bytes);
        None
    }
}

/// The state of a bump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    low: *mut u8,
    room: usize,
    next_chunk_bytes: usize,
}

/// The size of the smallest page of memory.
const PAGE_BYTES: usize = 4 << 10;
/// The alignment of records and everything else at the low end.
const RECORD_ALIGN: usize = 8;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_throttled_thread_frees_chunk_by_chunk() {
        let arena = Arena::new(None, MAX_CHUNK_BYTES, None);
        let mut bump = Bump::new(None, MAX_CHUNK_BYTES);
        while arena.bytes() < 3 * MAX_CHUNK_BYTES {
            bump.low(&arena, Layout::new::<[u64; 512]>());
        }
        let chunks = lock(&arena.chunks).list.len();
        let pauses = Rc::new(Cell::new(0));
        let counted = Rc::clone(&pauses);
        background::throttled(Rc::new(move || counted.set(counted.get() + 1)), || drop(arena));
        assert_eq!(pauses.get(), chunks);
    }
}
