//! One chunk of the map: 32,768 units, which is what one unit of bitmap covers (128 MiB of file).
//!
//! Invariants:
//! 1. No unit is both used and held.
//! 2. While a chunk is dirty, `saved` is its `used` as the last save left it; a clean chunk needs no copy.
//! 3. `free` counts the units within the map that are neither used nor held.
//! 4. No run of `no_fit` or more free units begins in this chunk (a hint that spares a search; `u64::MAX` for none).
//! 5. No unit below `first_free` is free (another such hint).
//! 6. A hole is free: a unit of which the file system is known to keep no block. No hole is firm.

use base::PagePtr;
use base::limits::UNIT_BYTES;
use std::sync::Arc;

/// Units that a chunk covers: as many as a unit has bits.
pub(crate) const CHUNK_UNITS: u64 = UNIT_BYTES as u64 * 8;
const WORDS: usize = UNIT_BYTES / 8;

/// A bit for each unit of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bits(Box<[u64; WORDS]>);

impl Bits {
    pub(crate) fn none() -> Self {
        Bits(Box::new([0; WORDS]))
    }

    /// The written form: little-endian words, unit 0 in bit 0 of byte 0.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn decode(bytes: &[u8; UNIT_BYTES]) -> Self {
        let mut bits = Bits::none();
        for (word, bytes) in bits.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        }
        bits
    }

    #[inline]
    pub(crate) fn get(&self, at: u64) -> bool {
        self.0[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    /// Sets or clears bits `from..to`, a word at a time.
    pub(crate) fn fill(&mut self, from: u64, to: u64, value: bool) {
        let mut at = from;
        while at < to {
            let mask = word_mask(at, to);
            let word = &mut self.0[(at / 64) as usize];
            *word = if value { *word | mask } else { *word & !mask };
            at = (at / 64 + 1) * 64;
        }
    }

    /// How many bits of `from..to` are set.
    pub(crate) fn count(&self, from: u64, to: u64) -> u64 {
        let mut at = from;
        let mut count = 0;
        while at < to {
            count += u64::from((self.0[(at / 64) as usize] & word_mask(at, to)).count_ones());
            at = (at / 64 + 1) * 64;
        }
        count
    }

    /// The last set bit.
    pub(crate) fn last(&self) -> Option<u64> {
        let index = self.0.iter().rposition(|&word| word != 0)?;
        Some(index as u64 * 64 + 63 - u64::from(self.0[index].leading_zeros()))
    }

    #[inline]
    fn word(&self, at: u64) -> u64 {
        self.0[(at / 64) as usize]
    }
}

/// The bits of the word that holds `at` which lie in `at..to`.
fn word_mask(at: u64, to: u64) -> u64 {
    let low = at % 64;
    let high = (low + (to - at)).min(64);
    (u64::MAX << low) & (u64::MAX >> (64 - high))
}

/// The first unit in `from..to` whose bit is set in the words that `word` answers, or `to`.
fn next(from: u64, to: u64, word: impl Fn(u64) -> u64) -> u64 {
    let mut at = from;
    while at < to {
        let bits = word(at) & word_mask(at, to);
        if bits != 0 {
            return at / 64 * 64 + u64::from(bits.trailing_zeros());
        }
        at = (at / 64 + 1) * 64;
    }
    to
}

/// See the file's head.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) used: Bits,
    /// Retired units. `None` while there are none, which is the rule.
    pub(crate) held: Option<Bits>,
    pub(crate) saved: Option<Bits>,
    /// Where the last save put it.
    pub(crate) place: Option<PagePtr>,
    pub(crate) free: u64,
    pub(crate) no_fit: u64,
    pub(crate) first_free: u64,
    /// Units that take no room on the disk. `None` while none is known.
    pub(crate) holes: Option<Bits>,
    /// Units, used ones too, that are known to have their room on the disk. `None` while none is known.
    pub(crate) firm: Option<Bits>,
    /// The bits of the last save, once they were asked for; `None` where they have changed since.
    pub(crate) reached: Option<Arc<Bits>>,
}

impl Chunk {
    /// A chunk that covers new units and so must be written by the next save.
    pub(crate) fn fresh() -> Self {
        Chunk {
            used: Bits::none(),
            held: None,
            saved: Some(Bits::none()),
            place: None,
            free: 0,
            no_fit: u64::MAX,
            first_free: 0,
            holes: None,
            firm: None,
            reached: None,
        }
    }

    /// A chunk as it was saved at `place`; `units` of its bits are within the map.
    pub(crate) fn loaded(used: Bits, place: PagePtr, units: u64) -> Self {
        let free = units - used.count(0, units);
        let (no_fit, first_free) = (u64::MAX, 0);
        Chunk {
            used,
            held: None,
            saved: None,
            place: Some(place),
            free,
            no_fit,
            first_free,
            holes: None,
            firm: None,
            reached: None,
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.saved.is_some()
    }

    /// To be called before `used` changes.
    pub(crate) fn dirty(&mut self) {
        if self.saved.is_none() {
            self.saved = Some(self.used.clone());
        }
    }

    pub(crate) fn firm_mut(&mut self) -> &mut Bits {
        self.firm.get_or_insert_with(Bits::none)
    }

    pub(crate) fn held_mut(&mut self) -> &mut Bits {
        self.held.get_or_insert_with(Bits::none)
    }

    /// Free units `from..to` are handed out.
    pub(crate) fn take(&mut self, from: u64, to: u64) {
        self.used.fill(from, to, true);
        self.free -= to - from;
        if let Some(holes) = &mut self.holes {
            holes.fill(from, to, false);
        }
        if from <= self.first_free && self.first_free < to {
            self.first_free = to;
        }
    }

    /// Units `from..to`, which are neither used nor held any more, are free.
    pub(crate) fn give(&mut self, from: u64, to: u64) {
        self.free += to - from;
        self.first_free = self.first_free.min(from);
    }

    /// Free units that take room on the disk, as far as is known.
    pub(crate) fn backed(&self) -> u64 {
        self.free - self.holes.as_ref().map_or(0, |holes| holes.count(0, CHUNK_UNITS))
    }

    #[inline]
    fn taken_word(&self, at: u64) -> u64 {
        self.used.word(at) | self.held.as_ref().map_or(0, |held| held.word(at))
    }

    #[inline]
    fn firm_word(&self, at: u64) -> u64 {
        self.firm.as_ref().map_or(0, |firm| firm.word(at)) & !self.taken_word(at)
    }

    /// The first free firm unit in `from..to`, or `to`.
    pub(crate) fn next_firm(&self, from: u64, to: u64) -> u64 {
        if self.firm.is_none() { to } else { next(from, to, |at| self.firm_word(at)) }
    }

    /// The first unit in `from..to` that is not both free and firm, or `to`.
    pub(crate) fn next_not_firm(&self, from: u64, to: u64) -> u64 {
        next(from, to, |at| !self.firm_word(at))
    }

    /// The next run, in `from..to`, of free units that are not known to have their room.
    pub(crate) fn next_doubtful_run(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let other = |at| self.taken_word(at) | self.firm_word(at);
        let begin = next(from, to, |at| !other(at));
        (begin < to).then(|| (begin, next(begin, to, other)))
    }

    /// The first free unit in `from..to`, or `to`.
    pub(crate) fn next_free(&self, from: u64, to: u64) -> u64 {
        next(from, to, |at| !self.taken_word(at))
    }

    /// The first unit in `from..to` that is not free, or `to`.
    pub(crate) fn next_taken(&self, from: u64, to: u64) -> u64 {
        next(from, to, |at| self.taken_word(at))
    }

    /// The next run, in `from..to`, of free units that take room on the disk.
    pub(crate) fn next_backed_run(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let other = |at| self.taken_word(at) | self.holes.as_ref().map_or(0, |holes| holes.word(at));
        let begin = next(from, to, |at| !other(at));
        (begin < to).then(|| (begin, next(begin, to, other)))
    }

    /// Counts the free units among the first `units`, the only ones that the map covers.
    pub(crate) fn recount(&mut self, units: u64) {
        let held = self.held.as_ref().map_or(0, |held| held.count(0, units));
        self.free = units - self.used.count(0, units) - held;
        (self.no_fit, self.first_free) = (u64::MAX, 0);
        if let Some(holes) = &mut self.holes {
            holes.fill(units, CHUNK_UNITS, false);
        }
        if let Some(firm) = &mut self.firm {
            firm.fill(units, CHUNK_UNITS, false);
        }
    }
}
