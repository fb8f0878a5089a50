//! An open file, and a mapping to append through.
//!
//! What a caller may rely upon, whatever stands behind the traits:
//!
//! 1. A write is seen by every later read of the process, and survives a killed process.
//! 2. A power loss leaves what was written before the last successful [`File::sync`], plus *any* part of what came
//!    later: in any order, cut at any 512-byte sector, with the length old, new or between.
//! 3. After a failed write any part of its range may have been written. After a failed sync, what was written
//!    since the sync before may be lost at a power loss *even if a later sync succeeds*: Linux has marked those
//!    pages clean (the "fsyncgate" of 2018). Only writing the bytes again and syncing those makes them durable.
//! 4. Bytes that were never written, below the file's length, read as zeros.

use base::{Error, Result};
use std::fmt::Debug;
use std::sync::Arc;

/// Identifies an open file on this machine. Two handles of one file have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The file system.
    pub volume: u64,
    /// The file in it.
    pub number: u64,
}

/// An open file. Positions and lengths are in bytes. Methods take `&self`, and may run in parallel; parallel writes
/// to one range leave any mixture of them.
pub trait File: Send + Sync + Debug {
    /// The name that the file was opened under.
    fn name(&self) -> &str;

    /// Fills `buffer` from `offset` on, or as much of it as there is before the end of the file. Returns how many
    /// bytes were read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills `buffer` from `offset` on. [`ErrorKind::Corruption`](base::ErrorKind::Corruption) if the file ends
    /// before that.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.read_at(buffer, offset)?;
        if read < buffer.len() {
            return Err(ends_early(self.name(), offset, buffer.len(), read));
        }
        Ok(())
    }

    /// Writes all of `bytes` at `offset`, extending the file if it ends before. After an error, any part of them
    /// may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// The length in bytes.
    fn len(&self) -> Result<u64>;

    /// Which file this is, whatever its name is by now.
    fn id(&self) -> Result<FileId>;

    /// Whether the length is 0.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it by bytes that read as zeros and may have no room on the disk yet: writing them
    /// can still fail with [`ErrorKind::Full`](base::ErrorKind::Full).
    fn set_len(&self, len: u64) -> Result<()>;

    /// Gives each of the first `len` bytes room on the disk, and the file at least that length. What was never written
    /// reads as zeros, as ever, but to write it cannot fail for want of room any more, and it may be
    /// [mapped](File::map). Costs no writing, and some at the first sync after each such byte was written: the file
    /// system then notes that it holds something. False, and nothing is done, where that cannot be had.
    ///
    /// # Errors
    /// [`ErrorKind::Full`](base::ErrorKind::Full) if there is no room; some of the bytes may have got theirs.
    fn allocate(&self, len: u64) -> Result<bool> {
        self.allocate_at(0, len)
    }

    /// Gives each of the `len` bytes from `offset` on room on the disk, as [`allocate`](File::allocate) does for the
    /// first ones, and the file at least the length that holds them. Bytes that were written keep what they hold.
    ///
    /// # Errors
    /// As [`allocate`](File::allocate).
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool>;

    /// How many bytes the file system has free for this process, in all files together; `None`: it does not say.
    ///
    /// # Errors
    /// Those of asking the system.
    fn room_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Makes all writes before this call durable, and the length with them, but not the file's name
    /// ([`Dir::sync`](crate::Dir::sync) does that). After an error nothing is known about those writes, whatever
    /// later syncs return.
    fn sync(&self) -> Result<()>;

    /// Has the disk begin with what a sync would write, and does not wait: one that comes later finds less left to do.
    /// Best effort; says nothing about what is durable.
    fn begin_sync(&self) {}

    /// Maps the first `len` bytes to append through, or `None` where that is not supported or not safe. Each of those
    /// bytes must have been written once or [allocated](File::allocate) (not merely come by
    /// [`set_len`](File::set_len)), so that a store needs no room on the disk; and the file must not become shorter
    /// than `len` while the mapping lives.
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>>;

    /// Gives the disk space of a range back to the file system. The range reads as zeros or as what was there. Best
    /// effort: does nothing where the file system cannot.
    fn discard(&self, offset: u64, len: u64) -> Result<()>;
}

/// A mapping of a file's beginning, for stores only.
pub trait LogMap: Send + Sync + Debug {
    /// Stores `bytes` at `offset` of the file, with the effect and the durability of [`File::write_at`], without a
    /// system call.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](base::ErrorKind::Io) if the file system could not take the bytes: it was shut down, its device
    /// is gone, it is full, or the file was cut. Some of them may have been stored. Every later store fails as well.
    ///
    /// # Panics
    /// If the range is not within the mapping.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Notes that the file was allocated and hardly written: a store to a page that is not in memory then clears that
    /// one, and none behind it. Best effort.
    fn read_nothing_ahead(&self) {}

    /// Notes that pages that end within `offset..offset + bytes`, and perhaps some before, will hardly be stored to
    /// again: the process's memory gets rid of them, not the file. Worth its call before a flush of many pages, which
    /// has to take the right to store away from each that is still mapped, and interrupts the other processors for
    /// each. Best effort.
    fn release(&self, _offset: u64, _bytes: u64) {}
}

#[cold]
fn ends_early(name: &str, offset: u64, wanted: usize, read: usize) -> Error {
    let end = offset.saturating_add(read as u64);
    Error::corruption(format!(
        "{name} is too short: expected {wanted} bytes at offset {offset}, but it ends at or before byte {end}"
    ))
}

/// No system has longer files: its offsets are signed.
pub(crate) const LONGEST_FILE_BYTES: u64 = i64::MAX as u64;

/// Where a range of a file ends, or [`ErrorKind::Full`](base::ErrorKind::Full) where no file can be
/// that long.
pub(crate) fn checked_end(name: &str, offset: u64, len: u64) -> Result<u64> {
    offset.checked_add(len).filter(|&end| end <= LONGEST_FILE_BYTES).ok_or_else(|| {
        Error::new(
            base::ErrorKind::Full,
            format!("{len} bytes at offset {offset} of {name} are beyond the largest possible file"),
        )
    })
}

/// The place of `bytes` in a mapping of `mapped` bytes. Panics if it is not within.
pub(crate) fn place_in_map(offset: u64, bytes: &[u8], mapped: u64) -> usize {
    let end = offset.checked_add(bytes.len() as u64);
    assert!(
        end.is_some_and(|end| end <= mapped),
        "store of {} bytes at {offset} of a mapping of {mapped} bytes",
        bytes.len()
    );
    offset as usize
}
