//! The extents that each checkpoint with readers reaches: the used units of its own map.
//!
//! A retired extent is kept for the readers of a checkpoint only if it is used in that checkpoint's map. So an extent
//! that was allocated and retired since a reader began does not wait for that reader, whether it is a page of a tree,
//! of an LSM run or a filter, or a large value. If the birth of a page is known, it gives the same result and costs
//! less.
//!
//! 1. [`Space::save`] records the bits that it has written, shared with the save before if a chunk has not changed.
//!    They are dropped with the readers of their checkpoint.
//! 2. Extents that only the log refers to are in no map, but a reader of the memtables of their time reaches them. When
//!    a checkpoint adopts them, they are added to the maps from their allocation on.
//! 3. A checkpoint whose map is not known (for example because another process reads it) is assumed to reach
//!    everything.
//!
//! Memory: 4 KiB for each changed chunk (128 MiB of file) and checkpoint that is read.

use crate::chunk::{Bits, CHUNK_UNITS, Chunk};
use crate::map::{MAX_UNITS, Retired, Space};
use crate::named::NamedNeed;
use crate::root::Extent;
use base::limits::UNIT_BYTES;
use base::{CheckpointNo, CommitTs, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of newest maps that are kept although no reader uses their checkpoints, because a reader may begin to.
const RECENT: usize = 3;

/// The maps of checkpoints, each with its chunks.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    maps: BTreeMap<CheckpointNo, Vec<Arc<Bits>>>,
    /// The newest checkpoint when each extent that only the log refers to was allocated.
    births: BTreeMap<u64, CheckpointNo>,
}

impl Space {
    /// Records the current map, without the extents that only the log refers to, as that of checkpoint `at`. Called
    /// after each save, and once after a map was loaded.
    pub fn note_reached(&mut self, at: CheckpointNo) {
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for index in 0..self.chunks.len() {
            let chunk = &self.chunks[index];
            let bits = match &chunk.reached {
                Some(bits) => Arc::clone(bits),
                None => Arc::new(chunk.saved.as_ref().unwrap_or(&chunk.used).clone()),
            };
            self.chunks[index].reached = Some(Arc::clone(&bits));
            chunks.push(bits);
        }
        self.reached.maps.insert(at, chunks);
        // A process has no readers before it loads a map. Without readers, the newest maps are enough.
        while self.reached.maps.len() > RECENT && self.readers.is_empty() {
            self.reached.maps.pop_first();
        }
    }

    /// Records that an extent that only the log refers to was allocated at `unit`.
    pub(crate) fn note_logged(&mut self, unit: u64) {
        let newest = self.reached.maps.last_key_value().map_or(CheckpointNo(0), |(at, _)| *at);
        // A commit may still come before the switch to the checkpoint that was saved last.
        self.reached.births.insert(unit, CheckpointNo(newest.0.saturating_sub(1)));
    }

    /// Drops the record of the extent at `unit`.
    pub(crate) fn forget_logged(&mut self, unit: u64) {
        self.reached.births.remove(&unit);
    }

    /// Returns the newest checkpoint, twice: as the one of retirement and as the birth of something that no reader
    /// reaches.
    pub(crate) fn newest_reached(&self) -> (CheckpointNo, CheckpointNo) {
        let newest = self.reached.maps.last_key_value().map_or(CheckpointNo(0), |(at, _)| *at);
        (newest, newest)
    }

    /// Applies rule 2.
    pub(crate) fn reach_adopted(&mut self, extent: Extent) {
        let birth = self.reached.births.get(&extent.unit).copied().unwrap_or(CheckpointNo(0));
        self.reached.maps.range_mut(birth..).for_each(|(_, chunks)| add(chunks, extent));
    }

    /// Splits `retired`, which checkpoint `at` does not reach, into what one of `readers` (ascending) reaches, with the
    /// first of them as its birth, and what none reaches.
    pub(crate) fn split_read(
        &self,
        retired: Retired,
        at: CheckpointNo,
        readers: &[CheckpointNo],
    ) -> (Vec<Retired>, Vec<Extent>) {
        let first = readers.partition_point(|&reader| reader < retired.birth);
        let end = readers.partition_point(|&reader| reader < at);
        let (mut kept, mut free) = (Vec::new(), vec![retired.extent]);
        for &reader in readers.get(first..end).unwrap_or_default() {
            let Some(chunks) = self.reached.maps.get(&reader) else {
                kept.extend(free.drain(..).map(|extent| Retired { extent, birth: reader }));
                break;
            };
            let mut left = Vec::new();
            for extent in free {
                split(chunks, extent, |part, is_read| match is_read {
                    true => kept.push(Retired { extent: part, birth: reader }),
                    false => left.push(part),
                });
            }
            free = left;
            if free.is_empty() {
                break;
            }
        }
        (kept, free)
    }

    /// Returns the used units of checkpoint `at`, by chunk, if they are known.
    pub(crate) fn reached_by(&self, at: CheckpointNo) -> Option<&Vec<Arc<Bits>>> {
        self.reached.maps.get(&at)
    }

    /// Drops the maps that are no longer needed.
    pub(crate) fn forget_maps(&mut self, readers: &[CheckpointNo]) {
        self.readers = readers.to_vec();
        let recent = self.reached.maps.keys().rev().nth(RECENT - 1).copied().unwrap_or(CheckpointNo(0));
        self.reached.maps.retain(|at, _| *at >= recent || readers.binary_search(at).is_ok());
    }
}

/// The methods for extents that the log names: see `named`.
impl Space {
    /// Records that commits up to `absorbed` name what the checkpoint that was just saved has adopted.
    pub fn note_named(&mut self, absorbed: CommitTs) {
        let saved = std::mem::take(&mut self.named.saved);
        if !saved.is_empty() {
            self.named.lists.entry(absorbed).or_default().extend(saved);
        }
        self.named.forget();
    }

    /// Sets the commits after which the extents that commits name are not released; extents that only older commits
    /// name are.
    pub fn need_named(&mut self, need: NamedNeed) {
        self.named.needed = need;
        self.named.forget();
    }

    /// Keeps an extent that a commit up to `absorbed` names, after a map was loaded. The free part of it waits as if it
    /// had been retired; the rest is kept when it is retired.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if the extent is past the file's end.
    pub fn keep_named(&mut self, unit: u64, units: u64, absorbed: CommitTs) -> Result<()> {
        let file_units = (self.file.len()? / UNIT_BYTES as u64).min(MAX_UNITS);
        if unit < self.reserved || units == 0 || unit.checked_add(units).is_none_or(|end| end > file_units) {
            return Err(self.corrupt(format!("the log refers to units {unit}+{units} of {file_units}")));
        }
        if unit + units > self.units {
            self.cover(unit + units);
        }
        let (at, birth) = self.newest_reached();
        let end = unit + units;
        let mut from = self.next_in_chunks(unit, end, Chunk::next_free);
        while from < end {
            let to = self.next_in_chunks(from, end, Chunk::next_taken);
            let extent = Extent { unit: from, units: to - from };
            self.set_used(extent);
            self.set_held(extent);
            self.retired.entry(at).or_default().push(Retired { extent, birth });
            from = self.next_in_chunks(to, end, Chunk::next_free);
        }
        self.named.lists.entry(absorbed).or_default().insert(unit, units);
        Ok(())
    }

    /// Returns the units that the last [`Space::release`] kept because a commit that followers of the log need names
    /// them.
    pub fn followed_units(&self) -> u64 {
        self.named.followed_units
    }

    /// Returns the units that the last [`Space::release`] kept because commits that validation needs name them, each
    /// count with the last commit that the checkpoint absorbed which adopted them.
    pub fn validated_units(&self) -> &BTreeMap<CommitTs, u64> {
        &self.named.validated_units
    }
}

/// Adds an extent to the used units in `chunks`.
pub(crate) fn add(chunks: &mut Vec<Arc<Bits>>, extent: Extent) {
    let mut at = extent.unit;
    while at < extent.end() {
        let (index, base) = ((at / CHUNK_UNITS) as usize, at / CHUNK_UNITS * CHUNK_UNITS);
        let to = (extent.end() - base).min(CHUNK_UNITS);
        if index >= chunks.len() {
            chunks.resize_with(index + 1, || Arc::new(Bits::none()));
        }
        Arc::make_mut(&mut chunks[index]).fill(at - base, to, true);
        at = base + to;
    }
}

/// Calls `show` with the parts of `extent`, from left to right, whose units are all set in `chunks` or all clear.
/// O(units / 64).
fn split(chunks: &[Arc<Bits>], extent: Extent, mut show: impl FnMut(Extent, bool)) {
    let none = Bits::none();
    let (mut part, mut is_read) = (Extent { unit: extent.unit, units: 0 }, false);
    while part.end() < extent.end() {
        let (at, base) = (part.end(), part.end() / CHUNK_UNITS * CHUNK_UNITS);
        let bits = chunks.get((at / CHUNK_UNITS) as usize).map_or(&none, |bits| &**bits);
        if part.units > 0 && bits.get(at - base) != is_read {
            show(part, is_read);
            part = Extent { unit: at, units: 0 };
        }
        is_read = bits.get(at - base);
        part.units = base + bits.run_end(at - base, CHUNK_UNITS.min(extent.end() - base)) - part.unit;
    }
    if part.units > 0 {
        show(part, is_read);
    }
}
