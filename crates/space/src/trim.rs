//! Giving room back to the file system: the free end of the file is cut off, long free runs inside are discarded.

use crate::chunk::CHUNK_UNITS;
use crate::map::Space;
use base::Result;
use base::limits::UNIT_BYTES;

/// Shorter free runs (64 KiB) are not worth a system call and a fragment of the file's own map.
const DISCARD_UNITS: u64 = 16;

impl Space {
    /// Gives the free end of the file, and free runs of 64 KiB or more, back to the file system. Returns how many
    /// units that is. Only chunks in which something became free since the last trim are searched. To be called
    /// when the superblock that is in force has been synced.
    pub fn trim(&mut self) -> Result<u64> {
        let tail = self.tail();
        let mut given = self.units - tail;
        if given > 0 {
            self.file.set_len(tail * UNIT_BYTES as u64)?;
            self.shrink(tail);
        }
        for index in 0..self.chunks.len() {
            if self.chunks[index].freed {
                given += self.discard_runs(index)?;
                self.chunks[index].freed = false;
            }
        }
        Ok(given)
    }

    fn discard_runs(&self, index: usize) -> Result<u64> {
        let (chunk, len) = (&self.chunks[index], self.units_of(index));
        let base = index as u64 * CHUNK_UNITS;
        let (mut at, mut given) = (0, 0);
        while at < len {
            let from = chunk.next_free(at, len);
            at = chunk.next_taken(from, len);
            if at - from >= DISCARD_UNITS {
                self.file.discard((base + from) * UNIT_BYTES as u64, (at - from) * UNIT_BYTES as u64)?;
                given += at - from;
            }
        }
        Ok(given)
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
