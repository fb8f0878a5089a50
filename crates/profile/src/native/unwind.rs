//! Walks from registers to return addresses by the unwind tables that every Rust build has. Frame pointers are not
//! needed.
//!
//! A walk does only what a signal handler may do: [framehop](https://docs.rs/framehop) neither allocates nor locks once
//! it has the tables and a cache. Caches are taken from a fixed set, by one atomic each; if none is free, the sample is
//! lost. Stack words are read only from pages that the kernel has confirmed, so wrong tables cause a wrong stack and
//! not a crash.

use super::modules::{self, Generation};
use crate::kind::Error;
use framehop::{CacheNative, MustNotAllocateDuringUnwind, UnwindRegsNative, Unwinder, UnwinderNative};
use std::arch::asm;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

type Cache = CacheNative<MustNotAllocateDuringUnwind>;

/// The least page size that Linux has on these processors.
const PAGE_BYTES: u64 = 4096;

/// The registers of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub instruction: u64,
    pub stack: u64,
    pub frame: u64,
    /// The return address of the innermost function, on processors that keep it in a register.
    #[cfg(target_arch = "aarch64")]
    pub link: u64,
}

impl Registers {
    /// Returns the registers of the function into which this is inlined.
    #[inline(always)]
    pub fn here() -> Self {
        let (instruction, stack, frame);
        // SAFETY: registers are copied to others; nothing else happens.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(
                "lea {}, [rip]",
                "mov {}, rsp",
                "mov {}, rbp",
                out(reg) instruction, out(reg) stack, out(reg) frame,
                options(nomem, nostack, preserves_flags)
            );
            Registers { instruction, stack, frame }
        }
        // SAFETY: see above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            let link;
            asm!(
                "adr {}, .",
                "mov {}, sp",
                "mov {}, x29",
                "mov {}, x30",
                out(reg) instruction, out(reg) stack, out(reg) frame, out(reg) link,
                options(nomem, nostack, preserves_flags)
            );
            Registers { instruction, stack, frame, link }
        }
    }

    fn native(self) -> UnwindRegsNative {
        #[cfg(target_arch = "x86_64")]
        return UnwindRegsNative::new(self.instruction, self.stack, self.frame);
        #[cfg(target_arch = "aarch64")]
        return UnwindRegsNative::new(self.link, self.stack, self.frame);
    }
}

/// The tables of the objects that were loaded when they were read, and the caches.
struct Tables {
    generation: Generation,
    unwinder: UnwinderNative<Vec<u8>, MustNotAllocateDuringUnwind>,
    caches: Box<[Lent]>,
}

/// A cache, and whether it is taken.
struct Lent {
    taken: AtomicBool,
    cache: UnsafeCell<Cache>,
}

// SAFETY: only the thread that set `taken` reaches the cache.
unsafe impl Sync for Lent {}

/// The newest tables; null before the first recording. Tables are never freed, because a late signal may use them. New
/// ones are made only if an object was loaded or unloaded between two recordings.
static TABLES: AtomicPtr<Tables> = AtomicPtr::new(std::ptr::null_mut());

fn tables() -> Option<&'static Tables> {
    // SAFETY: null, or leaked by `prepare`.
    unsafe { TABLES.load(Ordering::SeqCst).as_ref() }
}

/// Reads the tables of the loaded objects if these have changed. It is called before every recording, by one thread at
/// a time.
pub(crate) fn prepare() -> Result<(), Error> {
    let (generation, modules) = modules::loaded();
    if tables().is_some_and(|tables| tables.generation == generation) {
        return Ok(());
    }
    let mut unwinder = UnwinderNative::new();
    for module in modules {
        unwinder.add_module(module);
    }
    let lent = || Lent { taken: AtomicBool::new(false), cache: UnsafeCell::new(Cache::default()) };
    let processors = std::thread::available_parallelism().map_or(8, usize::from);
    let caches = std::iter::repeat_with(lent).take((2 * processors).max(8)).collect();
    TABLES.store(Box::into_raw(Box::new(Tables { generation, unwinder, caches })), Ordering::SeqCst);
    Ok(())
}

/// Writes the addresses of `registers`' function and of its callers, innermost first, each inside of its call. Returns
/// how many there are, or `None` if there are no tables or no cache was free.
pub(super) fn walk(registers: Registers, frames: &mut [u64]) -> Option<usize> {
    let tables = tables()?;
    let lent = tables.caches.iter().find(|lent| !lent.taken.swap(true, Ordering::SeqCst))?;
    // SAFETY: the thread that set `taken` has it alone, until it clears it below.
    let cache = unsafe { &mut *lent.cache.get() };
    let mut known_page = 0;
    let mut read = |address: u64| read_word(address, &mut known_page).ok_or(());
    let mut callers =
        tables.unwinder.iter_frames(registers.instruction, registers.native(), cache, &mut read);
    let mut count = 0;
    while count < frames.len()
        && let Ok(Some(frame)) = callers.next()
    {
        frames[count] = frame.address_for_lookup();
        count += 1;
    }
    lent.taken.store(false, Ordering::SeqCst);
    Some(count)
}

/// Returns the word at `address`; `None` if it cannot be read. `known_page` stores the page that was confirmed last.
fn read_word(address: u64, known_page: &mut u64) -> Option<u64> {
    let page = address / PAGE_BYTES;
    if !address.is_multiple_of(8) || page == 0 || (page != *known_page && !can_be_read(address)) {
        return None;
    }
    *known_page = page;
    // SAFETY: it is aligned, and the kernel has read this page a moment ago. It is a page of this thread's own stack,
    // or of a wrong frame; another thread can unmap it in between only if the tables are wrong.
    Some(unsafe { (address as *const u64).read_volatile() })
}

/// Asks the kernel whether an address can be read: it copies the signal set from there before it finds that the
/// operation is invalid.
fn can_be_read(address: u64) -> bool {
    const NONSENSE: libc::c_int = -1;
    let nowhere = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the kernel checks the address and changes nothing, because it does not know `NONSENSE`.
    let refused =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NONSENSE, address, nowhere, size_of::<u64>()) };
    // SAFETY: this thread's errno.
    refused == -1 && unsafe { *libc::__errno_location() } == libc::EINVAL
}
