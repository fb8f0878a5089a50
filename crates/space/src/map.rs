//! The map in memory: allocate, retire, release, revert.
//!
//! Invariants (those of one chunk are in `chunk.rs`):
//! 1. A unit that is used in the last saved map is used or retired. So nothing that a superblock names is handed out,
//!    whatever was freed since.
//! 2. `allocate` hands out only units that are neither used nor retired.
//! 3. Retired units are recorded in `retired` or `retiring`. The latter has those that no save has written yet, which
//!    are never released.
//! 4. A call that fails leaves the map unchanged.

use crate::chunk::{CHUNK_UNITS, Chunk};
use crate::firm::Reserve;
use crate::named::Named;
use crate::reached::Reached;
use crate::root::Extent;
use base::limits::UNIT_BYTES;
use base::{CheckpointNo, DatabaseId, Error, PagePtr, Result};
use io::File;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest file, in units: its directory of chunks must fit one extent. 2 PiB.
pub(crate) const MAX_UNITS: u64 = PagePtr::MAX_UNITS * (UNIT_BYTES / PagePtr::BYTES) as u64 * CHUNK_UNITS;

/// The map of used and free units of a data file. It belongs to the one thread that writes pages.
#[derive(Debug)]
pub struct Space {
    pub(crate) file: Arc<dyn File>,
    pub(crate) database: DatabaseId,
    pub(crate) reserved: u64,
    /// The number of units that the map covers. Units at or past the end of the file are free.
    pub(crate) units: u64,
    pub(crate) chunks: Vec<Chunk>,
    /// The place of the directory in the last save, if there are several chunks.
    pub(crate) directory: Option<PagePtr>,
    /// The parts of the saved map that the map in memory no longer needs. The next save retires them.
    pub(crate) orphans: Vec<PagePtr>,
    /// The units handed out since the last save, and between the two saves before it: an estimate of a checkpoint's
    /// need.
    pub(crate) handed_out: u64,
    pub(crate) handed_out_before: u64,
    /// Extents that are free in the saved maps but not released, by the first checkpoint that does not reach them.
    pub(crate) retired: BTreeMap<CheckpointNo, Vec<Retired>>,
    /// Extents that were retired since the last save.
    pub(crate) retiring: BTreeMap<CheckpointNo, Vec<Retired>>,
    /// The units in `retired` and `retiring`, which are the units that are held.
    pub(crate) retired_units: u64,
    /// Extents that only the log refers to, as unit and length. They are used, but saved as free; recovery claims them
    /// again.
    pub(crate) logged: BTreeMap<u64, u64>,
    /// Extents that the checkpoint under way has adopted or retired from `logged`. A revert moves them back.
    pub(crate) adopted: BTreeMap<u64, u64>,
    /// Extents that the log refers to although checkpoints have adopted them, kept for readers that follow the log.
    pub(crate) named: Named,
    /// Whether units were released since the last trim began.
    pub(crate) has_released: bool,
    /// The firm units that are reserved for checkpoints.
    pub(crate) kept: Reserve,
    /// What the checkpoints that are read reach.
    pub(crate) reached: Reached,
    pub(crate) readers: Vec<CheckpointNo>,
}

/// A retired extent, with a checkpoint at or before the first that reached it: 0 if that is not known. Once everything
/// else of it was released, this is the first reader that keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retired {
    pub extent: Extent,
    pub birth: CheckpointNo,
}

/// The use of the units of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// The number of units that the map covers.
    pub total_units: u64,
    /// The number of units in use, including the superblocks and the map itself.
    pub used_units: u64,
    /// The number of units that can be handed out without growing the file.
    pub free_units: u64,
    /// The number of retired units, which wait to be released.
    pub retired_units: u64,
    /// The number of free units for which the file system is known to keep no block.
    pub hole_units: u64,
}

impl Space {
    /// Creates the map of a new file whose first `reserved_units` units are the superblocks'.
    ///
    /// ```
    /// # use io::Dir;
    /// let file = io::MemDir::new().create("data")?;
    /// let mut space = pando_space::Space::create(file, base::DatabaseId(7), 2);
    /// assert_eq!(space.allocate(4)?, 2);
    /// assert_eq!(space.allocate(4)?, 6);
    /// let root = space.save(base::CheckpointNo(1))?;
    /// assert_eq!(root.map.unwrap().units(), 1);
    /// # Ok::<(), base::Error>(())
    /// ```
    pub fn create(file: Arc<dyn File>, database: DatabaseId, reserved_units: u64) -> Space {
        let mut space = Space::over(file, database, reserved_units, Vec::new(), 0);
        space.cover(reserved_units);
        space.set_used(Extent { unit: 0, units: reserved_units });
        for chunk in &mut space.chunks {
            // The units are not written yet, but must not be reverted either.
            chunk.saved = Some(chunk.used.clone());
        }
        space
    }

    pub(crate) fn over(
        file: Arc<dyn File>,
        database: DatabaseId,
        reserved: u64,
        chunks: Vec<Chunk>,
        units: u64,
    ) -> Space {
        Space {
            file,
            database,
            reserved,
            units,
            chunks,
            directory: None,
            orphans: Vec::new(),
            handed_out: 0,
            handed_out_before: 0,
            retired: BTreeMap::new(),
            retiring: BTreeMap::new(),
            retired_units: 0,
            logged: BTreeMap::new(),
            adopted: BTreeMap::new(),
            named: Named::default(),
            has_released: false,
            kept: Reserve::default(),
            reached: Reached::default(),
            readers: Vec::new(),
        }
    }

    /// Allocates an extent for the log, as [`allocate`](Space::allocate) does for the checkpoint that is being written.
    /// A [`revert`](Space::revert) keeps the extent, and a save writes it as free: after a crash it is free unless
    /// recovery finds it in the log and [`claim`](Space::claim)s it. This state ends with [`adopt`](Space::adopt),
    /// [`retire`](Space::retire) or [`free_unused`](Space::free_unused). The allocation leaves the units that are kept
    /// for checkpoints ([`keep_firm`](Space::keep_firm)), or fails with [`Full`](base::ErrorKind::Full).
    pub fn allocate_logged(&mut self, units: u64) -> Result<u64> {
        if self.kept.only {
            return Err(Error::new(
                base::ErrorKind::Full,
                "the disk is full: a checkpoint takes what is left",
            ));
        }
        let unit = self.allocate(units)?;
        if let Err(full) = self.check_kept(Extent { unit, units }) {
            self.free_unused(unit, units);
            return Err(full);
        }
        self.logged.insert(unit, units);
        self.note_logged(unit);
        Ok(unit)
    }

    /// Marks an extent that recovery found in the log as used, as if [`allocate_logged`](Space::allocate_logged) had
    /// just handed it out. Returns [`Corruption`](base::ErrorKind::Corruption) if it is not free, or past the file's
    /// end.
    ///
    /// The map then reaches to the extent's end. This takes about 100 bytes for each 128 MiB of file that are free.
    pub fn claim(&mut self, unit: u64, units: u64) -> Result<()> {
        let file_units = (self.file.len()? / UNIT_BYTES as u64).min(MAX_UNITS);
        let end = unit.checked_add(units).filter(|&end| units > 0 && end <= file_units);
        let Some(end) = end else {
            return Err(self.corrupt(format!(
                "the log refers to units {unit}+{units}, but the file has {file_units} units"
            )));
        };
        if !self.is_free(Extent { unit, units: end.min(self.units).saturating_sub(unit) }) {
            return Err(
                self.corrupt(format!("the log refers to units {unit}+{units}, which are already in use"))
            );
        }
        if end > self.units {
            self.cover(end);
        }
        self.set_used(Extent { unit, units });
        self.logged.insert(unit, units);
        Ok(())
    }

    /// Marks a logged extent as reached by the checkpoint that is being written: it is saved as used from now on. Does
    /// nothing for an extent that is not a logged one.
    pub fn adopt(&mut self, unit: u64) {
        if let Some((unit, units)) = self.logged.remove_entry(&unit) {
            self.reach_adopted(Extent { unit, units });
            self.adopted.insert(unit, units);
        }
    }

    /// Frees units that were allocated since the last save and that no superblock, no reader and no log record reaches.
    /// They can be reused at once.
    pub fn free_unused(&mut self, unit: u64, units: u64) {
        assert!(!self.adopted.contains_key(&unit), "unit {unit} is freed, but the log refers to it");
        self.logged.remove(&unit);
        self.forget_logged(unit);
        self.each_chunk(Extent { unit, units }, |chunk, from, to| {
            assert_eq!(chunk.used.count(from, to), to - from, "units {unit}+{units} are freed, but not used");
            let saved = chunk.saved.as_ref().map(|saved| saved.count(from, to));
            assert_eq!(saved, Some(0), "units {unit}+{units} are freed, but the saved map has them");
            chunk.used.fill(from, to, false);
            chunk.give(from, to);
        });
        self.handed_out = self.handed_out.saturating_sub(units);
        self.forget_misses(unit, units);
    }

    /// Retires an extent that is reachable before checkpoint `at`, and not from it on. It is saved as free from now on,
    /// but not handed out before [`release`](Space::release).
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption), without a change, if not all of it is used in the map: then the
    /// pointer came from a page to which two others point, or that points to a place that belongs to nothing.
    pub fn retire(&mut self, ptr: PagePtr, at: CheckpointNo) -> Result<()> {
        self.retire_born(ptr, CheckpointNo(0), at)
    }

    /// Retires an extent that only checkpoints from `birth` on and before `at` can reach. It waits only for the readers
    /// of these before it is handed out again. For the rest see [`retire`](Space::retire).
    ///
    /// # Errors
    /// As [`retire`](Space::retire).
    pub fn retire_born(&mut self, ptr: PagePtr, birth: CheckpointNo, at: CheckpointNo) -> Result<()> {
        let extent = Extent::from(ptr);
        if extent.unit < self.reserved || !self.is_used(extent) {
            let what = "were released but are not in use: either two pages point to them, or one page \
                        points to a wrong place";
            return Err(self.corrupt(format!("units {extent:?} {what}")));
        }
        self.adopt(extent.unit);
        self.set_held(extent);
        let list = self.retiring.entry(at).or_default();
        match list.last_mut() {
            Some(last) if last.extent.end() == extent.unit && last.birth == birth => {
                last.extent.units += extent.units;
            }
            _ => list.push(Retired { extent, birth }),
        }
        Ok(())
    }

    /// Releases everything that was retired at checkpoints up to `through`, and saved since, unless one of the
    /// checkpoints in `readers` reaches it. Checkpoint `through` must be durable, and `readers` must be ascending. So a
    /// reader keeps what it sees, and nothing that was allocated and retired since it began. Returns what was released.
    /// O(waiting extents * readers).
    pub fn release(&mut self, through: CheckpointNo, readers: &[CheckpointNo]) -> Vec<Extent> {
        let later = self.retired.split_off(&CheckpointNo(through.0 + 1));
        let mut released = Vec::new();
        self.named.forget_counts();
        for (at, waiting) in std::mem::replace(&mut self.retired, later) {
            let mut left = Vec::new();
            for retired in waiting {
                let (kept, free) = self.split_read(retired, at, readers);
                left.extend(kept);
                let (named, free) = self.named.split(free);
                left.extend(named.into_iter().map(|extent| Retired { extent, birth: retired.birth }));
                for extent in free {
                    self.unhold(extent);
                    self.forget_misses(extent.unit, extent.units);
                    released.push(extent);
                }
            }
            if !left.is_empty() {
                self.retired.insert(at, left);
            }
        }
        self.forget_maps(readers);
        self.has_released |= !released.is_empty();
        released
    }

    /// Undoes all allocations and retirements since the last save, because the checkpoint that made them failed. What
    /// the log refers to ([`allocate_logged`](Space::allocate_logged)) stays used.
    pub fn revert(&mut self) {
        for Retired { extent, .. } in std::mem::take(&mut self.retiring).into_values().flatten() {
            self.unhold(extent);
        }
        for chunk in &mut self.chunks {
            if let Some(saved) = chunk.saved.take_if(|_| chunk.place.is_some()) {
                chunk.used = saved;
            } else if let Some(saved) = &chunk.saved {
                chunk.used = saved.clone();
            }
        }
        self.logged.append(&mut self.adopted);
        for (unit, units) in std::mem::take(&mut self.logged) {
            self.each_chunk(Extent { unit, units }, |chunk, from, to| chunk.used.fill(from, to, true));
            self.logged.insert(unit, units);
        }
        for index in 0..self.chunks.len() {
            let units = self.units_of(index);
            self.chunks[index].recount(units);
        }
        self.handed_out = 0;
    }

    /// Returns how many units wait to be released, by the first checkpoint that may reach them and the one from which
    /// on none does. Leaves out units that no save has written yet. O(extents).
    pub fn retired_by_checkpoint(&self) -> BTreeMap<(CheckpointNo, CheckpointNo), u64> {
        let mut units = BTreeMap::new();
        for (at, waiting) in &self.retired {
            for Retired { extent, birth } in waiting {
                *units.entry((*birth, *at)).or_default() += extent.units;
            }
        }
        units
    }

    /// Returns the extents that only the log refers to, including uncommitted values.
    pub fn logged(&self) -> impl Iterator<Item = Extent> {
        self.logged.iter().map(|(&unit, &units)| Extent { unit, units })
    }

    /// Returns how the units are used. O(chunks), or O(units / 64) if there are holes.
    pub fn stats(&self) -> SpaceStats {
        let (retired_units, used_units) = (self.retired_units, self.used_units());
        let free_units = self.units - used_units - retired_units;
        let backed_units: u64 = self.chunks.iter().map(Chunk::backed).sum();
        let hole_units = free_units - backed_units;
        SpaceStats { total_units: self.units, used_units, free_units, retired_units, hole_units }
    }

    /// Returns the number of units that the map covers, as [`stats`](Space::stats) does. O(1).
    pub fn total_units(&self) -> u64 {
        self.units
    }

    /// Returns the number of units in use, as [`stats`](Space::stats) does. O(chunks).
    pub fn used_units(&self) -> u64 {
        self.units - self.retired_units - self.chunks.iter().map(|chunk| chunk.free).sum::<u64>()
    }

    /// Returns the number of retired units, as [`stats`](Space::stats) does. O(1).
    pub fn retired_units(&self) -> u64 {
        self.retired_units
    }

    /// Returns the units handed out since the last save. The difference of two calls is what a step of a checkpoint
    /// took.
    pub fn handed_out_units(&self) -> u64 {
        self.handed_out
    }

    /// Returns the start of the free units at the end of the map.
    pub(crate) fn tail(&self) -> u64 {
        for (index, chunk) in self.chunks.iter().enumerate().rev() {
            if let Some(last) = chunk.used.last().max(chunk.held.last()) {
                return index as u64 * CHUNK_UNITS + last + 1;
            }
        }
        0
    }

    /// Makes the map cover `units`, more than now.
    pub(crate) fn cover(&mut self, units: u64) {
        let before = std::mem::replace(&mut self.units, units);
        self.chunks.resize_with(units.div_ceil(CHUNK_UNITS) as usize, Chunk::fresh);
        self.each_chunk_untouched(Extent { unit: before, units: units - before }, Chunk::give);
        self.forget_misses(before, units - before);
    }

    /// Returns how many units of the map chunk `index` covers.
    pub(crate) fn units_of(&self, index: usize) -> u64 {
        (self.units - index as u64 * CHUNK_UNITS).min(CHUNK_UNITS)
    }

    pub(crate) fn is_free(&self, extent: Extent) -> bool {
        self.run_end(extent.unit, extent.end()) == extent.end()
    }

    pub(crate) fn set_used(&mut self, extent: Extent) {
        debug_assert!(self.is_free(extent), "units {extent:?} were handed out twice");
        self.each_chunk(extent, Chunk::take);
    }

    /// Makes used units retired.
    pub(crate) fn set_held(&mut self, extent: Extent) {
        self.retired_units += extent.units;
        self.each_chunk(extent, |chunk, from, to| {
            assert_eq!(chunk.used.count(from, to), to - from, "units {extent:?} are retired, but not used");
            chunk.used.fill(from, to, false);
            chunk.held.fill(from, to, true);
        });
    }

    /// Makes retired units used again.
    pub(crate) fn take_back(&mut self, extent: Extent) {
        self.retired_units -= extent.units;
        self.each_chunk(extent, |chunk, from, to| {
            chunk.held.fill(from, to, false);
            chunk.used.fill(from, to, true);
        });
    }

    /// Makes retired units free.
    fn unhold(&mut self, extent: Extent) {
        self.retired_units -= extent.units;
        self.each_chunk_untouched(extent, |chunk, from, to| {
            chunk.held.fill(from, to, false);
            // A unit that was saved as used was written.
            chunk.firm.fill(from, to, true);
            chunk.give(from, to);
        });
    }

    /// Runs `change`, which changes `used`, on the part of `extent` in each chunk.
    fn each_chunk(&mut self, extent: Extent, mut change: impl FnMut(&mut Chunk, u64, u64)) {
        self.each_chunk_untouched(extent, |chunk, from, to| {
            chunk.dirty();
            change(chunk, from, to);
        });
    }

    /// Runs `change` on the part of `extent` in each chunk, and marks no chunk as changed. Use it for `held` and
    /// counts, which are not saved.
    pub(crate) fn each_chunk_untouched(
        &mut self,
        extent: Extent,
        mut change: impl FnMut(&mut Chunk, u64, u64),
    ) {
        assert!(extent.end() <= self.units, "units {extent:?} of a map of {}", self.units);
        let mut at = extent.unit;
        while at < extent.end() {
            let base = at / CHUNK_UNITS * CHUNK_UNITS;
            let to = (extent.end() - base).min(CHUNK_UNITS);
            change(&mut self.chunks[(at / CHUNK_UNITS) as usize], at - base, to);
            at = base + to;
        }
    }

    /// Resets the search hints after units became free, because searches that failed may succeed now. The longest
    /// extent spans at most two chunks and a bit, so it begins at most two chunks before.
    fn forget_misses(&mut self, unit: u64, units: u64) {
        let first = ((unit / CHUNK_UNITS) as usize).saturating_sub(2);
        let end = ((unit + units).div_ceil(CHUNK_UNITS) as usize).min(self.chunks.len());
        for chunk in &mut self.chunks[first.min(end)..end] {
            chunk.no_fit = u64::MAX;
        }
    }

    pub(crate) fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        Error::corruption(format!("space map of {}: {what}", self.file.name()))
    }
}
