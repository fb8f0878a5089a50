//! Giving room back to the file system: the free end of the file is cut off, free runs inside it become holes.
//!
//! Only free units are given back: no durable superblock names them, no reader can reach them, and a crash that
//! brings back an older length or older bytes brings back nothing that anybody reads. So a trim needs no order of its
//! own, only that units were freed in theirs; and a failed one leaves a file that is longer than need be.
//!
//! A file that is cut after each checkpoint and grown in the next would pay for it twice, and a database that works
//! on a full disk needs what it freed. So a trim keeps some free units, the lowest ones: as many as the last
//! checkpoint took ([`Space::usual_need`]); and does nothing for less than it is worth.

use crate::chunk::CHUNK_UNITS;
use crate::map::Space;
use crate::root::Extent;
use base::Result;
use base::limits::UNIT_BYTES;

/// Shorter free runs (64 KiB) are not worth a system call and a fragment of the file's own map.
const DISCARD_UNITS: u64 = 16;
/// While some units are kept, less than 1 MiB, or than this share of the file, is not given back either.
const LEAST_UNITS: u64 = 256;
const LEAST_SHARE: u64 = 32;

impl Space {
    /// How many units the checkpoint that was saved last took: what the next one will need, more or less.
    pub fn usual_need(&self) -> u64 {
        self.handed_out_before
    }

    /// Gives free units but `keep_units` of them back to the file system: the free end of the file, and free runs of
    /// 64 KiB or more. Returns how many units the file is shorter or has more as holes. To be called when the
    /// superblock in force was synced, and what it freed released. O(units / 64) and the system calls.
    pub fn trim(&mut self, keep_units: u64) -> Result<u64> {
        let least = if keep_units == 0 { 1 } else { (self.units / LEAST_SHARE).max(LEAST_UNITS) };
        let mut given = 0;
        let tail = self.tail();
        let end_free = self.units - tail;
        let free: u64 = self.chunks.iter().map(|chunk| chunk.free).sum();
        let kept_at_end = keep_units.saturating_sub(free - end_free).min(end_free);
        if end_free - kept_at_end >= least {
            let units = tail + kept_at_end;
            self.file.set_len(units * UNIT_BYTES as u64)?;
            given += self.units - units;
            self.shrink(units);
        }
        let backed: u64 = self.chunks.iter().map(|chunk| chunk.backed()).sum();
        let surplus = backed.saturating_sub(keep_units);
        if surplus >= least.max(DISCARD_UNITS) {
            given += self.discard(surplus)?;
        }
        Ok(given)
    }

    /// Turns about `surplus` free units into holes, the highest first.
    fn discard(&mut self, surplus: u64) -> Result<u64> {
        let mut given = 0;
        for index in (0..self.chunks.len()).rev() {
            for run in self.backed_runs(index).into_iter().rev() {
                let units = (surplus - given).max(DISCARD_UNITS).min(run.units);
                let run = Extent { unit: run.end() - units, units };
                self.file.discard(run.unit * UNIT_BYTES as u64, run.units * UNIT_BYTES as u64)?;
                self.note_holes(run);
                given += units;
                if given >= surplus {
                    return Ok(given);
                }
            }
        }
        Ok(given)
    }

    /// The runs of free units in a chunk that take room on the disk and are long enough.
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

    /// Makes the map cover only its first `units`; the others are free. Chunks that fall away leave their places
    /// to the next save, as the last root still names them.
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
