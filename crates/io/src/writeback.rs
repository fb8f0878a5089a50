//! Early writeback: asks the kernel to start writing a file's dirty pages.

use std::ffi::{c_int, c_uint};
use std::fs::File;
use std::os::fd::AsRawFd;

/// `SYNC_FILE_RANGE_WRITE` of `linux/fs.h`: begin, and do not wait.
const WRITE: c_uint = 2;

// SAFETY: this is how the C library declares it; `off64_t` is `i64`.
unsafe extern "C" {
    fn sync_file_range(file: c_int, offset: i64, bytes: i64, flags: c_uint) -> c_int;
}

/// Starts writing all dirty pages of `file`. Waits only for space in the device's queue. It makes nothing durable.
/// Because it waits for no page, it takes no page's error from the sync that follows.
pub(crate) fn begin(file: &File) {
    // SAFETY: numbers alone are passed, and the descriptor is open as long as `file` is borrowed.
    let _ = unsafe { sync_file_range(file.as_raw_fd(), 0, 0, WRITE) };
}
