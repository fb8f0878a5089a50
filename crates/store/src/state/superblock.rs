//! The superblock: the root from which everything else is found.
//!
//! There are two slots, one unit each, at units 0 and 1 of the data file; checkpoint *n* is written to slot *n* mod 2,
//! so that a torn write leaves the previous one intact. A superblock is written only after everything that it refers to
//! was synced (invariant 2), and is itself synced before anything that the previous one needs may be freed.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic, `PANDO\x00\x0d\x0a` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | page size in bytes |
//! | 16 | 8 | database id |
//! | 24 | 8 | checkpoint number |
//! | 32 | 8 | commit timestamp absorbed: the trees hold exactly the commits up to it |
//! | 40 | 24 | log position where replay begins: segment, generation, LSN |
//! | 64 | 8 | LSN through which the log was synced when this was written |
//! | 72 | 4 | next table id |
//! | 76 | 4 | fork: 0 in a database that was made here, drawn at random by each restore |
//! | 80 | 24 | root of the space map |
//! | 104 | 48 | run of the physical catalog |
//! | 152 | 8 | the latest time that a caller got, in milliseconds since 1970; 0 where none asked |
//! | 160 | 8 | checksum of bytes 0-159 |
//! | 512 | 8 | the latest time that a caller was given, when this was last written |
//! | 520 | 8 | what the clock on the wall was believed to show then, in milliseconds since 1970 |
//! | 528 | 8 | checksum of bytes 512-527 |
//!
//! | 536 | 8 | the last commit of the backup from which the database was restored; 0 if it was made here |
//! | 544 | 8 | checksum of bytes 536-543 |
//!
//! The rest of the first 1,024 bytes is zero. After them a slot may hold a closing note (`closing`).
//!
//! Bytes 512-535 are in a sector of their own and are written again, alone, as time passes ([`crate::time`]): a lost
//! write does not affect the superblock. If their checksum is wrong, as in files of older programs, or the time is
//! less, the time at 152 counts, by a clock that was right.

use crate::state::time::Times;
use base::codec::{Reader, Writer};
use base::limits::{NUMBER_LIMIT, TIMESTAMP_LIMIT, UNIT_BYTES, is_page_size};
use base::{CheckpointNo, CommitTs, DatabaseId, Error, ErrorKind, Lsn, Result, TableId, checksum};
use io::File;
use run::Run;
use space::SpaceRoot;

const MAGIC: [u8; 8] = *b"PANDO\x00\x0d\x0a";
/// The only version of the files that this program reads and writes.
pub const FORMAT: u32 = 1;
/// The units at the front of the data file that the space map never allocates.
pub const RESERVED_UNITS: u64 = 2;
const BODY_BYTES: usize = 160;
const CHECKSUM_BYTES: usize = 8;
/// The offset of the second sector.
const TIMES_AT: usize = 512;
const TIMES_BYTES: usize = 24;
/// The offset of the restored commit: in the same sector, but written only with the superblock.
const RESTORED_AT: usize = TIMES_AT + TIMES_BYTES;

/// The state that a checkpoint leaves for the next opening.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Superblock {
    /// The size of every tree page in bytes.
    pub page_bytes: usize,
    /// The id of the database.
    pub database: DatabaseId,
    /// The checkpoint that wrote this.
    pub checkpoint: CheckpointNo,
    /// The last commit that is in the trees.
    pub absorbed: CommitTs,
    /// The position in the log where replay begins.
    pub replay_from: log::Position,
    /// The LSN through which the log was durable, at least.
    pub log_synced: Lsn,
    /// The id that the next new table gets.
    pub next_table: TableId,
    /// The fork, which distinguishes diverged copies of one database: 0 in the first, drawn at random by each restore.
    pub fork: u32,
    /// The root of the space map.
    pub space: SpaceRoot,
    /// The run of the physical catalog: table id to run, for every table.
    pub physical: Run,
    /// The latest time that a caller had got by then, in milliseconds since 1970; see [`crate::time`].
    pub time_ms: u64,
    /// The latest time when it was last written, and the wall clock's time then.
    pub times: Times,
    /// The last commit of the backup from which the database was restored; 0 if it was made here.
    pub restored: CommitTs,
}

/// Returns the times in a slot whose superblock was written at `time_ms`.
fn later_times(slot: &[u8], time_ms: u64) -> Times {
    let read = || {
        let times = slot.get(TIMES_AT..TIMES_AT + 16)?;
        let mut reader = Reader::new(&slot[TIMES_AT..]);
        let (later, wall_ms, sum) = (reader.u64()?, reader.u64()?, reader.u64()?);
        (sum == checksum::header(times)).then_some(Times { time_ms: later, wall_ms })
    };
    read().filter(|times| times.time_ms >= time_ms).unwrap_or(Times { time_ms, wall_ms: time_ms })
}

/// Returns the commit in a slot of the backup from which its database was restored.
fn restored_at(slot: &[u8]) -> CommitTs {
    let read = || {
        let bytes = slot.get(RESTORED_AT..RESTORED_AT + 8)?;
        let mut reader = Reader::new(&slot[RESTORED_AT..]);
        let (restored, sum) = (reader.u64()?, reader.u64()?);
        (sum == checksum::header(bytes)).then_some(CommitTs(restored))
    };
    read().unwrap_or_default()
}

impl Superblock {
    /// The length of the fields and their checksum in bytes.
    pub const BYTES: usize = BODY_BYTES + CHECKSUM_BYTES;
    /// The bytes of a slot that [`Superblock::write`] writes: the superblock's sector and that of the time.
    pub(crate) const WRITTEN_BYTES: usize = 2 * TIMES_AT;

    /// Decodes the first [`Superblock::BYTES`] of [`Superblock::encode`], wherever they were kept.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] if they are damaged, [`ErrorKind::Foreign`] for an unknown version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes)?.ok_or_else(|| Error::corruption("a superblock is not whole"))
    }

    /// Returns the unit-sized slot as it is on the disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(UNIT_BYTES);
        out.put(&MAGIC);
        out.put_u32(FORMAT);
        out.put_u32(self.page_bytes as u32);
        out.put_u64(self.database.0);
        out.put_u64(self.checkpoint.0);
        out.put_u64(self.absorbed.0);
        out.put(&self.replay_from.encode());
        out.put_u64(self.log_synced.0);
        out.put_u32(self.next_table.0);
        out.put_u32(self.fork);
        out.put(&self.space.encode());
        out.put(&self.physical.encode());
        out.put_u64(self.time_ms);
        debug_assert_eq!(out.len(), BODY_BYTES);
        out.put_u64(checksum::header(&out));
        out.resize(TIMES_AT, 0);
        out.put_u64(self.times.time_ms);
        out.put_u64(self.times.wall_ms);
        out.put_u64(checksum::header(&out[TIMES_AT..]));
        out.put_u64(self.restored.0);
        out.put_u64(checksum::header(&out[RESTORED_AT..]));
        out.resize(UNIT_BYTES, 0);
        out
    }

    /// Decodes slot number `index`. Returns `Ok(None)` if it holds no intact superblock of its own: it was never
    /// written, is torn, has a number beyond its limit, or has the other slot's, which the next checkpoint would take
    /// for the older one and overwrite.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if the slot is intact but has an unknown version.
    fn decode(slot: &[u8], index: u64) -> Result<Option<Self>> {
        Ok(Self::parse(slot)?.filter(|found| found.slot() == index))
    }

    fn parse(slot: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader::new(slot);
        let Some(found) = Self::read_fields(&mut reader) else { return Ok(None) };
        let (format, superblock) = found;
        if format != FORMAT {
            let message = format!(
                "the database has format {format}, but this version of Pando reads only format {FORMAT}"
            );
            return Err(Error::new(ErrorKind::Foreign, message));
        }
        Ok(superblock)
    }

    fn read_fields(reader: &mut Reader) -> Option<(u32, Option<Self>)> {
        let slot = reader.rest();
        let body = slot.get(..BODY_BYTES)?;
        if reader.array()? != MAGIC {
            return None;
        }
        let stored = Reader::new(&reader.rest()[BODY_BYTES - MAGIC.len()..]).u64()?;
        let format = reader.u32()?;
        if stored != checksum::header(body) {
            return None;
        }
        if format != FORMAT {
            return Some((format, None));
        }
        let superblock = Superblock {
            page_bytes: reader.u32()? as usize,
            database: DatabaseId(reader.u64()?),
            checkpoint: CheckpointNo(reader.u64()?),
            absorbed: CommitTs(reader.u64()?),
            replay_from: log::Position::decode(&reader.array()?),
            log_synced: Lsn(reader.u64()?),
            next_table: TableId(reader.u32()?),
            fork: reader.u32()?,
            space: SpaceRoot::decode(&reader.array()?),
            physical: Run::decode(&reader.array()?).ok()?,
            time_ms: reader.u64()?,
            times: Times::default(),
            restored: restored_at(slot),
        };
        let times = later_times(slot, superblock.time_ms);
        let superblock = Superblock { times, ..superblock };
        Some((format, Some(superblock).filter(Self::is_sound)))
    }

    /// Returns whether the numbers are within their limits. No disk makes others with a right checksum, but a forger
    /// does.
    fn is_sound(&self) -> bool {
        let log::Position { segment, generation, lsn } = self.replay_from;
        let numbers = [self.checkpoint.0, segment, generation, lsn.0, self.log_synced.0];
        is_page_size(self.page_bytes)
            && numbers.iter().all(|&number| number < NUMBER_LIMIT)
            && [self.absorbed, self.restored].iter().all(|ts| ts.0 < TIMESTAMP_LIMIT)
            && self.next_table >= TableId::FIRST_USER
    }

    /// Writes this superblock to its slot. The caller syncs before and after.
    pub fn write(&self, file: &dyn File) -> Result<()> {
        file.write_at(&self.encode()[..Self::WRITTEN_BYTES], self.slot() * UNIT_BYTES as u64)
    }

    /// Writes [`Superblock::times`] to its slot, and nothing else.
    pub(crate) fn write_times(&self, file: &dyn File) -> Result<()> {
        let times = &self.encode()[TIMES_AT..][..TIMES_BYTES];
        file.write_at(times, self.slot() * UNIT_BYTES as u64 + TIMES_AT as u64)
    }

    fn slot(&self) -> u64 {
        self.checkpoint.0 % RESERVED_UNITS
    }

    /// Reads the newer intact superblock of the two slots.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if no slot begins like a superblock, or the version is unknown; [`ErrorKind::Corruption`]
    /// if neither slot is intact or the two belong to different databases.
    pub fn read(file: &dyn File) -> Result<Self> {
        let mut slots = vec![0u8; RESERVED_UNITS as usize * UNIT_BYTES];
        let read = file.read_at(&mut slots, 0)?;
        let (first, second) = slots.split_at(UNIT_BYTES);
        match (Self::decode(first, 0)?, Self::decode(second, 1)?) {
            (Some(a), Some(b)) if a.database != b.database => Err(Error::corruption(format!(
                "{}: its two superblocks belong to different databases",
                file.name()
            ))),
            (Some(a), Some(b)) => Ok(if a.checkpoint > b.checkpoint { a } else { b }),
            (Some(one), None) | (None, Some(one)) => Ok(one),
            (None, None) => Err(Self::unreadable(file, &slots[..read])),
        }
    }

    /// Reads both slots, each if it can be read and is intact: for salvage, which uses what exists.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if a slot is intact but has an unknown version: it is not damaged, and the other slot
    /// would at best be an older state.
    pub(crate) fn read_slots(file: &dyn File) -> Result<[Option<Self>; 2]> {
        let slot = |index| match Self::read_slot(file, index) {
            Err(error) if error.kind() == ErrorKind::Foreign => Err(error),
            found => Ok(found.ok().flatten()),
        };
        Ok([slot(0)?, slot(1)?])
    }

    /// Reads slot number `index`, if it is intact.
    ///
    /// # Errors
    /// Those of reading; [`ErrorKind::Foreign`] if the version is unknown.
    fn read_slot(file: &dyn File, index: u64) -> Result<Option<Self>> {
        let mut slot = vec![0; UNIT_BYTES];
        file.read_at(&mut slot, index * UNIT_BYTES as u64)?;
        Self::decode(&slot, index)
    }

    /// Returns whether the file still has this superblock, and no newer one. It reads both slots.
    ///
    /// # Errors
    /// As [`Superblock::read`].
    pub(crate) fn is_newest_in(&self, file: &dyn File) -> Result<bool> {
        let other = Self::read_slot(file, (self.slot() + 1) % RESERVED_UNITS)?;
        let is_newest = other.is_none_or(|other| other.checkpoint < self.checkpoint);
        let found = Self::read_slot(file, self.slot())?;
        Ok(is_newest && found.is_some_and(|found| Superblock { times: self.times, ..found } == *self))
    }

    fn unreadable(file: &dyn File, slots: &[u8]) -> Error {
        let ours =
            slots.starts_with(&MAGIC) || slots.get(UNIT_BYTES..).is_some_and(|slot| slot.starts_with(&MAGIC));
        if ours {
            return Error::corruption(format!(
                "{}: neither superblock is whole; restore from a backup",
                file.name()
            ));
        }
        let message =
            format!("{} is not the data file of a Pando database (it has no magic number)", file.name());
        Error::new(ErrorKind::Foreign, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::{Dir, MemDir};

    fn sample(checkpoint: u64) -> Superblock {
        Superblock {
            page_bytes: 4096,
            database: DatabaseId(7),
            checkpoint: CheckpointNo(checkpoint),
            absorbed: CommitTs(12),
            replay_from: log::Position { segment: 3, generation: 1, lsn: Lsn(99) },
            log_synced: Lsn(120),
            next_table: TableId(17),
            fork: 0,
            space: SpaceRoot { map: None, units: 2 },
            physical: Run::EMPTY,
            time_ms: 0,
            times: Times::default(),
            restored: CommitTs(41),
        }
    }

    #[test]
    fn the_time_is_written_again_beside_the_superblock() {
        let dir = MemDir::new();
        let file = dir.create("data").unwrap();
        let written = Superblock { time_ms: 70, times: Times { time_ms: 70, wall_ms: 60 }, ..sample(4) };
        written.write(&*file).unwrap();
        assert_eq!(Superblock::read(&*file).unwrap(), written);
        let later = Superblock { times: Times { time_ms: 90, wall_ms: 75 }, ..written };
        let (old, new) = (written.encode(), later.encode());
        assert_eq!(old[..TIMES_AT], new[..TIMES_AT], "the superblock's own sector stays as it is");
        later.write_times(&*file).unwrap();
        assert_eq!(Superblock::read(&*file).unwrap(), later);
        for at in TIMES_AT..TIMES_AT + 24 {
            file.write_at(&[0xa5], at as u64).unwrap();
            let read = Superblock::read(&*file).unwrap();
            assert_eq!((read.time_ms, read.times), (70, Times { time_ms: 70, wall_ms: 70 }), "byte {at}");
            later.write_times(&*file).unwrap();
        }
        let short = Superblock::from_bytes(&new[..Superblock::BYTES]).unwrap();
        assert_eq!(short.times, Times { time_ms: 70, wall_ms: 70 }, "as a backup has it");
    }

    #[test]
    fn the_newer_whole_slot_wins() {
        let dir = MemDir::new();
        let file = dir.create("data").unwrap();
        sample(4).write(&*file).unwrap();
        sample(5).write(&*file).unwrap();
        assert_eq!(Superblock::read(&*file).unwrap(), sample(5));
        file.write_at(&[0xff], UNIT_BYTES as u64 + 40).unwrap();
        assert_eq!(Superblock::read(&*file).unwrap(), sample(4));
    }

    #[test]
    fn foreign_newer_and_broken_files_are_told_apart() {
        let dir = MemDir::new();
        let file = dir.create("data").unwrap();
        file.write_at(b"SQLite format 3\0", 0).unwrap();
        assert_eq!(Superblock::read(&*file).unwrap_err().kind(), ErrorKind::Foreign);
        let mut newer = sample(0).encode();
        newer[8] = 2;
        let sum = checksum::header(&newer[..BODY_BYTES]);
        newer[BODY_BYTES..BODY_BYTES + 8].copy_from_slice(&sum.to_le_bytes());
        file.write_at(&newer, 0).unwrap();
        assert_eq!(Superblock::read(&*file).unwrap_err().kind(), ErrorKind::Foreign);
        newer[9] = 9;
        file.write_at(&newer, 0).unwrap();
        assert_eq!(Superblock::read(&*file).unwrap_err().kind(), ErrorKind::Corruption);
    }
}
