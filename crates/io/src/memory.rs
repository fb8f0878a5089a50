//! Buffers that are mapped and not allocated: in huge memory pages where the kernel has them, or in small ones.
//!
//! An allocator keeps what was freed, between blocks in use and up to its own thresholds. glibc's grow with the blocks
//! that a program frees: from then on, a memtable of 64 MiB stayed with the process after it was freed. A mapping
//! goes back to the system when it is dropped.
//!
//! Random accesses to a database miss the TLB each time if its pages lie in memory pages of 4 KiB, and the first touch
//! of each memory page is a fault, which costs microseconds on a virtual machine. One huge page is 2 MiB: 512 faults
//! fewer. Huge pages are requested only where a whole one will be used, because it is taken whole.

#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// The size of a huge page in bytes.
pub const HUGE_BYTES: usize = 2 << 20;
/// The least alignment of a mapping in bytes.
const LEAST_ALIGN: usize = 4 << 10;

/// A buffer of bytes that are zero at first. It takes no memory before it is touched.
///
/// ```
/// let mut memory = pando_io::memory::Memory::zeroed(8192, false);
/// memory[5000] = 1;
/// assert_eq!((memory.len(), memory[4999], memory[5000]), (8192, 0, 1));
/// ```
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns what it points to alone, like a Box.
unsafe impl Send for Memory {}
// SAFETY: as above; a shared reference gives out `&[u8]` only.
unsafe impl Sync for Memory {}

impl Memory {
    /// Returns `bytes` (not 0) zeros, in huge pages if `huge` is set and the bytes fill one. Aborts the process if
    /// there is no memory, as a vector would.
    pub fn zeroed(bytes: usize, huge: bool) -> Memory {
        Memory::mapped(bytes, huge && bytes >= HUGE_BYTES).unwrap_or_else(|| {
            handle_alloc_error(Layout::from_size_align(bytes, 1).expect("a length below isize::MAX"))
        })
    }

    /// Returns `bytes` (not 0) zeros, aligned to the next power of two, at most [`HUGE_BYTES`]: the smallest alignment
    /// with which they touch no more huge pages than they fill. They are in huge pages if `huge` is set and the kernel
    /// has them. Returns `None` if the system has no memory.
    ///
    /// An allocator finds room for a large aligned block only where twice as much is free. With one, a pool that shrank
    /// and grew again took a quarter more than its limit.
    pub fn mapped(bytes: usize, huge: bool) -> Option<Memory> {
        let align = bytes.min(HUGE_BYTES).next_power_of_two();
        let all = bytes.checked_add(align - align.min(LEAST_ALIGN))?;
        let mapping = map(all)?;
        let before = mapping.align_offset(align);
        // SAFETY: at most `all - bytes` further, as the mapping begins at a multiple of `LEAST_ALIGN`.
        let (start, end) = unsafe { (mapping.add(before), mapping.add(before + bytes)) };
        unmap(mapping, before);
        unmap(end, all - before - bytes);
        let memory = Memory { start, bytes };
        #[cfg(target_os = "linux")]
        if huge {
            // SAFETY: the range was just mapped; the advice does not change what it holds. A kernel without huge
            // pages refuses, which costs some speed.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Some(memory)
    }

    /// Returns `bytes` (not 0) zeros in small pages, aligned to these. Aborts the process if there is no memory.
    pub fn in_small_pages(bytes: usize) -> Memory {
        let no_memory = || handle_alloc_error(Layout::from_size_align(bytes, 1).expect("below isize::MAX"));
        let start = map(bytes).unwrap_or_else(no_memory);
        // Where the kernel takes huge pages without a request, one would reach into the buffers beside.
        // SAFETY: the range was just mapped; the advice does not change what it holds.
        #[cfg(target_os = "linux")]
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
        Memory { start, bytes }
    }

    /// Returns the length of the buffer in bytes, without a look at what is in it.
    #[inline]
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Returns the start of the buffer, for a caller that tracks by itself which code uses which part.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

/// Maps new memory. Returns `None` if the system has none.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, at an address of the kernel's choice: nothing else lies there.
    let mapping = unsafe { mmap_anonymous(ptr::null_mut(), bytes, prot, flags) };
    NonNull::new(mapping.ok()?.cast())
}

/// Unmaps a mapping, or a part of one. The caller owns it, and no reference into it exists.
fn unmap(start: NonNull<u8>, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: it was mapped, and the caller alone knows of it.
    let unmapped = unsafe { munmap(start.as_ptr().cast(), bytes) };
    #[cfg(target_os = "linux")]
    if unmapped.is_err() {
        // The kernel has no room to note one more gap. Addresses are lost, memory is not.
        // SAFETY: as above.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = unmapped;
}

impl Deref for Memory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: mapped for reading and initialised by the kernel, for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, mapped for writing too, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_are_zeros_at_first() {
        let mut memory = Memory::in_small_pages(3 << 20);
        assert_eq!((memory.size(), memory.start().addr().get() % LEAST_ALIGN), (3 << 20, 0));
        assert!(memory.iter().all(|&byte| byte == 0));
        memory.fill(7);
        assert!(memory.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn it_lies_where_huge_pages_do() {
        for bytes in [1, 4096, 12 << 10, 64 << 10, HUGE_BYTES, 2 * HUGE_BYTES] {
            let mut all: Vec<Memory> = (0..8).map(|_| Memory::zeroed(bytes, true)).collect();
            for memory in &mut all {
                let align = bytes.min(HUGE_BYTES).next_power_of_two();
                assert_eq!((memory.len(), memory.start().addr().get() % align), (bytes, 0), "{bytes}");
                assert!(memory.iter().all(|&byte| byte == 0));
                memory.fill(7);
            }
            drop(all.remove(3));
            assert!(all.iter().all(|memory| memory.iter().all(|&byte| byte == 7)));
        }
        assert!(Memory::mapped(usize::MAX - HUGE_BYTES, false).is_none());
    }
}
