//! Idle chunks: memory of merged memtables, for the next ones.
//!
//! The first touch of each page of new memory is a fault, and a chunk that is freed leaves the address space by another
//! visit to the kernel. Together they were a quarter of the time of a writer that does not sync, and those of several
//! writers wait for one another. A chunk that is used again costs neither.
//!
//! 1. Only the mapped chunks that records and nodes share are kept, whose sizes are few. Smaller ones are the
//!    allocator's to keep.
//! 2. They are charged as [`MemoryCategory::IdleChunks`], so the memory limit counts them, and the debt of memtables
//!    does not.
//! 3. No chunk is kept when less than an eighth of the budget is free: pages are worth more then.
//! 4. They are freed when the budget needs memory ([`IdleChunks::give`]), in parts when they were not needed for a
//!    while ([`IdleChunks::rest`]), and when the database closes ([`IdleChunks::close`]).

use base::budget::{Account, Charge, MemoryCategory};
use base::sync::{Mutex, lock};
use io::memory::Memory;
use std::sync::Arc;

/// A chunk is kept if one in this many bytes of the budget is free.
const FREE_PART: usize = 8;
/// The number of calls of [`IdleChunks::rest`] after which it frees what was not needed between them: two seconds.
const REST_CALLS: u32 = 8;
/// How many bytes one call of [`IdleChunks::rest`] frees at most: a millisecond's work of the kernel.
const REST_BYTES: usize = 4 << 20;

/// Chunks that memtables of one database have used, and that others will use.
#[derive(Debug)]
pub struct IdleChunks {
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// The newest one is last, and the first to be used: it may still be in a processor's cache.
    chunks: Vec<Memory>,
    charge: Charge,
    most_bytes: usize,
    /// The fewest bytes in the current round of [`REST_CALLS`] calls: nothing needed these.
    least_bytes: usize,
    calls: u32,
    /// What was found not to be needed, and is freed by the next calls.
    surplus_bytes: usize,
}

impl IdleChunks {
    /// Creates an empty store that keeps at most `most_bytes`, charged to `account`.
    ///
    /// ```
    /// use base::budget::{Account, Charge, MemoryCategory};
    /// use base::{CommitTs, TableId};
    /// use pando_memtable::{Memtable, IdleChunks};
    ///
    /// let account = Account::alone(256 << 20);
    /// let idle = IdleChunks::new(&account, 8 << 20);
    /// let credit = || Charge::none(&account, MemoryCategory::Memtables);
    /// let (memtable, mut writer) = Memtable::reusing(credit(), 1 << 20, &idle);
    /// for key in 0..40_000_u64 {
    ///     writer.put(TableId(16), &key.to_be_bytes(), &[0; 100], CommitTs(1));
    /// }
    /// drop((memtable, writer));
    /// assert!((4 << 20..=8 << 20).contains(&idle.bytes()));
    /// ```
    pub fn new(account: &Arc<Account>, most_bytes: usize) -> Arc<IdleChunks> {
        let (chunks, charge) = (Vec::new(), Charge::none(account, MemoryCategory::IdleChunks));
        let kept = Kept { chunks, charge, most_bytes, least_bytes: 0, calls: 0, surplus_bytes: 0 };
        Arc::new(IdleChunks { kept: Mutex::new(kept) })
    }

    /// Returns the bytes of all chunks.
    pub fn bytes(&self) -> usize {
        lock(&self.kept).charge.bytes()
    }

    /// Takes a chunk of `size` bytes, with what it is charged. Its memory has any content.
    pub(crate) fn take(&self, size: usize) -> Option<(Memory, Charge)> {
        let mut kept = lock(&self.kept);
        let at = kept.chunks.iter().rposition(|chunk| chunk.size() == size)?;
        let taken = (kept.chunks.remove(at), kept.charge.split(size));
        kept.least_bytes = kept.least_bytes.min(kept.charge.bytes());
        drop(kept);
        Some((taken.0, taken.1.converted(MemoryCategory::Memtables)))
    }

    /// Keeps a chunk that has exactly `charge`, or returns both if there is no room. Never waits: in a child that was
    /// forked while another thread had the lock, it stays locked.
    pub(crate) fn keep(&self, chunk: Memory, charge: Charge) -> Option<(Memory, Charge)> {
        let budget = charge.account().budget();
        let free = budget.limit_bytes().saturating_sub(budget.used_bytes());
        let Ok(mut kept) = self.kept.try_lock() else { return Some((chunk, charge)) };
        let has_room = kept.charge.bytes() + chunk.size() <= kept.most_bytes;
        if !has_room || free < budget.limit_bytes() / FREE_PART || charge.bytes() != chunk.size() {
            return Some((chunk, charge));
        }
        kept.charge.join(charge.converted(MemoryCategory::IdleChunks));
        kept.chunks.push(chunk);
        None
    }

    /// Frees chunks of at least `bytes` in total, or all. Returns how many bytes were freed.
    pub fn give(&self, bytes: usize) -> usize {
        let mut kept = lock(&self.kept);
        let (chunks, charge) = kept.split(bytes);
        kept.least_bytes = kept.least_bytes.min(kept.charge.bytes());
        drop(kept);
        drop(chunks);
        charge.bytes()
    }

    /// Frees a part of what was not needed lately. Call it four times a second.
    pub fn rest(&self) {
        let mut kept = lock(&self.kept);
        kept.calls += 1;
        if kept.calls >= REST_CALLS {
            (kept.calls, kept.surplus_bytes) = (0, kept.least_bytes);
            kept.least_bytes = kept.charge.bytes();
        }
        let now = kept.surplus_bytes.min(REST_BYTES);
        kept.surplus_bytes -= now;
        drop(kept);
        if now > 0 {
            self.give(now);
        }
    }

    /// Frees all chunks, and keeps none from now on.
    pub fn close(&self) {
        lock(&self.kept).most_bytes = 0;
        self.give(usize::MAX);
    }
}

impl Kept {
    /// Splits off the oldest chunks, which have at least `bytes`, and their charge.
    fn split(&mut self, bytes: usize) -> (Vec<Memory>, Charge) {
        let mut size = 0;
        let is_enough = |chunk: &Memory| {
            let was_enough = size >= bytes;
            size += if was_enough { 0 } else { chunk.size() };
            was_enough
        };
        let count = self.chunks.iter().position(is_enough).unwrap_or(self.chunks.len());
        (self.chunks.drain(..count).collect(), self.charge.split(size))
    }
}
