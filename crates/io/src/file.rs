//! An open file, and a mapping to append through.
//!
//! The contract of every implementation of the traits:
//!
//! 1. A write is seen by every later read of the process, and survives a killed process.
//! 2. A power loss leaves what was written before the last successful [`File::sync`], plus *any* part of what came
//!    later: in any order, cut at any 512-byte sector, with the length old, new or between.
//! 3. After a failed write any part of its range may have been written. After a failed sync, what was written
//!    since the sync before may be lost at a power loss *even if a later sync succeeds*: Linux has marked those pages
//!    clean (the "fsyncgate" of 2018). Only writing the bytes again and syncing again makes them durable.
//! 4. Bytes that were never written, below the file's length, read as zeros.

use base::{Error, Result};
use std::fmt::Debug;
use std::sync::Arc;

/// Identifies an open file on this machine. Two handles of one file have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The file system.
    pub volume: u64,
    /// The number of the file in the file system.
    pub number: u64,
}

/// An open file. Positions and lengths are in bytes. Methods take `&self`, and may run in parallel; parallel writes
/// to one range leave any mixture of them.
pub trait File: Send + Sync + Debug {
    /// Returns the name that the file was opened under.
    fn name(&self) -> &str;

    /// Reads from `offset` on into `buffer`, up to the end of the buffer or of the file. Returns how many bytes were
    /// read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills `buffer` from `offset` on. [`ErrorKind::Corruption`](base::ErrorKind::Corruption) if the file ends before
    /// that.
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

    /// Returns the length in bytes.
    fn len(&self) -> Result<u64>;

    /// Returns the id of the file, which does not depend on its name.
    fn id(&self) -> Result<FileId>;

    /// Returns whether the length is 0.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it by bytes that read as zeros and may have no disk space yet: writing them can still
    /// fail with [`ErrorKind::Full`](base::ErrorKind::Full).
    fn set_len(&self, len: u64) -> Result<()>;

    /// Allocates disk space for each of the first `len` bytes, and extends the file to at least that length. Bytes that
    /// were never written still read as zeros, but writing them can no longer fail for lack of space, and they may be
    /// [mapped](File::map). Allocation writes no data. The first sync after each such byte was written costs more,
    /// because the file system records that the byte was written. Returns false, without effect, where this is not
    /// supported.
    ///
    /// # Errors
    /// [`ErrorKind::Full`](base::ErrorKind::Full) if there is not enough space; some of the bytes may have been
    /// allocated.
    fn allocate(&self, len: u64) -> Result<bool> {
        self.allocate_at(0, len)
    }

    /// Allocates disk space for each of the `len` bytes from `offset` on, as [`allocate`](File::allocate) does for the
    /// first ones, and extends the file to hold them. Bytes that were written keep their contents.
    ///
    /// # Errors
    /// As [`allocate`](File::allocate).
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool>;

    /// Returns how many bytes the file system has free for this process, in all files together, or `None` if it does
    /// not say.
    ///
    /// # Errors
    /// The errors of asking the system.
    fn room_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Makes all writes before this call durable, together with the length, but not the file's name
    /// ([`Dir::sync`](crate::Dir::sync) does that). After an error nothing is known about those writes, whatever later
    /// syncs return.
    fn sync(&self) -> Result<()>;

    /// Asks the disk to start writing what a sync would write, and does not wait: a later sync has less left to do.
    /// Best effort; it makes nothing durable.
    fn begin_sync(&self) {}

    /// Makes later writes through this handle begin no syncs: the caller does that ([`File::begin_sync`]). Otherwise a
    /// write begins one after each MiB, which takes a fraction of a millisecond.
    fn begin_no_syncs(&self) {}

    /// Maps the first `len` bytes to append through. Returns `None` where that is not supported or not safe. Each of
    /// those bytes must have been written once or [allocated](File::allocate) (not only added by
    /// [`set_len`](File::set_len)), so that a store needs no new disk space. The file must not become shorter than
    /// `len` while the mapping lives.
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>>;

    /// Returns the disk space of a range to the file system. Afterwards the range reads as zeros or as before. Best
    /// effort: does nothing where the file system cannot do it.
    fn discard(&self, offset: u64, len: u64) -> Result<()>;
}

/// A mapping of a file's beginning, for stores only.
pub trait LogMap: Send + Sync + Debug {
    /// Stores `bytes` at `offset` of the file, with the effect and the durability of [`File::write_at`], without a
    /// system call.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](base::ErrorKind::Io) if the file system could not take the bytes: it was shut down, its device
    /// is gone, it is full, or the file was cut. Some of the bytes may have been stored. Every later store fails as
    /// well.
    ///
    /// # Panics
    /// If the range is not within the mapping.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Advises the system that the file was allocated and hardly written: a store to a page that is not in memory then
    /// clears only that page, and none after it. Best effort.
    fn read_nothing_ahead(&self) {}

    /// Advises the system that pages that end within `offset..offset + bytes`, and perhaps some before, will hardly be
    /// stored to again. They leave the process's memory, not the file. Call it before a flush of many pages: otherwise
    /// the flush must revoke the right to store for each page that is still mapped, and interrupts the other processors
    /// for each. Best effort.
    fn release(&self, _offset: u64, _bytes: u64) {}
}

#[cold]
fn ends_early(name: &str, offset: u64, wanted: usize, read: usize) -> Error {
    let end = offset.saturating_add(read as u64);
    Error::corruption(format!(
        "{name} is too short: expected {wanted} bytes at offset {offset}, but it ends at or before byte {end}"
    ))
}

/// The longest file of any system: offsets are signed.
pub(crate) const LONGEST_FILE_BYTES: u64 = i64::MAX as u64;

/// Returns the end of a range of a file, or [`ErrorKind::Full`](base::ErrorKind::Full) where no file can be that long.
pub(crate) fn checked_end(name: &str, offset: u64, len: u64) -> Result<u64> {
    offset.checked_add(len).filter(|&end| end <= LONGEST_FILE_BYTES).ok_or_else(|| {
        Error::new(
            base::ErrorKind::Full,
            format!("{len} bytes at offset {offset} of {name} are beyond the largest possible file"),
        )
    })
}

/// Returns the place of `bytes` in a mapping of `mapped` bytes. Panics if it is not within the mapping.
pub(crate) fn place_in_map(offset: u64, bytes: &[u8], mapped: u64) -> usize {
    let end = offset.checked_add(bytes.len() as u64);
    assert!(
        end.is_some_and(|end| end <= mapped),
        "store of {} bytes at {offset} of a mapping of {mapped} bytes",
        bytes.len()
    );
    offset as usize
}
