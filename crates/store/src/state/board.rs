//! The board: a small file in which a writer publishes how far other processes may read.
//!
//! A reader in another process sees the log grow, but not which of its commits are acknowledged. A commit that waits
//! for its flush must not be seen, because a power loss could still undo it. So the writer stores the newest visible
//! commit and the newest checkpoint in the file `visible`, through a mapping, whenever one of them moves. A reader
//! reads it with a system call.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic, `PANDOVIS` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | zero |
//! | 16 | 8 | database id |
//! | 24 | 8 | epoch: a random number of this opening for writing, not 0 |
//! | 32 | 8 | checksum of bytes 0-31 |
//! | 64 | 8 | the newest commit that may be shown |
//! | 72 | 8 | the newest checkpoint |
//! | 80 | 8 | check: the two before, XORed, all bits inverted |
//!
//! The file has 4,096 bytes; the rest is zero. It is never synced: after a power loss the next writer fills it before
//! any process reads it. A reader that sees a wrong check has read between two stores, and reads again.

use base::codec::{Reader, Writer};
use base::env::{Clock, Random};
use base::{CheckpointNo, CommitTs, DatabaseId, Error, ErrorKind, Result, checksum};
use io::{Dir, File, LogMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The name of the file.
pub(crate) const BOARD: &str = "visible";
const MAGIC: [u8; 8] = *b"PANDOVIS";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 32;
const SHOWN_AT: usize = 64;
const SHOWN_BYTES: usize = 24;
const FILE_BYTES: usize = 4096;
/// The number of times that a reader reads again after it has read between two stores.
const ATTEMPTS: u32 = 100;

/// The writer's side of the board.
#[derive(Debug)]
pub(crate) struct Board {
    map: Arc<dyn LogMap>,
    /// The checkpoint that is shown.
    checkpoint: AtomicU64,
    /// Whether the writer has closed the database: the next one uses the same file.
    has_ended: AtomicBool,
}

/// The values that a writer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The random number of the opening for writing.
    pub epoch: u64,
    pub visible: CommitTs,
    pub checkpoint: CheckpointNo,
}

impl Board {
    /// Makes the board of `dir`, with a new epoch. Returns `None` if files cannot be mapped: other processes then
    /// cannot read while this one writes.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn open(
        dir: &dyn Dir,
        database: DatabaseId,
        visible: CommitTs,
        checkpoint: CheckpointNo,
        clock: &Clock,
    ) -> Result<Option<Board>> {
        let exists = dir.list()?.iter().any(|name| name == BOARD);
        let file = if exists { dir.open(BOARD)? } else { dir.create(BOARD)? };
        let before = read(&*file, database)?.map_or(visible.0, |before| before.epoch);
        // Until it is mapped, a reader must not take it for the board of this writer.
        file.write_at(&[0; FILE_BYTES], 0)?;
        let Some(map) = file.map(FILE_BYTES as u64)? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        bytes.put(&MAGIC);
        bytes.put_u32(FORMAT);
        bytes.put_u32(0);
        bytes.put_u64(database.0);
        bytes.put_u64(next_epoch(before, clock));
        bytes.put_u64(checksum::header(&bytes));
        bytes.resize(SHOWN_AT, 0);
        bytes.put(&encode(visible, checkpoint));
        bytes.resize(FILE_BYTES, 0);
        file.write_at(&bytes, 0)?;
        let (checkpoint, has_ended) = (AtomicU64::new(checkpoint.0), AtomicBool::new(false));
        Ok(Some(Board { map, checkpoint, has_ended }))
    }

    /// Checks, where a database is created, that no file of another program has the board's name.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if there is one; those of reading.
    pub fn check_file(dir: &dyn Dir, names: &[String]) -> Result<()> {
        if !names.iter().any(|name| name == BOARD) {
            return Ok(());
        }
        let mut bytes = [0; MAGIC.len()];
        let read = dir.open(BOARD)?.read_at(&mut bytes, 0)?;
        if bytes[..read].iter().all(|byte| *byte == 0) || bytes == MAGIC {
            return Ok(());
        }
        let message = format!(
            "the directory has a file {BOARD:?} that is not Pando's; move it elsewhere, or use another \
             directory"
        );
        Err(Error::new(ErrorKind::Foreign, message))
    }

    /// Removes the board of an earlier writer, because this one does not admit readers.
    ///
    /// # Errors
    /// Those of listing the directory and of removing the file.
    pub fn remove(dir: &dyn Dir) -> Result<()> {
        let exists = dir.list()?.iter().any(|name| name == BOARD);
        if exists { dir.remove(BOARD) } else { Ok(()) }
    }

    /// Shows the newest visible commit. The caller ensures that only one thread shows something at a time.
    #[inline]
    pub fn show(&self, visible: CommitTs) {
        if self.has_ended.load(Ordering::SeqCst) {
            return;
        }
        let checkpoint = CheckpointNo(self.checkpoint.load(Ordering::SeqCst));
        // The file system has failed: then commits fail as well, and return the error.
        let _ = self.map.write(SHOWN_AT as u64, &encode(visible, checkpoint));
    }

    /// Shows a new checkpoint as well.
    pub fn show_checkpoint(&self, visible: CommitTs, checkpoint: CheckpointNo) {
        self.checkpoint.store(checkpoint.0, Ordering::SeqCst);
        self.show(visible);
    }

    /// Stops showing commits. The caller ensures that no other thread shows something meanwhile.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }
}

/// Returns a new epoch. A count would begin anew where the board is missing, with an epoch that a reader may know from
/// before. Simulations, which set the clock, must be repeatable: for them the epoch depends on the one `before`.
fn next_epoch(before: u64, clock: &Clock) -> u64 {
    let mut ids =
        if matches!(clock, Clock::System) { Random::from_entropy() } else { Random::seeded(before) };
    ids.next_u64().max(1)
}

#[inline]
fn encode(visible: CommitTs, checkpoint: CheckpointNo) -> [u8; SHOWN_BYTES] {
    let mut bytes = [0; SHOWN_BYTES];
    bytes[..8].copy_from_slice(&visible.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&checkpoint.0.to_le_bytes());
    bytes[16..].copy_from_slice(&(!(visible.0 ^ checkpoint.0)).to_le_bytes());
    bytes
}

/// Reads the board in `file`. Returns `None` if it is not a board of `database`, or of an unknown version.
///
/// # Errors
/// Those of reading.
pub(crate) fn read(file: &dyn File, database: DatabaseId) -> Result<Option<Shown>> {
    for _ in 0..ATTEMPTS {
        let mut bytes = [0; SHOWN_AT + SHOWN_BYTES];
        if file.read_at(&mut bytes, 0)? < bytes.len() {
            return Ok(None);
        }
        if let Some(shown) = decode(&bytes, database) {
            return Ok(shown);
        }
    }
    Ok(None)
}

/// Decodes the board. `None`: read it again. `Some(None)`: it is not a board.
fn decode(bytes: &[u8], database: DatabaseId) -> Option<Option<Shown>> {
    let mut reader = Reader::new(bytes);
    let is_ours = reader.array()? == MAGIC && reader.u32()? == FORMAT && reader.u32()? == 0;
    let (found, epoch, sum) = (reader.u64()?, reader.u64()?, reader.u64()?);
    if !is_ours || found != database.0 || sum != checksum::header(&bytes[..HEADER_BYTES]) {
        return Some(None);
    }
    let mut reader = Reader::new(&bytes[SHOWN_AT..]);
    let (visible, checkpoint, check) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (visible, checkpoint) = (CommitTs(visible), CheckpointNo(checkpoint));
    (check == !(visible.0 ^ checkpoint.0)).then_some(Some(Shown { epoch, visible, checkpoint }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::MemDir;
    use io::sim::SimDisk;

    #[test]
    fn a_board_says_what_was_shown_and_no_other_file_is_one() {
        let database = DatabaseId(7);
        let dir = MemDir::new();
        let Some(board) = Board::open(&dir, database, CommitTs(3), CheckpointNo(1), &Clock::System).unwrap()
        else {
            panic!("files in memory can be mapped");
        };
        let file = dir.open(BOARD).unwrap();
        let first = read(&*file, database).unwrap().unwrap();
        assert_eq!((first.visible, first.checkpoint), (CommitTs(3), CheckpointNo(1)));
        board.show_checkpoint(CommitTs(8), CheckpointNo(2));
        board.show(CommitTs(9));
        let second = read(&*file, database).unwrap().unwrap();
        assert_eq!(second, Shown { visible: CommitTs(9), checkpoint: CheckpointNo(2), ..first });
        assert_eq!(read(&*file, DatabaseId(8)).unwrap(), None, "another database");
        drop(board);
        Board::open(&dir, database, CommitTs(9), CheckpointNo(2), &Clock::System).unwrap();
        assert_ne!(read(&*file, database).unwrap().unwrap().epoch, first.epoch);
        for at in (0..40).chain(64..88) {
            let mut bytes = [0];
            file.read_exact_at(&mut bytes, at).unwrap();
            file.write_at(&[bytes[0] ^ 0x10], at).unwrap();
            assert_eq!(read(&*file, database).unwrap(), None, "byte {at} is wrong");
            file.write_at(&bytes, at).unwrap();
        }
        file.set_len(50).unwrap();
        assert_eq!(read(&*file, database).unwrap(), None);
    }

    #[test]
    fn the_board_of_an_earlier_writer_does_not_stay() {
        let disk = SimDisk::new();
        let (dir, database) = (disk.dir(), DatabaseId(7));
        disk.set_maps(true);
        assert!(
            Board::open(&*dir, database, CommitTs(3), CheckpointNo(1), &Clock::System).unwrap().is_some()
        );
        let file = dir.open(BOARD).unwrap();
        assert!(read(&*file, database).unwrap().is_some());
        disk.set_maps(false);
        assert!(
            Board::open(&*dir, database, CommitTs(4), CheckpointNo(1), &Clock::System).unwrap().is_none()
        );
        assert_eq!(read(&*file, database).unwrap(), None);
        Board::remove(&*dir).unwrap();
        Board::remove(&*dir).unwrap();
        assert!(!dir.list().unwrap().iter().any(|name| name == BOARD));
    }
}
