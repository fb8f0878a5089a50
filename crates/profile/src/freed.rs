//! Memory that the allocator keeps although it is free.
//!
//! glibc keeps freed memory for later allocations, in an arena for a few threads each. It does not return free memory
//! between used blocks by itself. A server whose threads start and end, and pass memory to one another, keeps several
//! times what it uses.

use std::fs;

/// The page size in which the kernel counts in `/proc/self/statm`.
const PAGE_BYTES: u64 = 4096;

/// Returns how much memory of this process is in RAM, in bytes, or `None` if the operating system does not report it.
pub fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_whitespace().nth(1)?.parse::<u64>().ok()? * PAGE_BYTES)
}

/// Makes the allocator return unused memory to the operating system. It takes milliseconds, during which threads that
/// allocate can wait. It does nothing if the allocator is not glibc's.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, may be called at any time, by any thread, and only touches memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_goes_back_to_the_system() {
        let before = resident_bytes().unwrap();
        // Every eighth block stays, so that the end of the heap is never free.
        let mut blocks: Vec<Vec<u8>> = (0..8_000).map(|_| vec![7; 8_000]).collect();
        let full = resident_bytes().unwrap();
        assert!(full - before > 50 << 20, "{before} to {full}");
        let mut at = 0;
        blocks.retain(|_| {
            at += 1;
            at % 8 == 0
        });
        give_back();
        let after = resident_bytes().unwrap();
        assert!(after < full - (25 << 20), "{full} to {after}, {} blocks are left", blocks.len());
    }
}
