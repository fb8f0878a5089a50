//! What each checkpoint reaches that somebody still reads: the used units of its own map.
//!
//! A retired extent is kept for the readers of a checkpoint only if that checkpoint's map has it as used. So whatever
//! came and went since a reader began waits for nobody, of whichever kind it is: a page of a tree, of an LSM run or a
//! filter, a large value. A page's birth, where it is known, says the same and costs less.
//!
//! 1. [`Space::save`] notes the bits that it has written, shared with the save before where a chunk has not changed.
//!    They are forgotten with the readers of their checkpoint.
//! 2. What only the log refers to is in no map, but a reader of the memtables of its time reaches it. When a
//!    checkpoint adopts it, it is added to the maps from its allocation on.
//! 3. A checkpoint whose map is not known (it was read by another process, say) is taken to reach everything.
//!
//! Memory: 4 KiB for each changed chunk (128 MiB of file) and checkpoint that is read.

use crate::chunk::{Bits, CHUNK_UNITS};
use crate::map::{Retired, Space};
use crate::root::Extent;
use base::limits::UNIT_BYTES;
use base::{CheckpointNo, CommitTs, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maps that are kept although nobody reads their checkpoints: somebody may begin to.
const RECENT: usize = 3;

/// The maps by checkpoint, each with its chunks.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    maps: BTreeMap<CheckpointNo, Vec<Arc<Bits>>>,
    /// When what only the log refers to was allocated: the newest checkpoint then.
    births: BTreeMap<u64, CheckpointNo>,
}

impl Space {
    /// The map as it is now, without what only the log refers to, is that of checkpoint `at`: after a save, or, to be
    /// said once, after a map was loaded.
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
        // Nothing was read before a process had it: without readers, the newest ones are enough.
        while self.reached.maps.len() > RECENT && self.readers.is_empty() {
            self.reached.maps.pop_first();
        }
    }

    /// Something that only the log refers to was handed out at `unit`.
    pub(crate) fn note_logged(&mut self, unit: u64) {
        let newest = self.reached.maps.last_key_value().map_or(CheckpointNo(0), |(at, _)| *at);
        // A commit may still come before the switch to the checkpoint that was saved last.
        self.reached.births.insert(unit, CheckpointNo(newest.0.saturating_sub(1)));
    }

    /// It is nobody's any more.
    pub(crate) fn forget_logged(&mut self, unit: u64) {
        self.reached.births.remove(&unit);
    }

    /// The newest checkpoint, twice: when what nobody reaches was retired, and when it came.
    pub(crate) fn newest_reached(&self) -> (CheckpointNo, CheckpointNo) {
        let newest = self.reached.maps.last_key_value().map_or(CheckpointNo(0), |(at, _)| *at);
        (newest, newest)
    }

    /// Rule 2.
    pub(crate) fn reach_adopted(&mut self, extent: Extent) {
        let birth = self.reached.births.get(&extent.unit).copied().unwrap_or(CheckpointNo(0));
        for (_, chunks) in self.reached.maps.range_mut(birth..) {
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
    }

    /// Splits `retired`, which checkpoint `at` does not reach, into what one of `readers`, which ascend, reaches (with
    /// the first of them as its birth), and what none does.
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

    /// Forgets the maps that nobody needs any more.
    pub(crate) fn forget_maps(&mut self, readers: &[CheckpointNo]) {
        self.readers = readers.to_vec();
        let recent = self.reached.maps.keys().rev().nth(RECENT - 1).copied().unwrap_or(CheckpointNo(0));
        self.reached.maps.retain(|at, _| *at >= recent || readers.binary_search(at).is_ok());
    }
}

/// What the log names: see `named`.
impl Space {
    /// What was adopted by the checkpoint that was just saved is named by commits up to `absorbed`.
    pub fn note_named(&mut self, absorbed: CommitTs) {
        let saved = std::mem::take(&mut self.named.saved);
        if !saved.is_empty() {
            self.named.lists.entry(absorbed).or_default().extend(saved);
        }
        self.named.forget();
    }

    /// What commits after `after` have named is not released from now on; what only older ones named is.
    /// [`CommitTs::MAX`]: nobody needs any.
    pub fn need_named(&mut self, after: CommitTs) {
        self.named.needed_after = after;
        self.named.forget();
    }

    /// Keeps an extent that a commit up to `absorbed` has named, when a map was loaded: what of it is free waits as if
    /// it had been retired, and the rest is kept when it is.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if it lies past the file's end.
    pub fn keep_named(&mut self, unit: u64, units: u64, absorbed: CommitTs) -> Result<()> {
        let file_units = self.file.len()? / UNIT_BYTES as u64;
        if unit < self.reserved || units == 0 || unit.checked_add(units).is_none_or(|end| end > file_units) {
            return Err(self.corrupt(format!("the log refers to units {unit}+{units} of {file_units}")));
        }
        if unit + units > self.units {
            self.cover(unit + units);
        }
        for unit in unit..unit + units {
            let one = Extent { unit, units: 1 };
            if self.is_free(one) {
                self.set_used(one);
                self.set_held(one);
                let (at, birth) = self.newest_reached();
                self.retired.entry(at).or_default().push(Retired { extent: one, birth });
            }
        }
        self.named.lists.entry(absorbed).or_default().insert(unit, units);
        Ok(())
    }

    /// Units that the last [`Space::release`] kept because a needed commit has named them.
    pub fn named_units(&self) -> u64 {
        self.named.kept_units
    }
}

/// Shows the parts of `extent`, from left to right, whose units are all set in `chunks` or all not.
fn split(chunks: &[Arc<Bits>], extent: Extent, mut show: impl FnMut(Extent, bool)) {
    let is_set = |unit: u64| {
        chunks.get((unit / CHUNK_UNITS) as usize).is_some_and(|bits| bits.get(unit % CHUNK_UNITS))
    };
    let mut from = extent.unit;
    while from < extent.end() {
        let is_read = is_set(from);
        let to = (from + 1..extent.end()).find(|&unit| is_set(unit) != is_read).unwrap_or(extent.end());
        show(Extent { unit: from, units: to - from }, is_read);
        from = to;
    }
}
