//! The comparison of the map with what is reachable.

use crate::chunk::{Bits, CHUNK_UNITS};
use crate::map::Space;
use crate::reached::add;
use crate::root::{Extent, SpaceRoot};
use base::{CheckpointNo, CommitTs};
use std::collections::BTreeMap;
use std::sync::Arc;

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
        let used: Vec<&Bits> = self.chunks.iter().map(|chunk| &chunk.used).collect();
        Compared { used: &used, units: self.units, reserved: self.reserved }.check(
            self.own(),
            reachable,
            self.logged(),
        )
    }

    fn own(&self) -> impl Iterator<Item = Extent> {
        let places = self.chunks.iter().filter_map(|chunk| chunk.place);
        places.chain(self.directory).chain(self.orphans.iter().copied()).map(Extent::from)
    }

    /// Returns the map as the checkpoint `at` has it, which wrote `root` and absorbed the commits up to `absorbed`; and
    /// with the extents that only later commits refer to, or none yet. `None`: the map is not known. The checkpoint
    /// must be the newest one whose superblock is written; a later one may be under way.
    pub fn saved_map(&self, at: CheckpointNo, root: &SpaceRoot, absorbed: CommitTs) -> Option<SavedMap> {
        let mut chunks = self.reached_by(at)?.clone();
        // A checkpoint under way has adopted what it absorbs, and may have saved its map.
        let adopted = self.named.lists.range(CommitTs(absorbed.0 + 1)..).flat_map(|(_, list)| list);
        let logged = self.logged.iter().chain(&self.adopted).chain(&self.named.saved).chain(adopted);
        let logged: BTreeMap<u64, u64> = logged.map(|(&unit, &units)| (unit, units)).collect();
        let extents = || logged.iter().map(|(&unit, &units)| Extent { unit, units });
        extents().for_each(|extent| add(&mut chunks, extent));
        let units = extents().map(Extent::end).fold(root.units.max(self.reserved), u64::max);
        Some(SavedMap { chunks, units, reserved: self.reserved, logged })
    }
}

/// The map of a checkpoint, and the extents that only the log refers to. It stays when the map in memory changes.
#[derive(Clone, Debug)]
pub struct SavedMap {
    /// The used units, those of `logged` included.
    chunks: Vec<Arc<Bits>>,
    units: u64,
    reserved: u64,
    logged: BTreeMap<u64, u64>,
}

impl SavedMap {
    /// Compares the map with all extents that its checkpoint reaches; `own` has the parts of the map
    /// ([`Space::map_parts`]). It adds the superblocks and the extents that only the log refers to. O(extents +
    /// units / 64), with a bit of memory for each unit.
    pub fn check(
        &self,
        own: impl IntoIterator<Item = Extent>,
        reachable: impl IntoIterator<Item = Extent>,
    ) -> CheckReport {
        let used: Vec<&Bits> = self.chunks.iter().map(|bits| &**bits).collect();
        let logged = self.logged.iter().map(|(&unit, &units)| Extent { unit, units });
        Compared { used: &used, units: self.units, reserved: self.reserved }.check(own, reachable, logged)
    }

    /// Returns the extents that only the log refers to, including uncommitted values, as unit and length.
    pub fn logged(&self) -> &BTreeMap<u64, u64> {
        &self.logged
    }
}

/// A map to compare.
struct Compared<'a> {
    used: &'a [&'a Bits],
    units: u64,
    reserved: u64,
}

impl Compared<'_> {
    fn check(
        &self,
        own: impl IntoIterator<Item = Extent>,
        reachable: impl IntoIterator<Item = Extent>,
        logged: impl IntoIterator<Item = Extent>,
    ) -> CheckReport {
        let mut report = CheckReport::default();
        let mut seen = vec![Bits::none(); self.used.len()];
        for extent in own.into_iter().chain([Extent { unit: 0, units: self.reserved }]) {
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
            if !is_used(self.used, extent) {
                report.unprotected.push(extent);
            }
        }
        for extent in logged {
            fill(&mut seen, extent);
        }
        report.unreachable = self.used_but_not(&seen);
        report
    }

    fn used_but_not(&self, seen: &[Bits]) -> Vec<Extent> {
        let mut lost: Vec<Extent> = Vec::new();
        for (index, (used, seen)) in self.used.iter().zip(seen).enumerate() {
            if *used == seen {
                continue;
            }
            for at in (0..CHUNK_UNITS).filter(|&at| used.get(at) && !seen.get(at)) {
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

/// Returns whether all units of an extent are used.
fn is_used(used: &[&Bits], extent: Extent) -> bool {
    let mut at = extent.unit;
    while at < extent.end() {
        let base = at / CHUNK_UNITS * CHUNK_UNITS;
        let to = (extent.end() - base).min(CHUNK_UNITS);
        let count = used.get((at / CHUNK_UNITS) as usize).map_or(0, |bits| bits.count(at - base, to));
        if count < to - (at - base) {
            return false;
        }
        at = base + to;
    }
    true
}

/// Sets the bits of `extent`. Returns true if one was already set.
fn fill(seen: &mut Vec<Bits>, extent: Extent) -> bool {
    let mut overlaps = false;
    let mut at = extent.unit;
    while at < extent.end() {
        let (index, base) = ((at / CHUNK_UNITS) as usize, at / CHUNK_UNITS * CHUNK_UNITS);
        let to = (extent.end() - base).min(CHUNK_UNITS);
        if index >= seen.len() {
            seen.resize_with(index + 1, Bits::none);
        }
        overlaps |= seen[index].count(at - base, to) > 0;
        seen[index].fill(at - base, to, true);
        at = base + to;
    }
    overlaps
}
