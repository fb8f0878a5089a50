//! The written form of the map, and how it is replaced.
//!
//! ```text
//! SpaceRoot ──► chunk                          up to 32,768 units: 4 KiB of bitmap, bit set = used
//! SpaceRoot ──► directory ──► chunk, chunk...  more: 16 bytes (a PagePtr) a chunk, padded to whole units with zeros
//! ```
//! Chunks and directory lie in units that the map itself allocates, and have the checksum of their place.
//!
//! A save never writes to a unit that the last root names:
//! 1. Each dirty chunk gets a new place, and its old one is retired. Both make chunks dirty, and so does growth. This
//!    is repeated until every dirty chunk has a new place. It ends, because a chunk moves at most once.
//! 2. The directory moves in the same way. If that made another chunk dirty, step 1 is repeated. The directory only
//!    grows.
//! 3. Now the bits are final, and everything is written.
//! 4. Only then the map in memory adopts the new places. After a failure before that, the new places are free again and
//!    the old ones used.

use crate::chunk::{Bits, CHUNK_UNITS, Chunk};
use crate::map::{MAX_UNITS, Retired, Space};
use crate::root::{Extent, SpaceRoot};
use base::limits::UNIT_BYTES;
use base::{CheckpointNo, DatabaseId, Error, PagePtr, Result, checksum};
use io::File;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the units of a directory of `chunks` chunks; a single chunk needs no directory.
fn directory_units(chunks: usize) -> u64 {
    if chunks <= 1 { 0 } else { (chunks * PagePtr::BYTES).div_ceil(UNIT_BYTES) as u64 }
}

/// The places that a save allocates and retires, until it is known to succeed.
#[derive(Default)]
struct Moves {
    chunks: BTreeMap<usize, u64>,
    directory: Option<Extent>,
    old: Vec<PagePtr>,
}

/// The parts that a save has written.
struct Written {
    chunks: Vec<(usize, PagePtr, Bits)>,
    directory: Option<PagePtr>,
}

impl Space {
    /// Writes the changed chunks of the map to new places (not synced) and retires the old ones at `at`. Returns the
    /// root for the superblock of checkpoint `at`. After an error the map is unchanged.
    pub fn save(&mut self, at: CheckpointNo) -> Result<SpaceRoot> {
        if self.orphans.is_empty() && !self.chunks.iter().any(Chunk::is_dirty) {
            self.settle_retired(Vec::new(), at);
            self.note_reached(at);
            return Ok(self.root());
        }
        let mut moves = Moves::default();
        match self.place(&mut moves).and_then(|()| self.write(&moves)) {
            Ok(written) => {
                self.settle(written);
                self.settle_retired(moves.old, at);
                self.note_reached(at);
                Ok(self.root())
            }
            Err(error) => {
                self.undo(moves);
                Err(error)
            }
        }
    }

    /// Makes the next save rewrite the chunks that lie at or after `border_unit`, so that the end of the file can
    /// become free.
    pub fn move_map(&mut self, border_unit: u64) {
        for chunk in &mut self.chunks {
            if chunk.place.is_some_and(|place| place.unit() >= border_unit) {
                chunk.dirty();
            }
        }
    }

    fn root(&self) -> SpaceRoot {
        SpaceRoot { map: self.directory.or(self.chunks[0].place), units: self.units }
    }

    /// Allocates new places for all dirty chunks and for the directory (steps 1 and 2).
    fn place(&mut self, moves: &mut Moves) -> Result<()> {
        for ptr in self.orphans.clone().into_iter().chain(self.directory) {
            self.put_away(ptr, moves)?;
        }
        loop {
            self.place_chunks(moves)?;
            let need = directory_units(self.chunks.len());
            if moves.directory.map_or(0, |directory| directory.units) == need {
                return Ok(());
            }
            if let Some(small) = moves.directory.take() {
                self.free_unused(small.unit, small.units);
            }
            moves.directory = Some(Extent { unit: self.allocate(need)?, units: need });
        }
    }

    fn place_chunks(&mut self, moves: &mut Moves) -> Result<()> {
        loop {
            let dirty = |index: &usize| self.chunks[*index].is_dirty() && !moves.chunks.contains_key(index);
            let unplaced: Vec<usize> = (0..self.chunks.len()).filter(dirty).collect();
            if unplaced.is_empty() {
                return Ok(());
            }
            for index in unplaced {
                if let Some(ptr) = self.chunks[index].place {
                    self.put_away(ptr, moves)?;
                }
                // Recorded only after the allocation, so that `undo` frees no more than was allocated.
                let unit = self.allocate(1)?;
                moves.chunks.insert(index, unit);
            }
        }
    }

    fn put_away(&mut self, ptr: PagePtr, moves: &mut Moves) -> Result<()> {
        let extent = Extent::from(ptr);
        if !self.is_used(extent) {
            // A page of a hostile file claimed these units, and they were retired with it.
            return Err(
                self.corrupt(format!("units {extent:?} hold the space map, but a page released them"))
            );
        }
        self.set_held(extent);
        moves.old.push(ptr);
        Ok(())
    }

    /// Writes the dirty chunks and the directory to their new places (step 3).
    fn write(&self, moves: &Moves) -> Result<Written> {
        let mut places: Vec<Option<PagePtr>> = self.chunks.iter().map(|chunk| chunk.place).collect();
        let mut chunks = Vec::with_capacity(moves.chunks.len());
        for (&index, &unit) in &moves.chunks {
            let bits = self.without_logged(index);
            let ptr = self.write_part(Extent { unit, units: 1 }, &bits.encode())?;
            places[index] = Some(ptr);
            chunks.push((index, ptr, bits));
        }
        let Some(extent) = moves.directory else { return Ok(Written { chunks, directory: None }) };
        let mut bytes = Vec::with_capacity(extent.units as usize * UNIT_BYTES);
        for place in places {
            bytes.extend_from_slice(&place.expect("every chunk was given a place").encode());
        }
        bytes.resize(extent.units as usize * UNIT_BYTES, 0);
        let directory = Some(self.write_part(extent, &bytes)?);
        Ok(Written { chunks, directory })
    }

    fn write_part(&self, extent: Extent, bytes: &[u8]) -> Result<PagePtr> {
        self.file.write_at(bytes, extent.unit * UNIT_BYTES as u64)?;
        Ok(PagePtr::new(extent.unit, extent.units, checksum::extent(self.database, extent.unit, bytes)))
    }

    /// Returns the used units of a chunk, without those that only the log refers to.
    fn without_logged(&self, index: usize) -> Bits {
        let mut bits = self.chunks[index].used.clone();
        let (base, end) = (index as u64 * CHUNK_UNITS, (index as u64 + 1) * CHUNK_UNITS);
        // An extent from an earlier chunk may reach into this one.
        let before = base.saturating_sub(PagePtr::MAX_UNITS);
        for (&unit, &units) in self.logged.range(before..end) {
            let (from, to) = (unit.max(base), (unit + units).min(end));
            if from < to {
                bits.fill(from - base, to - base, false);
            }
        }
        bits
    }

    /// Adopts the new places of the chunks and the directory (step 4).
    fn settle(&mut self, written: Written) {
        for (index, ptr, bits) in written.chunks {
            let chunk = &mut self.chunks[index];
            chunk.place = Some(ptr);
            chunk.reached = None;
            chunk.saved = (bits != chunk.used).then_some(bits);
        }
        self.directory = written.directory;
        self.orphans.clear();
    }

    /// Records what became free with this save (step 4).
    fn settle_retired(&mut self, old: Vec<PagePtr>, at: CheckpointNo) {
        for (since, extents) in std::mem::take(&mut self.retiring) {
            self.retired.entry(since).or_default().extend(extents);
        }
        if !old.is_empty() {
            // An open reads the map, and so does a copy that pins its checkpoint: the parts of maps have readers.
            let retired = |ptr| Retired { extent: Extent::from(ptr), birth: CheckpointNo(0) };
            self.retired.entry(at).or_default().extend(old.into_iter().map(retired));
        }
        let adopted = std::mem::take(&mut self.adopted);
        adopted.keys().for_each(|&unit| self.forget_logged(unit));
        self.named.saved = adopted;
        self.handed_out_before = std::mem::take(&mut self.handed_out);
    }

    fn undo(&mut self, moves: Moves) {
        for (_, unit) in moves.chunks {
            self.free_unused(unit, 1);
        }
        if let Some(directory) = moves.directory {
            self.free_unused(directory.unit, directory.units);
        }
        for ptr in moves.old {
            self.take_back(ptr.into());
        }
    }

    /// Reads the map that `root` names. Everything read is checked, and memory is bounded by the file's length. Returns
    /// [`ErrorKind::Corruption`](base::ErrorKind::Corruption) if the parts contradict each other.
    pub fn load(
        file: Arc<dyn File>,
        database: DatabaseId,
        reserved_units: u64,
        root: &SpaceRoot,
    ) -> Result<Space> {
        let Some(map) = root.map else {
            let space = Space::create(file, database, reserved_units);
            return if *root == SpaceRoot::EMPTY {
                Ok(space)
            } else {
                Err(space.corrupt("the root does not point to a space map"))
            };
        };
        let file_units = file.len()? / UNIT_BYTES as u64;
        let loader = Loader { file: &*file, database, reserved_units, file_units };
        let (chunks, directory) = loader.chunks(map, root.units)?;
        let mut space = Space::over(Arc::clone(&file), database, reserved_units, chunks, root.units);
        space.directory = directory;
        space.check_loaded(file_units)?;
        // A trim may have cut the file since the map was saved.
        space.shrink(file_units.min(root.units));
        Ok(space)
    }

    /// Returns the extents of the map that `root` names, the directory first. Reads only the directory.
    ///
    /// # Errors
    /// Those of [`Space::load`].
    pub fn map_parts(
        file: &dyn File,
        database: DatabaseId,
        reserved_units: u64,
        root: &SpaceRoot,
    ) -> Result<Vec<PagePtr>> {
        let Some(map) = root.map else { return Ok(Vec::new()) };
        let file_units = file.len()? / UNIT_BYTES as u64;
        let loader = Loader { file, database, reserved_units, file_units };
        match loader.count(root.units)? {
            1 => Ok(vec![map]),
            count => Ok([map].into_iter().chain(loader.directory(map, count)?).collect()),
        }
    }

    /// Checks the rules for the map as a whole.
    fn check_loaded(&self, file_units: u64) -> Result<()> {
        let tail = self.tail();
        if tail > self.units || tail > file_units {
            let what = format!("unit {} is in use, but the map has {}", tail - 1, self.units);
            return Err(self.corrupt(format!("{what} units and the file {file_units}")));
        }
        let places = self.chunks.iter().filter_map(|chunk| chunk.place).chain(self.directory);
        let reserved = Extent { unit: 0, units: self.reserved };
        let mut own: Vec<Extent> = places.map(Extent::from).chain([reserved]).collect();
        own.sort_unstable();
        if let Some(pair) = own.windows(2).find(|pair| pair[0].end() > pair[1].unit) {
            return Err(self.corrupt(format!("extents {:?} and {:?} of the map overlap", pair[0], pair[1])));
        }
        match own.iter().find(|extent| !self.is_used(**extent)) {
            Some(extent) => {
                Err(self
                    .corrupt(format!("units {extent:?} hold the space map, but the map lists them as free")))
            }
            None => Ok(()),
        }
    }

    /// Returns whether all units of an extent are within the map, and used.
    pub(crate) fn is_used(&self, extent: Extent) -> bool {
        let Some(end) = extent.unit.checked_add(extent.units).filter(|&end| end <= self.units) else {
            return false;
        };
        let mut at = extent.unit;
        while at < end {
            let base = at / CHUNK_UNITS * CHUNK_UNITS;
            let to = (end - base).min(CHUNK_UNITS);
            if self.chunks[(at / CHUNK_UNITS) as usize].used.count(at - base, to) < to - (at - base) {
                return false;
            }
            at = base + to;
        }
        true
    }
}

/// Reads the parts of a map and checks all of them.
struct Loader<'a> {
    file: &'a dyn File,
    database: DatabaseId,
    reserved_units: u64,
    file_units: u64,
}

impl Loader<'_> {
    fn chunks(&self, map: PagePtr, units: u64) -> Result<(Vec<Chunk>, Option<PagePtr>)> {
        let count = self.count(units)?;
        if count == 1 {
            return Ok((vec![self.chunk(0, map, units)?], None));
        }
        let places = self.directory(map, count)?;
        let mut chunks = Vec::with_capacity(count);
        for (index, place) in places.into_iter().enumerate() {
            chunks.push(self.chunk(index, place, units)?);
        }
        Ok((chunks, Some(map)))
    }

    /// Returns how many chunks cover `units`.
    fn count(&self, units: u64) -> Result<usize> {
        if units < self.reserved_units.max(1) || units > MAX_UNITS {
            return Err(self.corrupt(format!("the root states an impossible number of units, {units}")));
        }
        Ok(units.div_ceil(CHUNK_UNITS) as usize)
    }

    /// Returns the places of `count` chunks, which are all different, so that no more is read than the file holds.
    fn directory(&self, map: PagePtr, count: usize) -> Result<Vec<PagePtr>> {
        let bytes = self.part("directory", map, directory_units(count))?;
        let (entries, padding) = bytes.split_at(count * PagePtr::BYTES);
        if padding.iter().any(|&byte| byte != 0) {
            return Err(self.corrupt(format!("the directory has more than {count} entries")));
        }
        let decode = |entry: &[u8]| PagePtr::decode(entry.try_into().expect("16 bytes"));
        let places: Vec<PagePtr> = entries.chunks_exact(PagePtr::BYTES).map(decode).collect();
        let mut units: Vec<u64> = places.iter().map(|place| place.unit()).collect();
        units.sort_unstable();
        match units.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(self.corrupt(format!("two chunks have the same place, unit {}", pair[0]))),
            None => Ok(places),
        }
    }

    fn chunk(&self, index: usize, place: PagePtr, units: u64) -> Result<Chunk> {
        let bytes = self.part(&format!("chunk {index}"), place, 1)?;
        let bytes: &[u8; UNIT_BYTES] = bytes.as_slice().try_into().expect("one unit was read");
        let covered = (units - index as u64 * CHUNK_UNITS).min(CHUNK_UNITS);
        Ok(Chunk::loaded(Bits::decode(bytes), place, covered))
    }

    fn part(&self, what: &str, ptr: PagePtr, units: u64) -> Result<Vec<u8>> {
        if ptr.units() != units || ptr.unit() < self.reserved_units || ptr.unit() + units > self.file_units {
            let place = format!("{what} at {ptr:?}, expected {units} units");
            let bounds = format!("between {} and {}", self.reserved_units, self.file_units);
            return Err(self.corrupt(format!("{place} {bounds}")));
        }
        let mut bytes = vec![0; ptr.len_bytes()];
        self.file.read_exact_at(&mut bytes, ptr.offset_bytes())?;
        let found = checksum::extent(self.database, ptr.unit(), &bytes);
        if found != ptr.checksum() {
            return Err(self.corrupt(format!("{what} at {ptr:?} has checksum {found:016x}")));
        }
        Ok(bytes)
    }

    fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        Error::corruption(format!("space map of {}: {what}", self.file.name()))
    }
}
