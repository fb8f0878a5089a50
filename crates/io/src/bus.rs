//! Turns SIGBUS in a mapped log segment into an error.
//!
//! A store into a mapped page needs no help from the file system while the page is mapped for writing. A flush takes
//! that right away, and at the next store the kernel asks the file system again. If the file system was shut down (a
//! journal error, a pulled device) or the file was cut, the kernel sends SIGBUS, which by default ends the process. A
//! library must not end the program that it is part of.
//!
//! 1. Each mapping has an entry in a list of address ranges ([`Guard::over`]).
//! 2. The handler looks for the range that holds the faulting address. If it finds one, it replaces the page by
//!    anonymous memory, marks the entry as broken, and returns. The processor repeats the store, which now succeeds.
//!    The caller checks the mark after each store ([`Guard::is_broken`]), and discards the mapping if it is set.
//! 3. The handler passes any other SIGBUS on to the handler that was installed before it, or to the default.
//!
//! The first mapping installs the handler, and nothing removes it. If the host program replaces it later,
//! [`Guard::is_possible`] returns false, and new log segments are not mapped. A fault in a thread that blocks SIGBUS
//! ends the process whatever is installed: the kernel offers no other way.
//!
//! The handler does only what is safe in a signal handler: atomic loads and stores, and system calls.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
// The standard library's atomics under loom, too: a static cannot hold loom's, and a signal handler cannot run under
// it.
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, compiler_fence};

/// One range of addresses. Entries are never freed, because the handler may be reading any of them. They are reused, so
/// their number is the largest number of mappings that existed at one time.
#[derive(Debug)]
struct Entry {
    /// The first address, or [`FREE`] or [`CLAIMED`] while there is no mapping. No mapping has these addresses.
    start: AtomicUsize,
    /// The address after the last one. Set before `start`.
    end: AtomicUsize,
    broken: AtomicBool,
    next: *const Entry,
}

const FREE: usize = usize::MAX;
const CLAIMED: usize = usize::MAX - 1;

/// The newest entry; each leads to the one before.
static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(null_mut());
/// The action for SIGBUS before the handler was installed. Null until then.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A mapping under the handler's protection.
#[derive(Debug)]
pub(crate) struct Guard {
    entry: &'static Entry,
}

// SAFETY: `next` is written before an entry is published and never changes; all else in it is atomic.
unsafe impl Sync for Entry {}

impl Guard {
    /// Returns whether faults reach the handler. The first call installs it; false means that this failed, or that the
    /// program has replaced it since.
    pub fn is_possible() -> bool {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        *INSTALLED.get_or_init(install) && current().is_some_and(|action| action.sa_sigaction == handler())
    }

    /// Protects `len` bytes from `start` on.
    ///
    /// # Safety
    /// The caller owns this mapping, only stores to it, and keeps it mapped until [`Guard::end`]. The handler may
    /// replace any of its pages.
    pub unsafe fn over(start: usize, len: usize) -> Guard {
        let entry = claim().unwrap_or_else(push);
        entry.broken.store(false, Ordering::SeqCst);
        entry.end.store(start + len, Ordering::SeqCst);
        entry.start.store(start, Ordering::SeqCst);
        Guard { entry }
    }

    /// Returns whether a store to the range met SIGBUS. Call it after each store.
    #[inline]
    pub fn is_broken(&self) -> bool {
        // The handler runs in the thread that stores, between two of its instructions. This keeps the compiler from
        // moving the load before the store; the processor repeats whatever it did ahead of a store that faulted.
        compiler_fence(Ordering::SeqCst);
        // Relaxed: set by this thread's own handler, or by another thread whose store before was under the same lock.
        self.entry.broken.load(Ordering::Relaxed)
    }

    /// Ends the protection. Call it before the range is unmapped, because another mapping may be placed there.
    pub fn end(&self) {
        self.entry.start.store(FREE, Ordering::SeqCst);
    }
}

/// Returns the entries, newest first.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let first = ENTRIES.load(Ordering::SeqCst).cast_const();
    std::iter::successors(to_entry(first), |entry| to_entry(entry.next))
}

fn to_entry(entry: *const Entry) -> Option<&'static Entry> {
    // SAFETY: it is null, or was leaked by `push` before it was published.
    unsafe { entry.as_ref() }
}

/// Returns an entry that was used before and is free.
fn claim() -> Option<&'static Entry> {
    entries()
        .find(|entry| entry.start.compare_exchange(FREE, CLAIMED, Ordering::SeqCst, Ordering::SeqCst).is_ok())
}

/// Adds a new entry.
fn push() -> &'static Entry {
    let entry = Box::leak(Box::new(Entry {
        start: AtomicUsize::new(CLAIMED),
        end: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
        next: null(),
    }));
    let mut first = ENTRIES.load(Ordering::SeqCst);
    loop {
        entry.next = first;
        match ENTRIES.compare_exchange(first, entry, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return entry,
            Err(newer) => first = newer,
        }
    }
}

fn handler() -> usize {
    on_bus_error as *const () as usize
}

/// Returns the current action for SIGBUS.
fn current() -> Option<libc::sigaction> {
    // SAFETY: all zeros is a valid `sigaction`, which the call fills; with a null action it changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(libc::SIGBUS, null(), &mut action) == 0).then_some(action)
    }
}

/// Installs the handler before the current action. Returns whether that succeeded.
fn install() -> bool {
    let Some(before) = current() else { return false };
    // SAFETY: a plain call. (rustix reads the auxiliary vector instead, which valgrind does not hand over whole.)
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Some(page_bytes) = usize::try_from(page_bytes).ok().filter(|bytes| bytes.is_power_of_two()) else {
        return false;
    };
    PAGE_BYTES.store(page_bytes, Ordering::SeqCst);
    // Never freed: the handler may read it at any time. Before the call below, after which it may run.
    BEFORE.store(Box::leak(Box::new(before)), Ordering::SeqCst);
    // SAFETY: all zeros is a valid `sigaction`, its mask empty; the handler is one for SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler();
        // The handler runs on the alternative stack if the thread has one, as Go requires of every handler.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(libc::SIGBUS, &action, null_mut()) == 0
    }
}

extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid `siginfo_t` to a handler that was installed with SA_SIGINFO. For a fault, which
    // has a positive code, it holds the address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code > 0 && replace_page(address) {
        return;
    }
    pass_on(signal, code, info, context);
}

/// Replaces the page at `address` if it belongs to a mapping of ours.
fn replace_page(address: usize) -> bool {
    let holds = |entry: &&Entry| {
        entry.start.load(Ordering::SeqCst) <= address && address < entry.end.load(Ordering::SeqCst)
    };
    let Some(entry) = entries().find(holds) else { return false };
    entry.broken.store(true, Ordering::SeqCst);
    let page_bytes = PAGE_BYTES.load(Ordering::SeqCst);
    let page = (address / page_bytes * page_bytes) as *mut c_void;
    let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    // SAFETY: the page lies within a mapping whose owner agreed to this, and only stores to it ([`Guard::over`]); it is
    // not unmapped meanwhile, as the store that faulted is under way.
    unsafe { mmap_anonymous(page, page_bytes, flags.0, flags.1) }.is_ok()
}

/// Handles SIGBUS as the process did before this handler was installed: calls the earlier handler, ignores a signal
/// that was sent, or ends the process.
fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: set before the handler was installed, and never freed.
    let Some(before) = (unsafe { BEFORE.load(Ordering::SeqCst).as_ref() }) else { return };
    match before.sa_sigaction {
        libc::SIG_IGN if code <= 0 => {}
        // A fault cannot be ignored: the instruction would be repeated forever.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: a plain call with a valid action. On return the instruction faults again, and the default ends
            // the process. A signal sent by `kill` is raised again, with the same effect.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &action, null_mut());
                if code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: SA_SIGINFO says that it is a function of three arguments; they are those of this signal.
            unsafe {
                std::mem::transmute::<usize, extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)>(
                    handler,
                )(signal, info, context);
            }
        }
        handler => {
            // SAFETY: without SA_SIGINFO it is a function of one argument.
            unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal) }
        }
    }
}
