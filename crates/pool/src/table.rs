//! The translation: from the unit where a page lies to the frame that holds it.
//!
//! Open addressing with linear probing over words of `unit << 24 | frame`; 0 is empty (unit 0 is a superblock's, never
//! a page's). Readers take no lock. Writers hold the pool's lock, so that there is one at a time.
//!
//! 1. A word that a reader finds was linked at some time during the reader's epoch, or the table it reads from was
//!    outgrown during that epoch: so what it names is still intact (see `frames.rs`).
//! 2. A reader may miss a page that is linked: while an entry moves back over a hole (the copy is made first, but
//!    the reader may be past it), or in an outgrown table. It then faults, and the fault looks again under the lock.
//! 3. The table doubles when it is half full. Outgrown tables are kept until the pool goes, because readers may be
//!    in them; together they are smaller than the one in use.

use crate::ledger::Charge;
use base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

const FRAME_BITS: u32 = 24;
/// The most frames that a pool can have.
pub(crate) const MAX_FRAMES: usize = 1 << FRAME_BITS;
const FRAME_MASK: u64 = (1 << FRAME_BITS) - 1;

/// The first table has 64 words, each next one twice as many; the last one is half full with `MAX_FRAMES`.
const FIRST_BITS: u32 = 6;
const LEVELS: usize = (FRAME_BITS + 1 - FIRST_BITS) as usize + 1;
/// `current` of a table that has no words yet.
const NONE: usize = usize::MAX;

#[derive(Debug)]
struct Level {
    words: Box<[AtomicU64]>,
    _charge: Charge,
}

/// See the file's head.
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
    fn words(&self) -> Option<&[AtomicU64]> {
        let level = self.levels.get(self.current.load(Ordering::SeqCst))?;
        Some(&level.get()?.words)
    }

    /// The frame that holds the page at `unit`.
    #[inline]
    pub(crate) fn find(&self, unit: u64) -> Option<u32> {
        let words = self.words()?;
        let mut at = home(unit, words.len());
        for _ in 0..words.len() {
            // SeqCst: partner of the stores in `remove`, see `frames.rs`.
            let word = words[at].load(Ordering::SeqCst);
            if word >> FRAME_BITS == unit && word != 0 {
                return Some((word & FRAME_MASK) as u32);
            }
            if word == 0 {
                return None;
            }
            at = (at + 1) & (words.len() - 1);
        }
        None
    }

    /// Which level suits `frames` frames, and how many bytes it takes; `None` if there is room.
    pub(crate) fn growth(&self, frames: usize) -> Option<(usize, usize)> {
        let need = (frames * 2).next_power_of_two().max(1 << FIRST_BITS);
        let level = (need.trailing_zeros() - FIRST_BITS) as usize;
        let current = self.current.load(Ordering::SeqCst);
        (current == NONE || current < level).then_some((level, need * size_of::<AtomicU64>()))
    }

    /// Moves to `level`, which [`Table::growth`] named. The caller holds the pool's lock.
    pub(crate) fn grow(&self, level: usize, charge: Charge) {
        let words: Box<[AtomicU64]> =
            (0..1usize << (FIRST_BITS as usize + level)).map(|_| AtomicU64::new(0)).collect();
        for word in self.words().into_iter().flatten() {
            let word = word.load(Ordering::SeqCst);
            if word != 0 {
                put(&words, word);
            }
        }
        let set = self.levels[level].set(Level { words, _charge: charge });
        assert!(set.is_ok(), "the table grew to level {level} twice");
        self.current.store(level, Ordering::SeqCst);
    }

    /// Links `unit`, which is not linked, to `frame`. The caller holds the pool's lock.
    pub(crate) fn insert(&self, unit: u64, frame: u32) {
        debug_assert!(unit != 0 && self.find(unit).is_none());
        let words = self.words().expect("a frame comes with room for it in the table");
        put(words, unit << FRAME_BITS | u64::from(frame));
    }

    /// Unlinks `unit`. The caller holds the pool's lock.
    pub(crate) fn remove(&self, unit: u64) {
        let words = self.words().expect("an empty table links nothing");
        let mask = words.len() - 1;
        let mut hole = home(unit, words.len());
        while words[hole].load(Ordering::SeqCst) >> FRAME_BITS != unit {
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
            let from_home = at.wrapping_sub(home(word >> FRAME_BITS, words.len())) & mask;
            if from_home >= (at.wrapping_sub(hole) & mask) {
                words[hole].store(word, Ordering::SeqCst);
                hole = at;
            }
        }
        words[hole].store(0, Ordering::SeqCst);
    }
}

/// Where the probe for `unit` begins (Fibonacci hashing: the high bits of a product with 2^64 / golden ratio).
#[inline]
fn home(unit: u64, len: usize) -> usize {
    (unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - len.trailing_zeros())) as usize
}

fn put(words: &[AtomicU64], word: u64) {
    let mut at = home(word >> FRAME_BITS, words.len());
    while words[at].load(Ordering::SeqCst) != 0 {
        at = (at + 1) & (words.len() - 1);
    }
    words[at].store(word, Ordering::SeqCst);
}
