//! One chunk of the map: the 32,768 units that one unit of bitmap covers (128 MiB of file).
//!
//! Invariants:
//! 1. No unit is both used and held.
//! 2. While a chunk is dirty, `saved` is its `used` of the last save; a clean chunk needs no copy.
//! 3. `free` counts the units within the map that are neither used nor held.
//! 4. No run of `no_fit` or more free units begins in this chunk (a hint that saves a search; `u64::MAX` if unknown).
//! 5. No unit below `first_free` is free (another such hint).
//! 6. A hole is a free unit for which the file system is known to keep no block. No hole is firm.

use base::PagePtr;
use base::limits::UNIT_BYTES;
use std::sync::Arc;

/// The number of units that a chunk covers: the number of bits of a unit.
pub(crate) const CHUNK_UNITS: u64 = UNIT_BYTES as u64 * 8;
const WORDS: usize = UNIT_BYTES / 8;
static NO_BITS: [u64; WORDS] = [0; WORDS];

/// A bit for each unit of a chunk. It takes memory from the first bit that is set on: a sparse file may be longer than
/// all memory, and a damaged log may refer to its end.
#[derive(Clone, Debug)]
pub(crate) struct Bits(Option<Box<[u64; WORDS]>>);

impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl Bits {
    pub(crate) fn none() -> Self {
        Bits(None)
    }

    /// Returns whether no bit was ever set.
    #[inline]
    pub(crate) fn is_blank(&self) -> bool {
        self.0.is_none()
    }

    #[inline]
    fn words(&self) -> &[u64; WORDS] {
        self.0.as_deref().unwrap_or(&NO_BITS)
    }

    fn words_mut(&mut self) -> &mut [u64; WORDS] {
        self.0.get_or_insert_with(|| Box::new(NO_BITS))
    }

    /// Returns the written form: little-endian words, unit 0 in bit 0 of byte 0.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.words().iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn decode(bytes: &[u8; UNIT_BYTES]) -> Self {
        let mut bits = Bits::none();
        if bytes.iter().all(|&byte| byte == 0) {
            return bits;
        }
        for (word, bytes) in bits.words_mut().iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        }
        bits
    }

    #[inline]
    pub(crate) fn get(&self, at: u64) -> bool {
        self.word(at) >> (at % 64) & 1 == 1
    }

    /// Returns the end of the run of equal bits that begins at `from`. Looks no further than `to`.
    pub(crate) fn run_end(&self, from: u64, to: u64) -> u64 {
        let flip = if self.get(from) { u64::MAX } else { 0 };
        next(from, to, |at| self.word(at) ^ flip)
    }

    /// Sets or clears bits `from..to`, a word at a time.
    pub(crate) fn fill(&mut self, from: u64, to: u64, value: bool) {
        if !value && self.is_blank() {
            return;
        }
        let (words, mut at) = (self.words_mut(), from);
        while at < to {
            let mask = word_mask(at, to);
            let word = &mut words[(at / 64) as usize];
            *word = if value { *word | mask } else { *word & !mask };
            at = (at / 64 + 1) * 64;
        }
    }

    /// Returns how many bits of `from..to` are set.
    pub(crate) fn count(&self, from: u64, to: u64) -> u64 {
        if self.is_blank() {
            return 0;
        }
        let mut at = from;
        let mut count = 0;
        while at < to {
            count += u64::from((self.word(at) & word_mask(at, to)).count_ones());
            at = (at / 64 + 1) * 64;
        }
        count
    }

    /// Returns the last set bit.
    pub(crate) fn last(&self) -> Option<u64> {
        let words = self.0.as_deref()?;
        let index = words.iter().rposition(|&word| word != 0)?;
        Some(index as u64 * 64 + 63 - u64::from(words[index].leading_zeros()))
    }

    #[inline]
    fn word(&self, at: u64) -> u64 {
        self.words()[(at / 64) as usize]
    }
}

/// Returns the bits of the word that holds `at` which lie in `at..to`.
fn word_mask(at: u64, to: u64) -> u64 {
    let low = at % 64;
    let high = (low + (to - at)).min(64);
    (u64::MAX << low) & (u64::MAX >> (64 - high))
}

/// Returns the first unit in `from..to` whose bit is set in the words that `word` returns, or `to`.
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

/// A count of units in whole pages, over runs that may go on from one chunk to the next.
#[derive(Debug)]
pub(crate) struct PageCount {
    page_units: u64,
    /// The units in whole pages of the runs that ended.
    units: u64,
    /// The units so far of the run that has not ended.
    run: u64,
}

impl PageCount {
    /// Begins a count in pages of `page_units`, a power of two.
    pub(crate) fn new(page_units: u64) -> Self {
        debug_assert!(page_units.is_power_of_two());
        PageCount { page_units, units: 0, run: 0 }
    }

    #[inline]
    fn end_run(&mut self) {
        self.units += self.run & !(self.page_units - 1);
        self.run = 0;
    }

    /// Counts the next 64 units, of which the set bits are the ones to count.
    #[inline]
    fn word(&mut self, bits: u64) {
        if bits == u64::MAX {
            self.run += 64;
            return;
        }
        let (mut rest, mut left) = (bits, 64);
        while rest != 0 {
            let zeros = rest.trailing_zeros();
            if zeros > 0 {
                self.end_run();
            }
            rest >>= zeros;
            let ones = rest.trailing_ones();
            self.run += u64::from(ones);
            left -= zeros + ones;
            // There is a zero after these ones, or the word ends.
            rest >>= ones;
        }
        if left > 0 {
            self.end_run();
        }
    }

    /// Returns the number of units in whole pages.
    pub(crate) fn finish(mut self) -> u64 {
        self.end_run();
        self.units
    }
}

/// A chunk; the head of this file has the invariants.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) used: Bits,
    /// The retired units.
    pub(crate) held: Bits,
    pub(crate) saved: Option<Bits>,
    /// The place of the chunk in the last save.
    pub(crate) place: Option<PagePtr>,
    pub(crate) free: u64,
    pub(crate) no_fit: u64,
    pub(crate) first_free: u64,
    /// The units that are known to take no disk space.
    pub(crate) holes: Bits,
    /// The units, including used ones, that are known to have their disk space.
    pub(crate) firm: Bits,
    /// The bits of the last save, once they were requested; `None` if they have changed since.
    pub(crate) reached: Option<Arc<Bits>>,
}

impl Chunk {
    /// Creates a chunk that covers new units, so that the next save must write it.
    pub(crate) fn fresh() -> Self {
        Chunk {
            used: Bits::none(),
            held: Bits::none(),
            saved: Some(Bits::none()),
            place: None,
            free: 0,
            no_fit: u64::MAX,
            first_free: 0,
            holes: Bits::none(),
            firm: Bits::none(),
            reached: None,
        }
    }

    /// Creates a chunk that was saved at `place`; `units` of its bits are within the map.
    pub(crate) fn loaded(used: Bits, place: PagePtr, units: u64) -> Self {
        let free = units - used.count(0, units);
        let (no_fit, first_free) = (u64::MAX, 0);
        Chunk {
            used,
            held: Bits::none(),
            saved: None,
            place: Some(place),
            free,
            no_fit,
            first_free,
            holes: Bits::none(),
            firm: Bits::none(),
            reached: None,
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.saved.is_some()
    }

    /// Marks the chunk as dirty. Call it before `used` changes.
    pub(crate) fn dirty(&mut self) {
        if self.saved.is_none() {
            self.saved = Some(self.used.clone());
        }
    }

    /// Marks the free units `from..to` as used.
    pub(crate) fn take(&mut self, from: u64, to: u64) {
        self.used.fill(from, to, true);
        self.free -= to - from;
        self.holes.fill(from, to, false);
        if from <= self.first_free && self.first_free < to {
            self.first_free = to;
        }
    }

    /// Marks the units `from..to`, which are no longer used or held, as free.
    pub(crate) fn give(&mut self, from: u64, to: u64) {
        self.free += to - from;
        self.first_free = self.first_free.min(from);
    }

    /// Returns how many free units take disk space, as far as is known.
    pub(crate) fn backed(&self) -> u64 {
        self.free - self.holes.count(0, CHUNK_UNITS)
    }

    #[inline]
    fn taken_word(&self, at: u64) -> u64 {
        self.used.word(at) | self.held.word(at)
    }

    #[inline]
    fn firm_word(&self, at: u64) -> u64 {
        self.firm.word(at) & !self.taken_word(at)
    }

    /// Returns the first free firm unit in `from..to`, or `to`.
    pub(crate) fn next_firm(&self, from: u64, to: u64) -> u64 {
        if self.firm.is_blank() { to } else { next(from, to, |at| self.firm_word(at)) }
    }

    /// Returns the first unit in `from..to` that is not both free and firm, or `to`.
    pub(crate) fn next_not_firm(&self, from: u64, to: u64) -> u64 {
        next(from, to, |at| !self.firm_word(at))
    }

    /// Counts the free firm units among the first `len`, a word at a time: a map has tens of thousands of short runs.
    pub(crate) fn count_firm(&self, len: u64, count: &mut PageCount) {
        if self.firm.is_blank() {
            return count.end_run();
        }
        for at in (0..len).step_by(64) {
            count.word(self.firm_word(at) & word_mask(at, len));
        }
    }

    /// Returns the next run, in `from..to`, of free units that are not known to have disk space.
    pub(crate) fn next_doubtful_run(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let other = |at| self.taken_word(at) | self.firm_word(at);
        let begin = next(from, to, |at| !other(at));
        (begin < to).then(|| (begin, next(begin, to, other)))
    }

    /// Returns the first free unit in `from..to`, or `to`.
    pub(crate) fn next_free(&self, from: u64, to: u64) -> u64 {
        next(from, to, |at| !self.taken_word(at))
    }

    /// Returns the first unit in `from..to` that is not free, or `to`.
    pub(crate) fn next_taken(&self, from: u64, to: u64) -> u64 {
        next(from, to, |at| self.taken_word(at))
    }

    /// Returns the next run, in `from..to`, of free units that take disk space.
    pub(crate) fn next_backed_run(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let other = |at| self.taken_word(at) | self.holes.word(at);
        let begin = next(from, to, |at| !other(at));
        (begin < to).then(|| (begin, next(begin, to, other)))
    }

    /// Counts the free units among the first `units`, the only ones that the map covers.
    pub(crate) fn recount(&mut self, units: u64) {
        self.free = units - self.used.count(0, units) - self.held.count(0, units);
        (self.no_fit, self.first_free) = (u64::MAX, 0);
        self.holes.fill(units, CHUNK_UNITS, false);
        self.firm.fill(units, CHUNK_UNITS, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    #[test]
    fn firm_units_are_counted_in_whole_pages() {
        let mut random = Random::seeded(5);
        for longest in [3, 20, 200, 3000] {
            let mut chunks = [Chunk::fresh(), Chunk::fresh(), Chunk::fresh()];
            let lens = [CHUNK_UNITS, CHUNK_UNITS, 1 + random.below(CHUNK_UNITS)];
            let mut is_firm = vec![false; lens.iter().sum::<u64>() as usize];
            let mut at = 0;
            while at < is_firm.len() {
                let end = is_firm.len().min(at + 1 + random.below(longest) as usize);
                is_firm[at..end].fill(random.chance(2, 3));
                at = end;
            }
            for (at, _) in is_firm.iter().enumerate().filter(|(_, is_firm)| **is_firm) {
                let (index, at) = (at as u64 / CHUNK_UNITS, at as u64 % CHUNK_UNITS);
                chunks[index as usize].firm.fill(at, at + 1, true);
            }
            for page_units in [1, 4, 16] {
                let mut count = PageCount::new(page_units);
                chunks.iter().zip(lens).for_each(|(chunk, len)| chunk.count_firm(len, &mut count));
                let runs = is_firm.chunk_by(|one, other| one == other).filter(|run| run[0]);
                let expected: u64 = runs.map(|run| run.len() as u64 / page_units * page_units).sum();
                assert_eq!(count.finish(), expected, "runs of up to {longest}, pages of {page_units} units");
            }
        }
    }
}
