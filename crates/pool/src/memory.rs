//! Memory for many pages at once, in huge memory pages where the kernel has them.
//!
//! Pages of a database that are touched at random miss the TLB at each touch if they lie in memory pages of 4 KiB,
//! and each of these is a fault when it is first touched, which costs microseconds on a virtual machine. One huge
//! page is 2 MiB: 512 faults fewer. Asked for only where a whole one will be used, as it is taken whole.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// What one huge page holds.
pub const HUGE_BYTES: usize = 2 << 20;

/// Bytes of its own, zero at first. Takes no memory before it is touched.
///
/// ```
/// let mut memory = pool::memory::Memory::zeroed(8192);
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
    /// `bytes` (not 0) zeros; in huge pages if that many fill one. Ends the process if there is no memory, as a
    /// vector would.
    pub fn zeroed(bytes: usize) -> Memory {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address of the kernel's choice: nothing else lies there.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, prot, flags) };
        let Some(start) = start.ok().and_then(|start| NonNull::new(start.cast::<u8>())) else {
            handle_alloc_error(Layout::from_size_align(bytes, 1).expect("a length below isize::MAX"))
        };
        #[cfg(target_os = "linux")]
        if bytes >= HUGE_BYTES {
            // SAFETY: the range was just mapped; the advice does not change what it holds. A kernel without huge
            // pages refuses, which costs some speed.
            let _ = unsafe {
                rustix::mm::madvise(start.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage)
            };
        }
        Memory { start, bytes }
    }
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
        // SAFETY: mapped in `zeroed` with this length, and no reference outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping what was mapped cannot fail");
    }
}
