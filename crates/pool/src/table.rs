//! The translation table: from the unit of a page to the frame that holds it.
//!
//! Open addressing with linear probing over words of `tag << 24 | frame`; 0 is empty. The tag is 7 bits of the unit's
//! hash, and a bit that is always set. It sends a reader to a frame of another page once in 128 words that it passes,
//! and the state of the frame then shows the mistake. Storing whole units would make the table twice as large. Every
//! page on a descent begins with a look at the table, which is a cache miss as soon as the table outgrows the
//! processor's second-level cache.
//!
//! Readers take no lock. Writers hold the pool's lock, so that there is one at a time.
//!
//! 1. The frame of a word that a reader finds was linked at some time during the reader's epoch, or the table it reads
//!    from was outgrown during that epoch. So the frame's bytes and state are still intact (see `frames.rs`).
//! 2. A reader may miss a page that is linked: while an entry moves back over a hole (the copy is made first, but the
//!    reader may be past it), or in an outgrown table. It then faults, and the fault looks again under the lock.
//! 3. The table doubles when it is three quarters full. Outgrown tables are kept until the pool is dropped, because
//!    readers may be in them; together they are smaller than the current one.

use crate::ledger::Charge;
use base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::OnceLock;

const FRAME_BITS: u32 = 24;
/// The most frames that a pool can have.
pub(crate) const MAX_FRAMES: usize = 1 << FRAME_BITS;
const FRAME_MASK: u32 = (1 << FRAME_BITS) - 1;

/// The first table has 64 words, each next one twice as many; the last one is half full with `MAX_FRAMES`.
const FIRST_BITS: u32 = 6;
const LEVELS: usize = (FRAME_BITS + 1 - FIRST_BITS) as usize + 1;
/// The value of `current` in a table that has no words yet.
const NONE: usize = usize::MAX;

#[derive(Debug)]
struct Level {
    words: Box<[AtomicU32]>,
    _charge: Charge,
}

/// The translation table; the head of this file describes it.
#[derive(Debug)]
pub(crate) struct Table {
    levels: [OnceLock<Level>; LEVELS],
    current: AtomicUsize,
}

impl Table {
    pub(crate) fn new() -> Self {
        Table { levels: std::array::from_fn(|_| OnceLock::new()), current: AtomicUsize::new(NONE) }
    }

    #[inline]
    fn words(&self) -> Option<&[AtomicU32]> {
        let level = self.levels.get(self.current.load(Ordering::SeqCst))?;
        Some(&level.get()?.words)
    }

    /// Returns the frame that holds the page at `unit`; `holds` checks whether a frame does.
    #[inline]
    pub(crate) fn find<T>(&self, unit: u64, holds: impl Fn(u32) -> Option<T>) -> Option<T> {
        let words = self.words()?;
        let (hash, tag) = (hash(unit), tag(hash(unit)));
        let mut at = home(hash, words.len());
        // The loop ends, because there is always an empty word.
        loop {
            // SeqCst: partner of the stores in `remove`, see `frames.rs`.
            let word = words[at].load(Ordering::SeqCst);
            if (word ^ tag) >> FRAME_BITS == 0
                && let Some(found) = holds(word & FRAME_MASK)
            {
                return Some(found);
            }
            if word == 0 {
                return None;
            }
            at = (at + 1) & (words.len() - 1);
        }
    }

    /// Returns the level that `frames` frames need, and how many bytes it takes, or `None` if there is room.
    pub(crate) fn growth(&self, frames: usize) -> Option<(usize, usize)> {
        let need = (frames + frames.div_ceil(3)).next_power_of_two().max(1 << FIRST_BITS);
        let level = (need.trailing_zeros() - FIRST_BITS) as usize;
        let current = self.current.load(Ordering::SeqCst);
        (current == NONE || current < level).then_some((level, need * size_of::<AtomicU32>()))
    }

    /// Moves to `level`, which [`Table::growth`] returned; `unit_of` returns the unit of a frame's page. The caller
    /// holds the pool's lock.
    pub(crate) fn grow(&self, level: usize, charge: Charge, unit_of: impl Fn(u32) -> u64) {
        let words: Box<[AtomicU32]> =
            (0..1usize << (FIRST_BITS as usize + level)).map(|_| AtomicU32::new(0)).collect();
        for word in self.words().into_iter().flatten() {
            let word = word.load(Ordering::SeqCst);
            if word != 0 {
                put(&words, unit_of(word & FRAME_MASK), word);
            }
        }
        let set = self.levels[level].set(Level { words, _charge: charge });
        assert!(set.is_ok(), "the table grew to level {level} twice");
        self.current.store(level, Ordering::SeqCst);
    }

    /// Links `unit`, which is not linked, to `frame`. The caller holds the pool's lock.
    pub(crate) fn insert(&self, unit: u64, frame: u32) {
        let words = self.words().expect("a frame comes with room for it in the table");
        put(words, unit, word(unit, frame));
    }

    /// Unlinks `unit` from `frame`; `unit_of` returns the unit of a frame's page. The caller holds the pool's lock.
    pub(crate) fn remove(&self, unit: u64, frame: u32, unit_of: impl Fn(u32) -> u64) {
        let words = self.words().expect("an empty table links nothing");
        let mask = words.len() - 1;
        let (gone, mut hole) = (word(unit, frame), home(hash(unit), words.len()));
        while words[hole].load(Ordering::SeqCst) != gone {
            hole = (hole + 1) & mask;
        }
        // Later entries of the same cluster move back over the hole unless that would put them before their home.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let word = words[at].load(Ordering::SeqCst);
            if word == 0 {
                break;
            }
            let home = home(hash(unit_of(word & FRAME_MASK)), words.len());
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                words[hole].store(word, Ordering::SeqCst);
                hole = at;
            }
        }
        words[hole].store(0, Ordering::SeqCst);
    }
}

/// Returns the Fibonacci hash: the product with 2^64 / golden ratio, whose high bits are well mixed.
#[inline]
fn hash(unit: u64) -> u64 {
    unit.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the index at which the probe for a hash begins.
#[inline]
fn home(hash: u64, len: usize) -> usize {
    (hash >> (64 - len.trailing_zeros())) as usize
}

/// Returns a word with the tag of `hash`, which uses bits that are in no table's home. The frame's bits are arbitrary.
#[inline]
fn tag(hash: u64) -> u32 {
    hash as u32 | 1 << FRAME_BITS
}

fn word(unit: u64, frame: u32) -> u32 {
    tag(hash(unit)) & !FRAME_MASK | frame
}

fn put(words: &[AtomicU32], unit: u64, word: u32) {
    let mut at = home(hash(unit), words.len());
    while words[at].load(Ordering::SeqCst) != 0 {
        at = (at + 1) & (words.len() - 1);
    }
    words[at].store(word, Ordering::SeqCst);
}
