//! The comparison of the map with what is reachable.

use crate::chunk::{Bits, CHUNK_UNITS};
use crate::map::Space;
use crate::root::Extent;

/// The differences between the map and what is reachable. Neighbouring units are reported as one extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Reachable extents that are not within the map.
    pub outside: Vec<Extent>,
    /// Reachable extents that share units with an earlier one, with the map, or with a superblock.
    pub overlapping: Vec<Extent>,
    /// Reachable extents with units that the map does not have as used, so that they could be overwritten.
    pub unprotected: Vec<Extent>,
    /// Used units that nothing reaches: they are lost space, but no danger.
    pub unreachable: Vec<Extent>,
}

impl CheckReport {
    /// Returns whether the map and the reachable extents agree.
    pub fn is_clean(&self) -> bool {
        *self == CheckReport::default()
    }
}

impl Space {
    /// Compares the map with all extents that the current root reaches. It adds the superblocks, the map's own parts
    /// and the extents that only the log refers to. O(extents + units / 64), with a bit of memory for each unit.
    pub fn check(&self, reachable: impl IntoIterator<Item = Extent>) -> CheckReport {
        let mut report = CheckReport::default();
        let mut seen = vec![Bits::none(); self.chunks.len()];
        for extent in self.own() {
            fill(&mut seen, extent);
        }
        for extent in reachable {
            if extent.unit.checked_add(extent.units).is_none_or(|end| end > self.units) {
                report.outside.push(extent);
                continue;
            }
            if fill(&mut seen, extent) {
                report.overlapping.push(extent);
            }
            if !self.is_used(extent) {
                report.unprotected.push(extent);
            }
        }
        for (&unit, &units) in &self.logged {
            fill(&mut seen, Extent { unit, units });
        }
        report.unreachable = self.used_but_not(&seen);
        report
    }

    fn own(&self) -> impl Iterator<Item = Extent> {
        let places = self.chunks.iter().filter_map(|chunk| chunk.place);
        let map = places.chain(self.directory).chain(self.orphans.iter().copied()).map(Extent::from);
        map.chain([Extent { unit: 0, units: self.reserved }])
    }

    fn used_but_not(&self, seen: &[Bits]) -> Vec<Extent> {
        let mut lost: Vec<Extent> = Vec::new();
        for (index, (chunk, seen)) in self.chunks.iter().zip(seen).enumerate() {
            if chunk.used == *seen {
                continue;
            }
            for at in (0..CHUNK_UNITS).filter(|&at| chunk.used.get(at) && !seen.get(at)) {
                let unit = index as u64 * CHUNK_UNITS + at;
                match lost.last_mut() {
                    Some(last) if last.end() == unit => last.units += 1,
                    _ => lost.push(Extent { unit, units: 1 }),
                }
            }
        }
        lost
    }
}

/// Sets the bits of `extent`. Returns true if one was already set.
fn fill(seen: &mut [Bits], extent: Extent) -> bool {
    let mut overlaps = false;
    let mut at = extent.unit;
    while at < extent.end() {
        let base = at / CHUNK_UNITS * CHUNK_UNITS;
        let to = (extent.end() - base).min(CHUNK_UNITS);
        let bits = &mut seen[(at / CHUNK_UNITS) as usize];
        overlaps |= bits.count(at - base, to) > 0;
        bits.fill(at - base, to, true);
        at = base + to;
    }
    overlaps
}
