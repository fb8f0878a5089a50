//! A shared mapping of a log segment, for stores.
//!
//! Why it is sound:
//!
//! 1. No reference to the mapped memory ever exists, and nothing is read through it. Other processes and the kernel
//!    may change it at any time without Rust noticing.
//! 2. Stores go through one mutex. There is one appender anyway; the mutex makes the safe
//!    [`LogMap::write`] sound for any caller, for some 10 ns.
//! 3. Each store is checked against the mapped length, which never changes; the mapping lives as long as its owner.
//! 4. If the file system cannot take a store (it was shut down, its device is gone, it is full, the file was cut), the
//!    kernel sends SIGBUS. A [`Guard`] turns it into an error: the store goes to anonymous memory, the mapping is
//!    marked, and [`LogMap::write`] returns the error.
//!
//! On a file system that needs new space for an overwritten byte, case 4 would happen to a healthy database on a full
//! disk. [`is_safe_on`] therefore admits only file systems that overwrite bytes in place once they were written or
//! allocated. (These reserve the space that they need to record that an allocated range was written.)
//!
//! Durability: a stored page is dirty in the page cache, as after `write`. It survives a killed process, and
//! `fdatasync` of the file writes it.

use crate::LogMap;
use crate::bus::Guard;
use crate::file::place_in_map;
use base::sync::{Mutex, lock};
use base::{Error, ErrorKind, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::{NonNull, copy_nonoverlapping, null_mut};

/// Returns whether a store to bytes that were written once or allocated never needs new space. That holds for file
/// systems that overwrite in place. Copy-on-write, network and unknown file systems are rejected.
pub(crate) fn is_safe_on(file: &File) -> io::Result<bool> {
    /// ext2 to ext4, XFS and tmpfs, from `linux/magic.h`.
    const OVERWRITE_IN_PLACE: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];
    let kind = rustix::fs::fstatfs(file)?.f_type as u64;
    Ok(OVERWRITE_IN_PLACE.contains(&kind))
}

/// Pages are released in multiples of this, which is a multiple of every page size of Linux.
const RELEASED_BYTES: usize = 64 << 10;

/// A shared, writable mapping of the first bytes of a file.
#[derive(Debug)]
pub(crate) struct SharedMap {
    start: Mutex<Start>,
    len: usize,
    guard: Guard,
}

/// The address of the mapping, which only the holder of the lock dereferences.
#[derive(Debug)]
struct Start(NonNull<u8>);

// SAFETY: the mapping belongs to the process, not to a thread: any thread may store to it and unmap it.
unsafe impl Send for Start {}

impl SharedMap {
    /// Maps the first `len` bytes of `file`, which must be that long; `len` must not be 0. Returns `None` where a store
    /// that the file system cannot take would end the process.
    pub(crate) fn new(file: &File, len: u64) -> io::Result<Option<SharedMap>> {
        if !Guard::is_possible() {
            return Ok(None);
        }
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks an address range that nothing else uses.
        let start = unsafe { mmap(null_mut(), len, flags.0, flags.1, file, 0)? };
        let start = NonNull::new(start.cast::<u8>()).expect("mmap never succeeds at address 0");
        // SAFETY: the range is this mapping's until `drop` unmaps it, and `drop` ends the guard before.
        let guard = unsafe { Guard::over(start.as_ptr() as usize, len) };
        Ok(Some(SharedMap { start: Mutex::new(Start(start)), len, guard }))
    }
}

impl LogMap for SharedMap {
    #[inline]
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let at = place_in_map(offset, bytes, self.len as u64);
        let start = lock(&self.start);
        // SAFETY: `at + bytes.len() <= len` was checked, and `len` bytes are mapped writable at `start` until `self`
        // is dropped. The lock makes this the only access to them by this process through this mapping. `bytes` is
        // a live slice, and no slice of the mapping exists, so the two do not overlap.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), start.0.as_ptr().add(at), bytes.len()) };
        if self.guard.is_broken() { Err(not_taken(offset, bytes.len())) } else { Ok(()) }
    }

    fn read_nothing_ahead(&self) {
        let start = lock(&self.start).0;
        // SAFETY: `len` bytes are mapped at `start` for as long as `self` lives; the advice does not change what they
        // hold. Refused, it costs only time.
        let _ = unsafe { madvise(start.as_ptr().cast(), self.len, Advice::Random) };
    }

    fn release(&self, offset: u64, bytes: u64) {
        let end =
            offset.saturating_add(bytes).min(self.len as u64) as usize / RELEASED_BYTES * RELEASED_BYTES;
        let at = offset.min(self.len as u64) as usize / RELEASED_BYTES * RELEASED_BYTES;
        if at >= end {
            return;
        }
        // Done without the lock, for which stores would wait.
        let start = lock(&self.start).0;
        // SAFETY: `at..end` is within the mapping, which lives as long as `self`. Of a shared mapping of a file this
        // takes away the entries of the page table: what was stored is in the page cache, and the next store, also one
        // at the same time, maps the same page again.
        let released = unsafe { madvise(start.as_ptr().add(at).cast(), end - at, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "madvise of pages that are mapped: {released:?}");
    }
}

#[cold]
fn not_taken(offset: u64, bytes: usize) -> Error {
    let message = format!(
        "cannot store {bytes} bytes at {offset} of the mapped log segment: its file system was shut down, \
         its device failed or is full, or the file was truncated (SIGBUS)"
    );
    Error::new(ErrorKind::Io, message)
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        self.guard.end();
        let start = lock(&self.start).0.as_ptr().cast::<c_void>();
        // SAFETY: `start` and `len` are those of the mapping that `new` made, and it is not used after this.
        let unmapped = unsafe { munmap(start, self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of a whole mapping: {unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PAGES: usize = 40;

    /// Returns the kernel's figure `name` for the mapping at `start`.
    fn said(start: usize, name: &str) -> String {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
        lines.find_map(|line| line.strip_prefix(name)).expect("each mapping says so").trim().to_owned()
    }

    /// Returns how many KiB of the mapping at `start` are in this process's page table.
    fn resident_kib(start: usize) -> u64 {
        said(start, "Rss:").trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn stores_read_nothing_ahead_when_told_so() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let map = SharedMap::new(&file, 1 << 20).unwrap().unwrap();
        let is_random = || {
            let flags = said(lock(&map.start).0.as_ptr() as usize, "VmFlags:");
            flags.split(' ').any(|flag| flag == "rr")
        };
        assert!(!is_random());
        map.read_nothing_ahead();
        assert!(is_random());
    }

    #[test]
    fn what_is_released_stays_in_the_file() {
        let path = std::env::temp_dir().join(format!("pando-release-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let page = RELEASED_BYTES;
        file.set_len((PAGES * page) as u64).unwrap();
        let map = SharedMap::new(&file, (PAGES * page) as u64).unwrap().unwrap();
        let start = lock(&map.start).0.as_ptr() as usize;
        let mut expected = vec![7; PAGES * page];
        map.write(0, &expected).unwrap();
        assert_eq!(resident_kib(start), (PAGES * page / 1024) as u64);
        // All pages except the last two, which the range covers in part or not at all.
        map.release(1, ((PAGES - 1) * page - 2) as u64);
        assert_eq!(resident_kib(start), (2 * page / 1024) as u64);
        map.release(5, 3);
        let again = page * 3 - 1..page * 3 + 5;
        expected[again.clone()].fill(9);
        map.write(again.start as u64, &expected[again]).unwrap();
        map.release(0, u64::MAX);
        assert_eq!(resident_kib(start), 0);
        assert!(fs::read(&path).unwrap() == expected, "what was stored, before and after");
        fs::remove_file(&path).unwrap();
    }
}
