//! Allocation of units: first fit, from the front of the file.
//!
//! Low units stay in use. High units become free as pages are rewritten, and can be cut off (`trim`). So a file under
//! steady writes is no longer than necessary. Two rules nevertheless keep rows of pages together:
//! 1. A request for many pages takes the first free run that holds all of them; otherwise the file grows.
//! 2. While more than [`1 / SCATTERED_SHARE`](SCATTERED_SHARE) of the file is free, in shorter runs, the request takes
//!    fewer pages from these runs, the longest first. That is better than a file full of small gaps.

use crate::chunk::{CHUNK_UNITS, Chunk};
use crate::map::{MAX_UNITS, Space};
use crate::root::Extent;
use base::limits::UNIT_BYTES;
use base::{Error, ErrorKind, PagePtr, Result};

/// Below 256 KiB a file grows by exactly the requested length, so that a new database stays tiny.
const EXACT_GROWTH_UNITS: u64 = 64;
/// Above that it grows by an eighth.
const GROWTH_SHARE: u64 = 8;
/// It grows by at most 16 MiB.
const MAX_GROWTH_UNITS: u64 = 4096;
/// The share of free units above which rule 2 applies.
const SCATTERED_SHARE: u64 = 8;

impl Space {
    /// Allocates `units` contiguous units and returns the first. If no free run is that long, the file grows; a failure
    /// to grow changes nothing. The bytes there are arbitrary. Until the next save a [`revert`](Space::revert) frees
    /// the units.
    ///
    /// First fit. It usually takes O(units / 64) and a few words. A search through a fragmented file visits each chunk
    /// at most once until something is freed in it.
    pub fn allocate(&mut self, units: u64) -> Result<u64> {
        assert!(0 < units && units <= PagePtr::MAX_UNITS, "an extent of {units} units was asked for");
        let unit = match self.find(units) {
            Some(unit) => unit,
            None => self.grow(units)?,
        };
        self.hand_out(Extent { unit, units });
        Ok(unit)
    }

    /// Allocates up to `count` pages of `page_units` each, contiguous: as many as the rules in this file's head allow
    /// at one place, at least one. Returns the errors of [`Space::allocate`] if there is no space for one.
    pub fn allocate_pages(&mut self, page_units: u64, count: u64) -> Result<Extent> {
        assert!(0 < page_units && 0 < count && page_units * count <= PagePtr::MAX_UNITS);
        let mut units = page_units * count;
        let place = self.find(units).or_else(|| {
            while units > page_units && self.is_scattered() {
                units = (units / page_units).div_ceil(2) * page_units;
                if let Some(unit) = self.find(units) {
                    return Some(unit);
                }
            }
            units = page_units * count;
            None
        });
        let unit = match place {
            Some(unit) => unit,
            None => loop {
                match self.grow(units) {
                    Ok(unit) => break unit,
                    // A full disk may still have space for fewer pages, at the end of the file or in a gap.
                    Err(error) if error.kind() == ErrorKind::Full && units > page_units => {
                        units = (units / page_units).div_ceil(2) * page_units;
                        if let Some(unit) = self.find(units) {
                            break unit;
                        }
                    }
                    Err(error) => return Err(error),
                }
            },
        };
        let extent = Extent { unit, units };
        self.hand_out(extent);
        Ok(extent)
    }

    /// Returns whether `units` contiguous units are free that end at or before `border_unit`: the next extent of that
    /// length is allocated there.
    pub fn has_room_before(&mut self, border_unit: u64, units: u64) -> bool {
        self.find(units).is_some_and(|unit| unit + units <= border_unit)
    }

    fn hand_out(&mut self, extent: Extent) {
        self.set_used(extent);
        self.handed_out += extent.units;
    }

    fn is_scattered(&self) -> bool {
        let free: u64 = self.chunks.iter().map(|chunk| chunk.free).sum();
        free > self.units / SCATTERED_SHARE
    }

    /// Returns the start of the first run of `units` free units.
    fn find(&mut self, units: u64) -> Option<u64> {
        (0..self.chunks.len()).find_map(|index| self.find_in(index, units))
    }

    /// Returns the start of the first run of `units` free units that begins in chunk `index`. It may end in a later
    /// one.
    fn find_in(&mut self, index: usize, units: u64) -> Option<u64> {
        let chunk = &self.chunks[index];
        if chunk.free == 0 || chunk.no_fit <= units {
            return None;
        }
        let (base, len) = (index as u64 * CHUNK_UNITS, self.units_of(index));
        let only_firm = self.kept.only;
        let next = |chunk: &Chunk, from| match only_firm {
            true => chunk.next_firm(from, len),
            false => chunk.next_free(from, len),
        };
        let first_free = chunk.next_free(chunk.first_free, len);
        self.chunks[index].first_free = first_free;
        let mut at = next(&self.chunks[index], first_free);
        while at < len {
            let end = self.run_end(base + at, (base + at + units).min(self.units));
            if end - (base + at) >= units {
                return Some(base + at);
            }
            at = if end - base < len { next(&self.chunks[index], end - base) } else { len };
        }
        if !only_firm {
            self.chunks[index].no_fit = units;
        }
        None
    }

    /// Returns the end of the run of free units (or of firm ones, if only those count) that begins at `unit`. Looks no
    /// further than `limit`.
    pub(crate) fn run_end(&self, unit: u64, limit: u64) -> u64 {
        let mut at = unit;
        while at < limit {
            let (index, base) = ((at / CHUNK_UNITS) as usize, at / CHUNK_UNITS * CHUNK_UNITS);
            let to = (limit - base).min(CHUNK_UNITS);
            let chunk = &self.chunks[index];
            let taken = match self.kept.only {
                true => chunk.next_not_firm(at - base, to),
                false => chunk.next_taken(at - base, to),
            };
            at = base + taken;
            if taken < to {
                break;
            }
        }
        at
    }

    /// Lengthens the file so that it ends with `units` free units. Returns the first of them. The free tail counts.
    fn grow(&mut self, units: u64) -> Result<u64> {
        if self.kept.only {
            return self.grow_firmly(units);
        }
        let first = self.tail();
        let target = first + units;
        let step = (self.units / GROWTH_SHARE).min(MAX_GROWTH_UNITS);
        let roomy = if target < EXACT_GROWTH_UNITS { target } else { target.max(self.units + step) };
        let new_units = roomy.min(MAX_UNITS);
        if target > new_units {
            let limit = MAX_UNITS * UNIT_BYTES as u64;
            return Err(Error::new(ErrorKind::Full, format!("a data file holds at most {limit} bytes")));
        }
        let (before, bytes) = (self.units, new_units * UNIT_BYTES as u64);
        let is_longer = self.file.len()? < bytes;
        if is_longer {
            self.file.set_len(bytes)?;
        }
        self.cover(new_units);
        if is_longer {
            self.note_holes(Extent { unit: before, units: new_units - before });
        }
        Ok(first)
    }

    /// Records that the file system keeps no block of these free units.
    pub(crate) fn note_holes(&mut self, extent: Extent) {
        self.each_chunk_untouched(extent, |chunk: &mut Chunk, from, to| {
            chunk.holes.fill(from, to, true);
            chunk.firm.fill(from, to, false);
        });
    }
}
