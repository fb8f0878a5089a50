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
///
/// A use of an entry stores, in this order: `start` = [`CLAIMED`], `uses` + 1, `end`, `start`, and `start` = [`FREE`].
/// A reader that loads `uses`, `start`, `end`, and the same `uses` again has the range of one use ([`Entry::holds`]).
#[derive(Debug)]
struct Entry {
    /// The number of mappings that the entry was used for.
    uses: AtomicUsize,
    /// The first address, or [`FREE`] or [`CLAIMED`] while there is no mapping. No mapping has these addresses.
    start: AtomicUsize,
    /// The address after the last one.
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
        entry.begin(start, start + len);
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

impl Entry {
    /// Creates an entry that is claimed for its first use.
    fn claimed() -> Entry {
        let [uses, end] = [0; 2].map(AtomicUsize::new);
        let (start, broken) = (AtomicUsize::new(CLAIMED), AtomicBool::new(false));
        Entry { uses, start, end, broken, next: null() }
    }

    /// Claims the entry if it is free.
    fn claim(&self) -> bool {
        self.start.compare_exchange(FREE, CLAIMED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Begins a use of the claimed entry.
    fn begin(&self, start: usize, end: usize) {
        self.uses.fetch_add(1, Ordering::SeqCst);
        self.broken.store(false, Ordering::SeqCst);
        self.end.store(end, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
    }

    /// Returns whether `address` was in the entry's range at one moment of the call, all through which the same mapping
    /// used the entry. A mapping with a store under way is not ended: its entry is found.
    ///
    /// Both loads of `uses` return *k*, so no use after *k* has stored an `end` or a `start`. Use *k* was begun by the
    /// first load, so the `start` of no earlier use is left. An address in `start` is therefore that of use *k*, and
    /// the `end` of use *k* was stored before it. Without the second load, `start` could be that of one mapping and
    /// `end` that of the next one: a range that covers what lies between the two, which is not ours.
    fn holds(&self, address: usize) -> bool {
        self.holds_while(address, || ())
    }

    /// Returns the result of [`Entry::holds`]. Calls `meanwhile` between the two steps, for tests.
    #[inline(always)]
    fn holds_while(&self, address: usize, meanwhile: impl FnOnce()) -> bool {
        let uses = self.uses.load(Ordering::SeqCst);
        let start = self.start.load(Ordering::SeqCst);
        meanwhile();
        let end = self.end.load(Ordering::SeqCst);
        (start..end).contains(&address) && self.uses.load(Ordering::SeqCst) == uses
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
    entries().find(|entry| entry.claim())
}

/// Adds a new entry.
fn push() -> &'static Entry {
    let entry = Box::leak(Box::new(Entry::claimed()));
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
    let Some(entry) = entries().find(|entry| entry.holds(address)) else { return false };
    entry.broken.store(true, Ordering::SeqCst);
    let page_bytes = PAGE_BYTES.load(Ordering::SeqCst);
    let page = (address / page_bytes * page_bytes) as *mut c_void;
    let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    // SAFETY: the page lay within a mapping at the moment that `holds` describes, whose owner agreed to this, and only
    // stores to it ([`Guard::over`]). The fault came before that moment and its instruction is not over, so the address
    // is that mapping's: another mapping that holds it all this time was not replaced by ours in between. And ours is
    // not unmapped meanwhile, because its owner does not end it while a store is under way.
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

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: (usize, usize) = (1_000, 2_000);
    const BETWEEN: usize = 5_000;
    const OTHER: (usize, usize) = (8_000, 9_000);

    /// Ends the use of an entry, and begins the next one.
    fn use_again(entry: &Entry, (start, end): (usize, usize)) {
        entry.start.store(FREE, Ordering::SeqCst);
        assert!(entry.claim() && !entry.claim());
        entry.begin(start, end);
    }

    #[test]
    fn an_entry_holds_its_range_while_it_is_used() {
        let entry = Entry::claimed();
        assert!(!entry.holds(CLAIMED) && !entry.holds(0));
        entry.begin(ONE.0, ONE.1);
        assert!(
            entry.holds(ONE.0) && entry.holds(ONE.1 - 1) && !entry.holds(ONE.1) && !entry.holds(ONE.0 - 1)
        );
        use_again(&entry, OTHER);
        assert!(entry.holds(OTHER.0) && !entry.holds(ONE.0));
        entry.start.store(FREE, Ordering::SeqCst);
        assert!(!entry.holds(OTHER.0) && !entry.holds(FREE));
    }

    /// The entry is used for another one between the two steps of a look. The page between the mappings is not ours.
    #[test]
    fn what_lies_between_two_mappings_is_in_neither() {
        let entry = Entry::claimed();
        entry.begin(ONE.0, ONE.1);
        assert!(!entry.holds_while(BETWEEN, || use_again(&entry, OTHER)));
        // Nor if the first mapping's place is used a third time.
        use_again(&entry, ONE);
        let twice = || [OTHER, ONE, OTHER].into_iter().for_each(|range| use_again(&entry, range));
        assert!(!entry.holds_while(BETWEEN, twice));
        use_again(&entry, ONE);
        assert!(entry.holds_while(ONE.0, || ()));
    }
}
