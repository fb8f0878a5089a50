//! Filters, which say whether a run can have a key without reading its pages.
//!
//! A filter is a small run of its own. Each of its records stands for a *stretch* of the filtered run: the record's key
//! is the least byte string after the previous stretch, and its value is a blocked Bloom filter of the stretch's keys
//! (Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007):
//!
//! | bytes | field |
//! |---|---|
//! | 0 | probes: bits that a key sets, 1-16 |
//! | 1- | blocks of 64 bytes, at least one |
//!
//! A key's 64-bit hash `h` (XXH3) chooses block `(h >> 32) * blocks >> 32`; then, with `x` the lower half of `h`, each
//! probe multiplies `x` by 0x9e3779b9 (mod 2^32) and sets bit `x >> 23` of the block: bit `b` is bit `b % 8` of byte
//! `b / 8`.
//!
//! # Why filters have stretches of keys
//! They need no count beforehand and no more memory than one stretch takes, however long the run. A merge writes them
//! as it proceeds, continues where it stopped, and cuts off what it has consumed. One look costs the levels of a run
//! about a hundredth as large, whose pages stay in the pool, and one line of a block.
//!
//! # Rules
//! 1. A run's filter knows every key of the run, including deletes: there are no false negatives. `check` compares the
//!    two.
//! 2. Separators of a filter's inner pages are whole keys: a key between two stretches would otherwise be looked up in
//!    the leaf after its own. So a filter is built, cut and moved, never edited.
//! 3. If a run has no filter, the run itself is read.
//! 4. A filter's pages name no table: salvage, which identifies pages by that, would take stretches for records.

use crate::allocate::Allocate;
use crate::build::Builder;
use crate::cursor::Cursor;
use crate::descriptor::{Run, expect_leaf};
use crate::get::{descend, foresee};
use crate::write_context::WriteContext;
use base::limits::max_inline_bytes;
use base::prefetch::prefetch;
use base::slots::EpochGuard;
use base::sync::Mutex;
use base::{CheckpointNo, Error, PagePtr, Result, checksum};
use page::{Page, Value};
use pool::{Hint, Pool};
use space::Space;

pub(crate) const BLOCK_BYTES: usize = 64;
/// The shift that gives a probe's bit: a block has 512 bits.
const BIT_SHIFT: u32 = 32 - 9;
const MOST_PROBES: u8 = 16;

/// A key, and its hash, which is computed once for all filters that are asked.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'k> {
    /// The key.
    pub key: &'k [u8],
    pub(crate) hash: u64,
}

impl<'k> Probe<'k> {
    /// Creates a probe of `key`.
    #[inline]
    pub fn new(key: &'k [u8]) -> Self {
        Probe { key, hash: checksum::key(key) }
    }
}

/// The number of bits for each key. One in a hundred absent keys passes at 10, one in a thousand at 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitsPerKey(pub u8);

impl BitsPerKey {
    /// Returns the best number of probes, ln 2 of the bits.
    fn probes(self) -> u8 {
        ((u32::from(self.0) * 69).div_ceil(100) as u8).clamp(1, MOST_PROBES)
    }
}

/// Returns whether a run with the filter `filter` can have the probe's key. Reads a page a level of the filter.
///
/// Errors: those of reading a page; [`Corruption`](base::ErrorKind::Corruption) if a value is not a stretch.
#[inline]
pub fn may_hold(filter: &Run, pool: &Pool, guard: &mut EpochGuard<'_>, probe: Probe<'_>) -> Result<bool> {
    let Some((root, level)) = filter.top() else { return Ok(true) };
    let (ptr, hint) = descend(pool, guard, root, level, probe.key)?;
    let leaf = pool.read_hinted(guard, ptr, hint)?;
    expect_leaf(leaf.page(), ptr, false)?;
    match stretch_of(leaf.page(), probe.key) {
        Some(at) => holds_at(leaf.page(), at, probe),
        None => Ok(false),
    }
}

/// The place of a key's bits, as far as [`foresee`] found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreseen<'p> {
    leaf: PagePtr,
    hint: Hint<'p>,
    /// The index of the stretch, once the leaf was read.
    stretch: Option<usize>,
}

impl<'p> Foreseen<'p> {
    /// Returns the leaf of a filter with the key's stretch, and prefetches it. Returns `None` if that needs a page that
    /// is not in memory: nothing is read, and nothing fails.
    #[inline]
    pub fn leaf(filter: &Run, pool: &'p Pool, guard: &mut EpochGuard<'_>, key: &[u8]) -> Option<Self> {
        let (leaf, hint) = foresee(pool, guard, filter.top()?, key)?;
        Some(Foreseen { leaf, hint, stretch: None })
    }

    /// Prefetches the key's block, if the leaf is in memory.
    #[inline]
    pub fn fetch_block(&mut self, pool: &Pool, guard: &mut EpochGuard<'_>, probe: Probe<'_>) {
        let Some(leaf) = pool.resident(guard, self.leaf, self.hint) else { return };
        let page = leaf.page();
        // A page that is not a filter's leaf is rejected when it is asked.
        if expect_leaf(page, self.leaf, false).is_ok()
            && let Some(at) = stretch_of(page, probe.key)
            && let Value::Inline(stretch) = page.value(at)
        {
            let blocks = stretch.len() / BLOCK_BYTES;
            prefetch(stretch.as_ptr().wrapping_add(1 + block_of(probe.hash, blocks) * BLOCK_BYTES));
            self.stretch = Some(at);
        }
    }

    /// Returns [`may_hold`] of that filter, if its stretch is known.
    #[inline]
    pub fn may_hold(self, pool: &Pool, guard: &mut EpochGuard<'_>, probe: Probe<'_>) -> Option<Result<bool>> {
        let at = self.stretch?;
        // A pointer has its page's checksum, so it names the page that was read before.
        Some(pool.read_hinted(guard, self.leaf, self.hint).and_then(|leaf| holds_at(leaf.page(), at, probe)))
    }
}

/// Returns the stretch of `leaf` that the key is in, or `None` if it is before the first.
#[inline]
fn stretch_of(leaf: Page<'_>, key: &[u8]) -> Option<usize> {
    leaf.search(key).map_or_else(|behind| behind.checked_sub(1), Some)
}

#[inline]
fn holds_at(leaf: Page<'_>, at: usize, probe: Probe<'_>) -> Result<bool> {
    match leaf.value(at) {
        Value::Inline(stretch) => holds(stretch, probe.hash).ok_or_else(|| no_stretch(stretch.len())),
        Value::Large(..) | Value::Deleted => Err(no_stretch(0)),
    }
}

/// Returns the block of `hash` among `blocks`.
#[inline]
pub(crate) fn block_of(hash: u64, blocks: usize) -> usize {
    (((hash >> 32) * blocks as u64) >> 32) as usize
}

/// Returns whether the stretch can hold `hash`, or `None` if the bytes are not a stretch.
#[inline]
fn holds(stretch: &[u8], hash: u64) -> Option<bool> {
    let probes = probes_of(stretch)?;
    let blocks = &stretch[1..];
    let at = block_of(hash, blocks.len() / BLOCK_BYTES) * BLOCK_BYTES;
    Some(is_in_block(blocks[at..].first_chunk()?, probes, hash))
}

/// Returns the probes of the stretch, or `None` if the bytes are not a stretch.
#[inline]
pub(crate) fn probes_of(stretch: &[u8]) -> Option<u8> {
    let (&probes, blocks) = stretch.split_first()?;
    let is_stretch =
        (1..=MOST_PROBES).contains(&probes) && !blocks.is_empty() && blocks.len().is_multiple_of(BLOCK_BYTES);
    is_stretch.then_some(probes)
}

/// Returns whether all bits of `hash` are set in its block.
#[inline]
pub(crate) fn is_in_block(block: &[u8; BLOCK_BYTES], probes: u8, hash: u64) -> bool {
    let (mut x, mut all) = (hash as u32, 1);
    // The loop runs to the end, even if a bit is missing: half of them are set, so an early exit could not be
    // predicted.
    for _ in 0..probes {
        x = x.wrapping_mul(0x9e37_79b9);
        let bit = (x >> BIT_SHIFT) as usize;
        all &= block[bit / 8] >> (bit % 8);
    }
    all & 1 != 0
}

/// Writes the stretch of `hashes` into `stretch`.
fn fill(stretch: &mut Vec<u8>, hashes: &[u64], bits: BitsPerKey) {
    let blocks = (hashes.len() * usize::from(bits.0)).div_ceil(BLOCK_BYTES * 8).max(1);
    stretch.clear();
    stretch.push(bits.probes());
    stretch.resize(1 + blocks * BLOCK_BYTES, 0);
    for &hash in hashes {
        let block = &mut stretch[1 + block_of(hash, blocks) * BLOCK_BYTES..][..BLOCK_BYTES];
        let mut x = hash as u32;
        for _ in 0..bits.probes() {
            x = x.wrapping_mul(0x9e37_79b9);
            let bit = (x >> BIT_SHIFT) as usize;
            block[bit / 8] |= 1 << (bit % 8);
        }
    }
}

#[cold]
pub(crate) fn no_stretch(bytes: usize) -> Error {
    Error::corruption(format!("filter: an entry of {bytes} bytes has no valid length"))
}

/// Returns the part of `filter` that the records at or after `key` need.
///
/// Errors: those of [`Run::cut`].
pub fn cut(filter: Run, context: WriteContext<'_>, key: &[u8]) -> Result<Run> {
    let mut cursor = Cursor::new(filter);
    // The stretch of the key itself stays whole.
    let found = match cursor.seek(context.pool, context.reader, key)? {
        true if cursor.entry().is_some_and(|(low, _)| low == key) => true,
        _ => cursor.seek_before(context.pool, context.reader, key)?,
    };
    let low = cursor.entry().filter(|_| found).map(|(low, _)| low.to_vec());
    drop(cursor);
    low.map_or(Ok(filter), |low| filter.cut(context, &low))
}

/// Builds a filter, key by key in ascending order, together with the run of these keys.
pub struct FilterBuilder<'a, A> {
    builder: Builder<'a, A>,
    bits: BitsPerKey,
    /// The number of keys of a full stretch.
    most: usize,
    /// The key of the current stretch, and the hashes of its keys.
    low: Vec<u8>,
    hashes: Vec<u64>,
    /// The key added last.
    last: Vec<u8>,
    stretch: Vec<u8>,
}

impl<'a> FilterBuilder<'a, &'a Mutex<Space>> {
    /// Creates a builder that continues `filter`: [`Builder::resume`].
    pub fn resume(
        filter: Run,
        context: WriteContext<'a>,
        buffer_bytes: usize,
        bits: BitsPerKey,
    ) -> Result<Self> {
        let builder = Builder::resume(filter, context, buffer_bytes)?;
        Ok(Self::over(builder, context.pool.page_bytes(), bits))
    }
}

impl<'a, A: Allocate> FilterBuilder<'a, A> {
    /// Creates a builder of a new filter; see [`Builder::new`].
    pub fn new(pool: &'a Pool, space: A, birth: CheckpointNo, buffer_bytes: usize, bits: BitsPerKey) -> Self {
        let builder = Builder::new(pool, space, birth, buffer_bytes);
        Self::over(builder, pool.page_bytes(), bits)
    }

    fn over(builder: Builder<'a, A>, page_bytes: usize, bits: BitsPerKey) -> Self {
        let blocks = (max_inline_bytes(page_bytes) - 1) / BLOCK_BYTES;
        let most = (blocks * BLOCK_BYTES * 8 / usize::from(bits.0.max(1))).max(1);
        FilterBuilder {
            builder: builder.of_filter(),
            bits,
            most,
            low: Vec::new(),
            hashes: Vec::new(),
            last: Vec::new(),
            stretch: Vec::new(),
        }
    }

    /// Adds a key after all others. Errors as [`Builder::add`].
    #[inline]
    pub fn add(&mut self, key: &[u8]) -> Result<()> {
        if self.hashes.len() == self.most {
            self.end_stretch()?;
        }
        if self.hashes.is_empty() {
            // The shortest key that is greater than the previous one.
            let common = self.last.iter().zip(key).take_while(|(a, b)| a == b).count();
            let is_first = self.last.is_empty();
            self.low.clear();
            self.low.extend_from_slice(if is_first { key } else { &key[..=common] });
        }
        self.hashes.push(checksum::key(key));
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    fn end_stretch(&mut self) -> Result<()> {
        fill(&mut self.stretch, &self.hashes, self.bits);
        self.hashes.clear();
        self.builder.add(&self.low, Value::Inline(&self.stretch))
    }

    /// Writes the remaining stretch, and returns the filter. Errors as [`Builder::finish`].
    pub fn finish(mut self) -> Result<Run> {
        if !self.hashes.is_empty() {
            self.end_stretch()?;
        }
        self.builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    /// Returns n if one in n absent keys passes.
    fn passing(bits: u8) -> f64 {
        let mut random = Random::seeded(u64::from(bits));
        let hashes: Vec<u64> = (0..3000).map(|_| random.next_u64()).collect();
        let mut stretch = Vec::new();
        fill(&mut stretch, &hashes, BitsPerKey(bits));
        assert!(hashes.iter().all(|&hash| holds(&stretch, hash) == Some(true)), "a false negative");
        let tries = 200_000;
        let passed = (0..tries).filter(|_| holds(&stretch, random.next_u64()) == Some(true)).count();
        passed as f64 / f64::from(tries)
    }

    #[test]
    fn absent_keys_pass_as_seldom_as_the_bits_promise() {
        for (bits, most) in [(8, 0.035), (10, 0.015), (12, 0.008), (16, 0.002)] {
            let found = passing(bits);
            assert!(found < most, "{bits} bits: {found}");
        }
    }

    /// The worked example of docs/format.md.
    #[test]
    fn the_example_of_the_format() {
        let hash = checksum::key(b"aspen");
        let mut bits = Vec::new();
        let mut x = hash as u32;
        for _ in 0..3 {
            x = x.wrapping_mul(0x9e37_79b9);
            bits.push(x >> BIT_SHIFT);
        }
        assert_eq!((hash, block_of(hash, 2)), (0x5761_b0f4_006c_ecdb, 0));
        assert_eq!(bits, [431, 144, 40]);
    }

    #[test]
    fn bytes_that_are_no_stretch_are_refused() {
        let good = [&[6][..], &[0xff; 128]].concat();
        assert_eq!(holds(&good, 7), Some(true));
        for bad in
            [&[][..], &[6], &good[..128], &[&[0][..], &[1; 64]].concat(), &[&[17][..], &[1; 64]].concat()]
        {
            assert_eq!(holds(bad, 7), None, "{} bytes", bad.len());
        }
    }
}
