//! Seats: which checkpoint and which part of the log readers in other processes still need.
//!
//! Each reader has a file of its own, `reader-` and 16 hexadecimal digits, and holds its lock. The file states what the
//! reader needs: the oldest checkpoint that it may still read, and the first log segment. The kernel releases the lock
//! when the process ends: a writer that can take it removes the file.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic, `PANDORDR` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | zero |
//! | 16 | 8 | database id |
//! | 24 | 8 | the oldest checkpoint that is needed |
//! | 32 | 8 | the first log segment that is needed |
//! | 40 | 8 | checksum of bytes 0-39 |
//!
//! # Why nothing that a reader needs is freed
//! 1. A reader takes its seat, reads the superblock, writes the seat, and reads the superblock again until it is still
//!    the one that the seat names.
//! 2. A writer reads the seats after it has written a superblock, and before it frees what only older ones need.
//!
//! If the reader's second look came before the writer's superblock, the seat existed when the writer looked. What is
//! retired by a checkpoint after the one that a seat names stays, and so do the log's segments, even those that were
//! created since, because a reader follows the log. A seat that cannot be read is being written, or is damaged, and
//! keeps everything.
//!
//! A seat that keeps too much is removed. The reader notices that its file does not exist, gives up its snapshots, and
//! takes another seat. What it needed is not freed before the next look, which gives it the time.
//!
//! # On a full disk
//! A seat may keep more than its reader needs. So if the disk has no room for a new need, the seat stays as it is: a
//! new one is empty, and keeps everything. The reader writes the need as soon as there is room.

use base::codec::{Reader, Writer};
use base::env::Random;
use base::{CheckpointNo, DatabaseId, Error, ErrorKind, Result, checksum};
use io::{Dir, File, Lock, Origin};
use std::sync::Arc;

/// The prefix of the names of these files.
pub(crate) const SEAT_PREFIX: &str = "reader-";
const MAGIC: [u8; 8] = *b"PANDORDR";
const FORMAT: u32 = 1;
const BODY_BYTES: usize = 40;
const SEAT_BYTES: usize = 48;
/// The number of times that a reader tries again after its file was removed before it had locked it.
const ATTEMPTS: u32 = 100;

/// The data that a reader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    pub checkpoint: CheckpointNo,
    pub segment: u64,
}

impl Needed {
    /// The need without any reader.
    pub const NOTHING: Needed = Needed { checkpoint: CheckpointNo(u64::MAX), segment: u64::MAX };
    /// The need if it cannot be known.
    pub const EVERYTHING: Needed = Needed { checkpoint: CheckpointNo(0), segment: 0 };

    fn or(self, other: Needed) -> Needed {
        Needed { checkpoint: self.checkpoint.min(other.checkpoint), segment: self.segment.min(other.segment) }
    }

    fn encode(self, database: DatabaseId) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEAT_BYTES);
        bytes.put(&MAGIC);
        bytes.put_u32(FORMAT);
        bytes.put_u32(0);
        bytes.put_u64(database.0);
        bytes.put_u64(self.checkpoint.0);
        bytes.put_u64(self.segment);
        bytes.put_u64(checksum::header(&bytes));
        bytes
    }

    /// Decodes a seat. Returns `Needed::EVERYTHING` if the bytes are not a seat of this version.
    fn decode(bytes: &[u8], database: DatabaseId) -> Needed {
        let read = || {
            let mut reader = Reader::new(bytes);
            let is_ours = reader.array()? == MAGIC && reader.u32()? == FORMAT && reader.u32()? == 0;
            let (found, checkpoint, segment) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let is_whole = reader.u64()? == checksum::header(bytes.get(..BODY_BYTES)?);
            let needed = Needed { checkpoint: CheckpointNo(checkpoint), segment };
            (is_ours && is_whole && found == database.0).then_some(needed)
        };
        read().unwrap_or(Needed::EVERYTHING)
    }
}

/// A reader's seat, which is given up when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    dir: Arc<dyn Dir>,
    database: DatabaseId,
    file: Arc<dyn File>,
    /// What the file keeps.
    needed: Needed,
    /// What the file did not get, because the disk is full.
    unwritten: Option<Needed>,
    /// The process that took the seat. A forked child has the same file, which only its parent may remove.
    origin: Origin,
    _lock: Box<dyn Lock>,
}

impl Seat {
    /// Takes a seat for a reader that needs everything until it calls [`Seat::set`]. `dir` is writable; `ids` must not
    /// have been used in it before.
    ///
    /// # Errors
    /// Those of creating the file.
    pub fn take(dir: &Arc<dyn Dir>, database: DatabaseId, ids: &mut Random) -> Result<Seat> {
        for _ in 0..ATTEMPTS {
            let name = format!("{SEAT_PREFIX}{:016x}", ids.next_u64());
            let file = dir.create(&name)?;
            // Between these two calls a writer may take the file for that of a reader that ended.
            match dir.lock_existing(&name) {
                Ok(lock) => {
                    return Ok(Seat {
                        dir: Arc::clone(dir),
                        database,
                        file,
                        needed: Needed::EVERYTHING,
                        unwritten: None,
                        origin: Origin::here(),
                        _lock: lock,
                    });
                }
                Err(_) => continue,
            }
        }
        let place = dir.describe();
        let message = format!("another process keeps removing the file of this reader in {place}; try again");
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Writes what the reader needs from now on. If the disk is full, and the seat keeps that and more, it stays as it
    /// is.
    ///
    /// # Errors
    /// Those of writing.
    pub fn set(&mut self, needed: Needed) -> Result<()> {
        self.unwritten = None;
        if needed == self.needed {
            return Ok(());
        }
        match self.file.write_at(&needed.encode(self.database), 0) {
            Ok(()) => self.needed = needed,
            // A part that was written is not a seat, and keeps everything.
            Err(error) if error.kind() == ErrorKind::Full && self.needed.or(needed) == self.needed => {
                self.unwritten = Some(needed);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Writes what the disk had no room for.
    ///
    /// # Errors
    /// As for [`Seat::set`].
    pub fn write_again(&mut self) -> Result<()> {
        self.unwritten.map_or(Ok(()), |needed| self.set(needed))
    }

    /// Returns whether the writer removed the seat: what it kept may be freed soon. It takes a few system calls.
    pub fn is_lost(&self) -> bool {
        self.dir.check_in_place(&[&*self.file]).is_err()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.origin.is_forked() {
            // If the file stays, the next writer that looks finds it unlocked.
            let _ = self.dir.remove(self.file.name());
        }
    }
}

/// Returns the common need of all readers in other processes. Removes the seats of processes that have ended.
///
/// # Errors
/// Those of listing the directory.
pub(crate) fn needed(dir: &dyn Dir, database: DatabaseId) -> Result<Needed> {
    let names = dir.list()?;
    let seats = names.iter().filter(|name| name.starts_with(SEAT_PREFIX));
    Ok(seats.map(|name| look(dir, database, name)).fold(Needed::NOTHING, Needed::or))
}

/// Returns the need of the reader with the seat `name`.
fn look(dir: &dyn Dir, database: DatabaseId, name: &str) -> Needed {
    match dir.lock_existing(name) {
        Ok(lock) => {
            let _ = dir.remove(name);
            drop(lock);
            Needed::NOTHING
        }
        Err(error) if error.kind() == ErrorKind::Locked => read(dir, database, name),
        // The reader has just ended, or this cannot be known.
        Err(_) => match dir.list() {
            Ok(names) if names.iter().all(|other| other != name) => Needed::NOTHING,
            _ => Needed::EVERYTHING,
        },
    }
}

fn read(dir: &dyn Dir, database: DatabaseId, name: &str) -> Needed {
    let mut bytes = [0; SEAT_BYTES];
    let read = dir.open_to_read(name).and_then(|file| file.read_at(&mut bytes, 0));
    Needed::decode(&bytes[..read.unwrap_or(0)], database)
}

/// Removes the seats of the readers that need a checkpoint before `checkpoint`.
pub(crate) fn revoke_before(dir: &dyn Dir, database: DatabaseId, checkpoint: CheckpointNo) -> Result<()> {
    for name in dir.list()?.iter().filter(|name| name.starts_with(SEAT_PREFIX)) {
        if read(dir, database, name).checkpoint < checkpoint {
            dir.remove(name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::MemDir;
    use io::sim::{CallKind, Fault, FaultError, SimDisk};

    fn seats(dir: &Arc<dyn Dir>) -> usize {
        dir.list().unwrap().iter().filter(|name| name.starts_with(SEAT_PREFIX)).count()
    }

    #[test]
    fn what_readers_need_is_the_least_of_them_and_goes_with_them() {
        let (dir, database) = (Arc::new(MemDir::new()) as Arc<dyn Dir>, DatabaseId(5));
        let all = || needed(&*dir, database).unwrap();
        assert_eq!(all(), Needed::NOTHING);
        let mut ids = Random::seeded(1);
        let mut one = Seat::take(&dir, database, &mut ids).unwrap();
        assert_eq!(all(), Needed::EVERYTHING, "it has not said what it needs");
        one.set(Needed { checkpoint: CheckpointNo(8), segment: 3 }).unwrap();
        let mut two = Seat::take(&dir, database, &mut ids).unwrap();
        two.set(Needed { checkpoint: CheckpointNo(6), segment: 4 }).unwrap();
        assert_eq!(all(), Needed { checkpoint: CheckpointNo(6), segment: 3 });
        two.file.write_at(&[1], 25).unwrap();
        assert_eq!(all(), Needed::EVERYTHING, "a damaged one keeps everything");
        drop(two);
        assert_eq!(all(), one.needed);
        revoke_before(&*dir, database, CheckpointNo(8)).unwrap();
        assert!(!one.is_lost());
        revoke_before(&*dir, database, CheckpointNo(9)).unwrap();
        assert!(one.is_lost() && all() == Needed::NOTHING);
    }

    #[test]
    fn on_a_full_disk_a_seat_keeps_what_it_kept() {
        let (disk, database) = (SimDisk::new(), DatabaseId(5));
        let dir = disk.dir();
        let all = || needed(&*dir, database).unwrap();
        disk.set_capacity(disk.used_bytes());
        let mut seat = Seat::take(&dir, database, &mut Random::seeded(1)).unwrap();
        let first = Needed { checkpoint: CheckpointNo(8), segment: 3 };
        seat.set(first).unwrap();
        seat.write_again().unwrap();
        assert_eq!((all(), seat.needed), (Needed::EVERYTHING, Needed::EVERYTHING));
        disk.set_capacity(None);
        seat.write_again().unwrap();
        assert_eq!((all(), seat.unwritten), (first, None));
        // A copy-on-write file system has no room for the same bytes either.
        let fault =
            || disk.inject(Fault { call: CallKind::Write, nth: 1, sticky: false, error: FaultError::Full });
        fault();
        seat.set(Needed { checkpoint: CheckpointNo(9), segment: 3 }).unwrap();
        assert_eq!(all(), first);
        disk.clear_faults();
        fault();
        let older = Needed { checkpoint: CheckpointNo(9), segment: 2 };
        assert_eq!(seat.set(older).unwrap_err().kind(), ErrorKind::Full, "the seat does not keep segment 2");
    }

    #[test]
    fn the_seat_of_a_process_that_ended_is_removed() {
        let (dir, database) = (Arc::new(MemDir::new()) as Arc<dyn Dir>, DatabaseId(5));
        let bytes = Needed { checkpoint: CheckpointNo(1), segment: 1 }.encode(database);
        dir.create("reader-00").unwrap().write_at(&bytes, 0).unwrap();
        assert_eq!((needed(&*dir, database).unwrap(), seats(&dir)), (Needed::NOTHING, 0));
    }
}
