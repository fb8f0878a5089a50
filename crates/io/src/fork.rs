//! Detects whether this process opened a database or is a child that was forked from it.
//!
//! A forked child has its parent's handles and none of its threads. Its locks are in the state of that moment, and its
//! files are the parent's own, with offsets, locks and log. Any use of them would harm both processes. So every call on
//! an inherited handle is rejected.
//!
//! On Linux one page of memory is marked so that the kernel gives it to every child full of zeros (`MADV_WIPEONFORK`,
//! since 4.14): the check is one load of a line that never changes. Elsewhere, and on older kernels, process ids are
//! compared.

use std::sync::OnceLock;
// The standard library's atomics under loom, too: a mapped page and a static cannot hold loom's.
use std::sync::atomic::{AtomicU64, Ordering};

/// The process that opened something.
///
/// ```
/// assert!(!pando_io::Origin::here().is_forked());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    mark: Option<&'static AtomicU64>,
    value: u64,
}

/// The page, and how many processes among this one's ancestors have marked it.
static MARK: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
static MARKED: AtomicU64 = AtomicU64::new(0);

impl Origin {
    /// Returns this process.
    pub fn here() -> Origin {
        let mark = *MARK.get_or_init(wiped_on_fork);
        let Some(page) = mark else { return Origin { mark, value: u64::from(std::process::id()) } };
        if page.load(Ordering::SeqCst) == 0 {
            // A child continues from the count that it inherited, so that no ancestor has the same number.
            let next = MARKED.fetch_add(1, Ordering::SeqCst) + 1;
            // Another thread may have been first: its number is as good.
            let _ = page.compare_exchange(0, next, Ordering::SeqCst, Ordering::SeqCst);
        }
        Origin { mark, value: page.load(Ordering::SeqCst) }
    }

    /// Returns whether this process was forked from the one in `self`.
    #[inline]
    pub fn is_forked(&self) -> bool {
        match self.mark {
            // Relaxed: it changes in no process that could see it change.
            Some(page) => page.load(Ordering::Relaxed) != self.value,
            None => u64::from(std::process::id()) != self.value,
        }
    }
}

#[cfg(target_os = "linux")]
fn wiped_on_fork() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    const BYTES: usize = 4096;
    let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: with a null hint and without MAP_FIXED the kernel picks an address range that nothing else uses.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, flags.0, flags.1).ok()? };
    // SAFETY: the range was just mapped, and nothing in it is referred to yet.
    unsafe { madvise(page, BYTES, Advice::LinuxWipeOnFork).ok()? };
    // SAFETY: the page is aligned, zeroed, and never unmapped; it is reached through this atomic alone.
    Some(unsafe { &*page.cast::<AtomicU64>() })
}

#[cfg(not(target_os = "linux"))]
fn wiped_on_fork() -> Option<&'static AtomicU64> {
    None
}
