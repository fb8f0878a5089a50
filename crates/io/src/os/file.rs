//! Open files: positions, lengths, disk space, and early writeback.

use super::id_of;
use crate::file::{FileId, LONGEST_FILE_BYTES, checked_end};
use crate::{File, LogMap};
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::{Error, Result, background};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

/// The disk is asked to start writing after this many bytes.
const WRITEBACK_BYTES: u64 = 1 << 20;
/// The most that one call writes, if there is time.
const PIECE_BYTES: usize = 64 << 10;

/// Frees a nameless file's disk space piece by piece, with pauses: while the file system frees 64 MiB at once, a flush
/// of another file waits for 12 ms. Closing the file frees the rest. A file that has another link stays unchanged.
pub(super) fn shrink(file: &fs::File) {
    let Ok(metadata) = file.metadata() else { return };
    let mut left = if metadata.nlink() == 0 { metadata.len() } else { 0 };
    while left > WRITEBACK_BYTES {
        left -= WRITEBACK_BYTES;
        if file.set_len(left).is_err() {
            return;
        }
        background::pause();
    }
}

/// Returns how many of `bytes` one call writes. Throttled work writes them piece by piece: the kernel copies the bytes
/// of a call in one go, into pages of memory that it may have to find first.
fn bytes_at_once(bytes: usize) -> usize {
    if bytes > PIECE_BYTES && background::is_throttled() { PIECE_BYTES } else { bytes.max(1) }
}

/// An open file of the operating system.
#[derive(Debug)]
pub(super) struct OsFile {
    name: String,
    path: PathBuf,
    handle: fs::File,
    /// The number of bytes written since the file was opened.
    written: AtomicU64,
    /// Whether the caller asks the disk to start writing: [`File::begin_no_syncs`].
    begins_no_syncs: AtomicBool,
}

impl OsFile {
    pub fn new(name: &str, path: PathBuf, handle: fs::File) -> OsFile {
        OsFile {
            name: name.into(),
            path,
            handle,
            written: AtomicU64::new(0),
            begins_no_syncs: AtomicBool::new(false),
        }
    }

    fn metadata(&self) -> Result<fs::Metadata> {
        self.handle.metadata().map_err(|error| self.failed(format_args!("find the length"), error))
    }

    /// Asks the disk to start writing after every [`WRITEBACK_BYTES`]. The sync at the end of a long write then has
    /// little left to do, and other flushes wait for little. Throttled work pauses after each.
    fn note_written(&self, bytes: u64) {
        // Relaxed: a setting that orders nothing.
        if self.begins_no_syncs.load(Ordering::Relaxed) {
            return;
        }
        // Relaxed: a count that orders nothing.
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        if before / WRITEBACK_BYTES != (before + bytes) / WRITEBACK_BYTES {
            self.begin_sync();
            background::pause();
        }
    }

    #[cold]
    fn failed(&self, call: std::fmt::Arguments<'_>, error: io::Error) -> Error {
        Error::io(format_args!("{call} of {}", self.path.display()), error)
    }
}

impl File for OsFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if offset.saturating_add(buffer.len() as u64) > LONGEST_FILE_BYTES {
            return Ok(0); // no file reaches so far, but the system would call it an invalid argument
        }
        let mut filled = 0;
        while filled < buffer.len() {
            match self.handle.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(self.failed(format_args!("read {} bytes at {offset}", buffer.len()), error));
                }
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        checked_end(&self.name, offset, bytes.len() as u64)?;
        let mut at = offset;
        for piece in bytes.chunks(bytes_at_once(bytes.len())) {
            if at > offset {
                background::pause();
            }
            self.handle
                .write_all_at(piece, at)
                .map_err(|error| self.failed(format_args!("write {} bytes at {at}", piece.len()), error))?;
            at += piece.len() as u64;
        }
        self.note_written(bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn id(&self) -> Result<FileId> {
        Ok(id_of(&self.metadata()?))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        checked_end(&self.name, 0, len)?;
        self.handle.set_len(len).map_err(|error| self.failed(format_args!("set {len} as the length"), error))
    }

    #[cfg(target_os = "linux")]
    fn allocate_at(&self, offset: u64, len: u64) -> Result<bool> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        checked_end(&self.name, offset, len)?;
        let failed = |error| self.failed(format_args!("allocate {len} bytes at {offset}"), error);
        // Copy-on-write file systems reserve space for the first write alone, if at all.
        if len == 0 || !crate::map::is_safe_on(&self.handle).map_err(failed)? {
            return Ok(false);
        }
        match rustix::io::retry_on_intr(|| fallocate(&self.handle, FallocateFlags::empty(), offset, len)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(failed(error.into())),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate_at(&self, _offset: u64, _len: u64) -> Result<bool> {
        Ok(false)
    }

    fn room_bytes(&self) -> Result<Option<u64>> {
        let found = rustix::fs::fstatvfs(&self.handle)
            .map_err(|error| self.failed(format_args!("find the free room"), error.into()))?;
        Ok(Some(found.f_bavail.saturating_mul(found.f_frsize)))
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync_data().map_err(|error| self.failed(format_args!("sync the data"), error))
    }

    #[cfg(target_os = "linux")]
    fn begin_sync(&self) {
        crate::writeback::begin(&self.handle);
    }

    fn begin_no_syncs(&self) {
        // Relaxed: as where it is read.
        self.begins_no_syncs.store(true, Ordering::Relaxed);
    }

    #[cfg(target_os = "linux")]
    fn map(&self, len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        if len > self.len()? {
            return Err(Error::invalid(format!(
                "{} is shorter than a mapping of {len} bytes",
                self.path.display()
            )));
        }
        let failed = |error| self.failed(format_args!("map {len} bytes"), error);
        if len == 0 || !crate::map::is_safe_on(&self.handle).map_err(failed)? {
            return Ok(None);
        }
        let map = crate::map::SharedMap::new(&self.handle, len).map_err(failed)?;
        Ok(map.map(|map| Arc::new(map) as Arc<dyn LogMap>))
    }

    #[cfg(not(target_os = "linux"))]
    fn map(&self, _len: u64) -> Result<Option<Arc<dyn LogMap>>> {
        Ok(None)
    }

    #[cfg(target_os = "linux")]
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        if len == 0 {
            return Ok(());
        }
        checked_end(&self.name, offset, len)?;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::io::retry_on_intr(|| fallocate(&self.handle, punch, offset, len)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.failed(format_args!("discard {len} bytes at {offset}"), error.into())),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn discard(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_can_begin_syncs_itself() {
        let handle = tempfile::tempfile().unwrap();
        let file = OsFile::new("data", PathBuf::from("data"), handle);
        let written = || file.written.load(Ordering::Relaxed);
        let bytes = vec![1; 3 << 20];
        file.write_at(&bytes, 0).unwrap();
        assert_eq!(written(), 3 << 20, "each MiB of them asked the disk to start");
        file.begin_no_syncs();
        file.write_at(&bytes, 3 << 20).unwrap();
        assert_eq!((written(), file.len().unwrap()), (3 << 20, 6 << 20));
    }
}
