//! Returning space to the file system: the free end of the file is cut off, and free runs inside it become holes.
//!
//! Only free units are returned. No durable superblock names them, no reader can reach them, and a crash that restores
//! an older length or older bytes restores nothing that is read. So a trim needs no write order of its own; it relies
//! on the order in which units were freed. A failed trim leaves a file that is longer than necessary.
//!
//! A file that is cut after each checkpoint and grown in the next would pay for it twice, and a database on a full disk
//! needs what it freed. So a trim keeps some free units, the lowest ones: as many as the last checkpoint took
//! ([`Space::usual_need`]). It does nothing if there is too little to gain.

use crate::chunk::{CHUNK_UNITS, Chunk};
use crate::map::Space;
use crate::root::Extent;
use base::Result;
use base::limits::UNIT_BYTES;

/// The shortest free run (64 KiB) that is worth a system call and a fragment of the file's own map.
const DISCARD_UNITS: u64 = 16;
/// The units that are returned in one step, 1 MiB: the file system drops cached pages one by one, and notifies the
/// disk.
const PIECE_UNITS: u64 = 256;
/// The least gain, if some units are kept: 1 MiB, or this share of the file.
const LEAST_UNITS: u64 = 256;
const LEAST_SHARE: u64 = 32;

/// A trim under way.
#[derive(Debug)]
pub struct Trim {
    keep_units: u64,
    /// The smallest number of units that is worth a trim.
    least: u64,
    /// The unit at which the file is to end.
    end_unit: u64,
    /// Whether space before the end was made firm to replace what lies after it.
    has_looked_lower: bool,
    /// The number of free units that are still to become holes, once the end is cut off.
    surplus: Option<u64>,
    /// The number of chunks that may have such units. Those after them were already searched.
    chunks: usize,
}

impl Space {
    /// Returns how many units the last saved checkpoint took, which is about what the next one will need.
    pub fn usual_need(&self) -> u64 {
        self.handed_out_before
    }

    /// Returns whether units were released since the last trim began, so that another may return some of them.
    pub fn has_released(&self) -> bool {
        self.has_released
    }

    /// Begins to return free units except `keep_units` of them to the file system: the free end of the file, and free
    /// runs of 64 KiB or more. [`Space::trim_on`] does the work. Call it after the current superblock was synced and
    /// what it freed was released. O(chunks).
    ///
    /// ```
    /// # use io::Dir;
    /// let file = io::MemDir::new().create("data")?;
    /// let mut space = pando_space::Space::create(file, base::DatabaseId(7), 2);
    /// let unit = space.allocate(1000)?;
    /// space.free_unused(unit, 1000);
    /// let mut trim = space.trim(0);
    /// while space.trim_on(&mut trim)?.is_some() {}
    /// assert_eq!(space.stats().total_units, 2);
    /// # Ok::<(), base::Error>(())
    /// ```
    pub fn trim(&mut self, keep_units: u64) -> Trim {
        let least = if keep_units == 0 { 1 } else { (self.units / LEAST_SHARE).max(LEAST_UNITS) };
        self.trim_for(keep_units, least)
    }

    /// Begins to return free units except `keep_units` of them to the file system, however little is gained, for a file
    /// that should become as small as possible. For the conditions of the call see [`Space::trim`]. O(chunks).
    pub fn trim_all_but(&mut self, keep_units: u64) -> Trim {
        self.trim_for(keep_units, 1)
    }

    fn trim_for(&mut self, keep_units: u64, least: u64) -> Trim {
        self.has_released = false;
        let tail = self.tail();
        let end_free = self.units - tail;
        let free: u64 = self.chunks.iter().map(|chunk| chunk.free).sum();
        let kept_at_end = keep_units.saturating_sub(free - end_free).min(end_free);
        let is_worth_it = end_free - kept_at_end >= least;
        let end_unit = if is_worth_it { tail + kept_at_end } else { self.units };
        Trim { keep_units, least, end_unit, has_looked_lower: false, surplus: None, chunks: usize::MAX }
    }

    /// Does the next MiB of a trim. Returns by how many units the file became shorter or gained holes, or `None` when
    /// the trim is complete. Other calls may come in between; what they allocate is not returned. O(units / 64) for
    /// each chunk that is searched, and once for the whole map, plus the system calls.
    pub fn trim_on(&mut self, trim: &mut Trim) -> Result<Option<u64>> {
        let end_unit = trim.end_unit.max(self.tail());
        if trim.surplus.is_none()
            && end_unit >= self.units
            && let beyond @ 1.. = (self.file.len()? / UNIT_BYTES as u64).saturating_sub(self.units)
        {
            // A process that was killed, or that abandoned a checkpoint, had made the file longer than its map says.
            self.file.set_len(self.units * UNIT_BYTES as u64)?;
            return Ok(Some(beyond));
        }
        if end_unit < self.units
            && let given @ Some(_) = self.cut(end_unit, trim)?
        {
            return Ok(given);
        }
        let backed = || self.chunks.iter().map(Chunk::backed).sum::<u64>();
        let surplus = *trim.surplus.get_or_insert_with(|| {
            let surplus = backed().saturating_sub(trim.keep_units);
            if surplus >= trim.least.max(DISCARD_UNITS) { surplus } else { 0 }
        });
        let piece = surplus.min(PIECE_UNITS);
        let given = if piece > 0 { self.discard(piece, &mut trim.chunks)? } else { 0 };
        trim.surplus = Some(surplus.saturating_sub(given));
        Ok((given > 0).then_some(given))
    }

    /// Makes the file shorter by up to [`PIECE_UNITS`], but not shorter than `end_unit`, and cuts off nothing that is
    /// kept. Returns by how many units, or `None` if by none.
    fn cut(&mut self, end_unit: u64, trim: &mut Trim) -> Result<Option<u64>> {
        if !std::mem::replace(&mut trim.has_looked_lower, true) {
            self.keep_before(end_unit)?;
        }
        let units = end_unit.max(self.end_of_kept()).max(self.units.saturating_sub(PIECE_UNITS));
        let given = self.units - units;
        if given == 0 {
            return Ok(None);
        }
        self.file.set_len(units * UNIT_BYTES as u64)?;
        self.shrink(units);
        Ok(Some(given))
    }

    /// Turns about `surplus` free units into holes, starting with the highest of the first `chunks` chunks.
    fn discard(&mut self, surplus: u64, chunks: &mut usize) -> Result<u64> {
        let mut given = 0;
        let mut firm = self.all_firm_runs();
        *chunks = self.chunks.len().min(*chunks);
        while let Some(index) = chunks.checked_sub(1) {
            for run in self.backed_runs(index).into_iter().rev() {
                let wanted = (surplus - given).max(DISCARD_UNITS);
                // No rest is left that would be too short by itself.
                let units = if run.units < wanted + DISCARD_UNITS { run.units } else { wanted };
                let run = Extent { unit: run.end() - units, units };
                if !firm.spare(run) {
                    continue;
                }
                self.file.discard(run.unit * UNIT_BYTES as u64, run.units * UNIT_BYTES as u64)?;
                self.note_holes(run);
                given += units;
                if given >= surplus {
                    return Ok(given);
                }
            }
            *chunks = index;
        }
        Ok(given)
    }

    /// Returns the runs of free units in a chunk that take disk space and are long enough.
    fn backed_runs(&self, index: usize) -> Vec<Extent> {
        let (chunk, len) = (&self.chunks[index], self.units_of(index));
        let base = index as u64 * CHUNK_UNITS;
        let (mut at, mut runs) = (0, Vec::new());
        while let Some((from, to)) = chunk.next_backed_run(at, len) {
            if to - from >= DISCARD_UNITS {
                runs.push(Extent { unit: base + from, units: to - from });
            }
            at = to;
        }
        runs
    }

    /// Makes the map cover only its first `units`; the others are free. Chunks that are removed leave their places to
    /// the next save, because the last root still names them.
    pub(crate) fn shrink(&mut self, units: u64) {
        debug_assert!(self.tail() <= units);
        self.units = units;
        let dropped = self.chunks.split_off((units.div_ceil(CHUNK_UNITS) as usize).max(1));
        self.orphans.extend(dropped.iter().filter_map(|chunk| chunk.place));
        let last = self.chunks.len() - 1;
        let covered = self.units_of(last);
        self.chunks[last].recount(covered);
    }
}
