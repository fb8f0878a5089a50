//! Filters in memory: one look costs a search in a short array and one cache line of the bits.
//!
//! A [filter](crate::filter) is a run, and asking it reads a page a level. A table of many runs asks one filter after
//! the other, and waits for memory several times each. A *resident filter* has the same stretches in arrays: the first
//! bytes of their least keys, which are searched, and their blocks, end to end. Several are asked together, so that
//! their waits overlap.
//!
//! # Rules
//! 1. It is made from the pages of a filter that no longer grows, and returns the same results.
//! 2. A delta whose front was cut off keeps the resident filter of before, which knows more keys: a key that passes
//!    wrongly is looked for in the records, and not found.
//! 3. Clones of a delta share it. It is set once, at any time, while others read.

use crate::cursor::Cursor;
use crate::descriptor::Run;
use crate::filter::{BLOCK_BYTES, Probe, block_of, is_in_block, no_stretch, probes_of};
use base::budget::Charge;
use base::keys::head8;
use base::prefetch::prefetch;
use base::slots::Reader;
use base::{Error, Result};
use page::Value;
use pool::Pool;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A block of bits, in a cache line of its own.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block([u8; BLOCK_BYTES]);

/// A filter in memory; see the module.
pub struct Resident {
    /// The bytes with which all least keys begin.
    prefix: Box<[u8]>,
    /// The first eight bytes of each least key after the prefix, in ascending order.
    heads: Vec<u64>,
    /// The least keys after the prefix, end to end, and where each ends: they decide among equal heads.
    lows: Vec<u8>,
    low_ends: Vec<u32>,
    /// The first block of each stretch, and the number of all.
    starts: Vec<u32>,
    /// The probes of each stretch.
    probes: Vec<u8>,
    blocks: Vec<Block>,
    charge: Charge,
}

/// A key's block in a resident filter. A key before all stretches has none.
#[derive(Clone, Copy)]
pub(crate) struct KeyBlock<'r> {
    block: Option<(&'r Block, u8)>,
}

impl KeyBlock<'_> {
    /// Returns whether the filter can have the key of `probe`, for which this block was found.
    #[inline]
    pub fn may_hold(self, probe: Probe<'_>) -> bool {
        self.block.is_some_and(|(block, probes)| is_in_block(&block.0, probes, probe.hash))
    }
}

impl Resident {
    /// Returns about how many bytes the resident form of `filter` takes.
    pub fn bytes_of(filter: &Run, page_bytes: usize) -> usize {
        usize::try_from(filter.leaves).unwrap_or(usize::MAX).saturating_mul(page_bytes)
    }

    /// Returns how many bytes it takes.
    fn bytes(&self) -> usize {
        let Resident { prefix, heads, lows, low_ends, starts, probes, blocks, charge: _ } = self;
        let places = 4 * (low_ends.capacity() + starts.capacity()) + 8 * heads.capacity();
        prefix.len() + lows.capacity() + places + probes.capacity() + BLOCK_BYTES * blocks.capacity()
    }

    /// Finds the block of the probe's key, and prefetches it. O(log n) in the number of stretches.
    #[inline]
    pub(crate) fn block(&self, probe: Probe<'_>) -> KeyBlock<'_> {
        let Some(at) = self.stretch_of(probe.key) else { return KeyBlock { block: None } };
        let stretch = &self.blocks[self.starts[at] as usize..self.starts[at + 1] as usize];
        let block = &stretch[block_of(probe.hash, stretch.len())];
        prefetch(std::ptr::from_ref(block));
        KeyBlock { block: Some((block, self.probes[at])) }
    }

    /// Returns the stretch that the key is in, or `None` if it is before the first.
    #[inline]
    fn stretch_of(&self, key: &[u8]) -> Option<usize> {
        let rest = if self.prefix.is_empty() {
            // `memcmp` of no bytes, at the address of an empty box, took 100 ns where it was measured (with AVX-512).
            key
        } else if let Some(rest) = key.strip_prefix(&*self.prefix) {
            rest
        } else {
            return if key < &*self.prefix { None } else { self.heads.len().checked_sub(1) };
        };
        let head = head8(rest);
        let after = self.heads.partition_point(|&other| other <= head);
        let at = after.checked_sub(1)?;
        if self.heads[at] == head { self.stretch_among_equals(rest, head, after) } else { Some(at) }
    }

    /// Returns the stretch that a key is in, or `None` if it is before the first, if stretches up to `after` have the
    /// key's head. `rest` is the key without the prefix.
    #[cold]
    fn stretch_among_equals(&self, rest: &[u8], head: u64, after: usize) -> Option<usize> {
        let first = self.heads.partition_point(|&other| other < head);
        let equals = &self.low_ends[first..after];
        let low = |at: usize| {
            let begin = at.checked_sub(1).map_or(0, |before| self.low_ends[before]);
            &self.lows[begin as usize..self.low_ends[at] as usize]
        };
        let (mut least, mut most) = (0, equals.len());
        while least < most {
            let middle = least.midpoint(most);
            if low(first + middle) <= rest { least = middle + 1 } else { most = middle }
        }
        (first + least).checked_sub(1)
    }
}

/// A resident filter that is being read, a part at a time.
#[derive(Debug)]
pub struct Loader {
    /// The least keys, end to end, and where each ends.
    lows: Vec<u8>,
    ends: Vec<u32>,
    starts: Vec<u32>,
    probes: Vec<u8>,
    blocks: Vec<Block>,
    charge: Charge,
}

impl Loader {
    /// Creates a loader of a filter whose resident form is paid with `charge`.
    pub fn new(charge: Charge) -> Loader {
        let (lows, ends, starts) = (Vec::new(), Vec::new(), vec![0]);
        // The charge is for all of the filter's pages. What is not used is never touched, and given back at the end.
        let blocks = Vec::with_capacity(charge.bytes() / BLOCK_BYTES);
        Loader { lows, ends, starts, probes: Vec::new(), blocks, charge }
    }

    /// Reads the next stretches of `filter`, which is the same in each call, at most `most`. Returns whether all were
    /// read. The reader must be in no epoch.
    ///
    /// Errors: those of reading pages; [`Corruption`](base::ErrorKind::Corruption) if a value is not a stretch.
    pub fn read_on(&mut self, filter: Run, pool: &Pool, reader: &Reader, most: usize) -> Result<bool> {
        let mut cursor = Cursor::new(filter);
        match last_of(&self.lows, &self.ends) {
            None => cursor.seek_first(pool, reader)?,
            Some(last) => cursor.seek(pool, reader, last)? && cursor.next(pool, reader)?,
        };
        for _ in 0..most {
            let Some((low, value)) = cursor.entry() else { return Ok(true) };
            let Value::Inline(stretch) = value else { return Err(no_stretch(0)) };
            let probes = probes_of(stretch).ok_or_else(|| no_stretch(stretch.len()))?;
            let blocks = stretch[1..].as_chunks().0;
            let (end, start) =
                (place(self.lows.len() + low.len())?, place(self.blocks.len() + blocks.len())?);
            self.lows.extend_from_slice(low);
            self.ends.push(end);
            self.probes.push(probes);
            self.blocks.extend(blocks.iter().map(|block| Block(*block)));
            self.starts.push(start);
            cursor.next(pool, reader)?;
        }
        Ok(cursor.entry().is_none())
    }

    /// Returns the resident filter of the stretches that were read.
    pub fn finish(self) -> Resident {
        let Loader { lows, ends, mut starts, mut probes, mut blocks, charge } = self;
        let (prefix, lows, low_ends) = without_prefix(lows, ends);
        let begins = std::iter::once(0).chain(low_ends.iter().map(|&end| end as usize));
        let heads = begins.zip(&low_ends).map(|(begin, &end)| head8(&lows[begin..end as usize])).collect();
        starts.shrink_to_fit();
        probes.shrink_to_fit();
        blocks.shrink_to_fit();
        let mut resident = Resident { prefix, heads, lows, low_ends, starts, probes, blocks, charge };
        let bytes = resident.bytes();
        resident.charge.shrink_to(bytes);
        resident
    }
}

/// Returns the last of some keys.
fn last_of<'k>(keys: &'k [u8], ends: &[u32]) -> Option<&'k [u8]> {
    let begin = ends.len().checked_sub(2).map_or(0, |before| ends[before] as usize);
    ends.last().map(|&end| &keys[begin..end as usize])
}

/// Takes the bytes with which all keys begin from them, and returns these, the keys, and where each ends.
fn without_prefix(keys: Vec<u8>, ends: Vec<u32>) -> (Box<[u8]>, Vec<u8>, Vec<u32>) {
    let first = &keys[..ends.first().map_or(0, |&end| end as usize)];
    let last = last_of(&keys, &ends).unwrap_or_default();
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let prefix: Box<[u8]> = first[..common].into();
    let (mut rests, mut rest_ends, mut begin) = (Vec::with_capacity(keys.len()), Vec::new(), 0);
    for end in ends {
        rests.extend_from_slice(&keys[begin + common..end as usize]);
        // Not more than `end`, which fits.
        rest_ends.push(rests.len() as u32);
        begin = end as usize;
    }
    (prefix, rests, rest_ends)
}

fn place(at: usize) -> Result<u32> {
    u32::try_from(at).map_err(|_| Error::invalid("a filter is too long to be kept in memory"))
}

impl fmt::Debug for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a resident filter of {} stretches, {} blocks", self.heads.len(), self.blocks.len())
    }
}

/// The place of a delta's resident filter, which clones of the delta share.
#[derive(Clone, Debug, Default)]
pub struct Residence(Arc<OnceLock<Resident>>);

impl Residence {
    /// Returns the resident filter, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&Resident> {
        self.0.get()
    }

    /// Sets the resident filter, unless there is one.
    pub fn set(&self, resident: Resident) {
        // The other one has the same answers.
        let _ = self.0.set(resident);
    }
}

/// Two deltas are equal whether or not their filters are in memory.
impl PartialEq for Residence {
    fn eq(&self, _: &Residence) -> bool {
        true
    }
}
