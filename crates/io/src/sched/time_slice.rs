//! Short time slices, with which a thread runs soon and for a short time instead of late and for long.

use std::marker::PhantomData;

/// A guard during which this thread runs soon after it wakes, and yields the processor soon.
///
/// Use it for threads that wake often to do a little work that a caller waits for. On Linux a waking thread of the fair
/// class waits until the running thread has used up its slice, often until the tick after that, 4 ms later. A thread
/// with a shorter slice runs earlier, yields earlier, and gets no larger share of the processor: the rule of EEVDF
/// (Stoica and Abdel-Wahab, 1995), which Linux lets each thread use since 6.12. Earlier kernels ignore the request,
/// and other systems do not have it; then the guard does nothing. Threads and processes that this thread starts have
/// slices as usual.
///
/// ```
/// let short = pando_io::ShortTimeSlice::begin();
/// // A few microseconds of work at a time.
/// drop(short);
/// ```
#[derive(Debug)]
pub struct ShortTimeSlice {
    #[cfg(target_os = "linux")]
    before: Option<linux::Attributes>,
    /// Not `Send`: the slice belongs to the thread that requested it.
    _here: PhantomData<*const ()>,
}

impl ShortTimeSlice {
    /// Begins the short slice: one or two system calls.
    pub fn begin() -> Self {
        ShortTimeSlice {
            #[cfg(target_os = "linux")]
            before: linux::shorten(),
            _here: PhantomData,
        }
    }

    /// Keeps the short slice for as long as the thread lives.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

#[cfg(target_os = "linux")]
impl Drop for ShortTimeSlice {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            linux::set(before);
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use libc::{SCHED_BATCH, SCHED_OTHER, SYS_sched_getattr, SYS_sched_setattr, c_long, c_uint, syscall};

    pub(super) use libc::sched_attr as Attributes;

    /// The shortest slice that Linux gives.
    pub(super) const SHORTEST_NS: u64 = 100_000;
    /// `SCHED_FLAG_RESET_ON_FORK` of `linux/sched.h`: threads that this one starts do not inherit the slice. Only a
    /// privileged thread can clear the flag, so it stays.
    const NOT_INHERITED: u64 = 1;
    /// The calling thread, in both calls.
    const THIS: c_long = 0;
    const NO_FLAGS: c_uint = 0;

    /// Requests the shortest slice and leaves everything else unchanged. Returns the former attributes if they were
    /// changed.
    pub(super) fn shorten() -> Option<Attributes> {
        let mut before = get()?;
        let is_fair = [SCHED_OTHER, SCHED_BATCH].contains(&(before.sched_policy as i32));
        before.sched_flags = NOT_INHERITED;
        let changed = is_fair && set(&Attributes { sched_runtime: SHORTEST_NS, ..before });
        changed.then_some(before)
    }

    pub(super) fn get() -> Option<Attributes> {
        let mut attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        let bytes = attributes.size;
        // SAFETY: the kernel writes at most `bytes` of them, and any bytes are attributes.
        let got = unsafe { syscall(SYS_sched_getattr, THIS, &raw mut attributes, bytes, NO_FLAGS) };
        (got == 0).then_some(attributes)
    }

    pub(super) fn set(attributes: &Attributes) -> bool {
        // SAFETY: the kernel reads them, as many as their own `size` says.
        unsafe { syscall(SYS_sched_setattr, THIS, std::ptr::from_ref(attributes), NO_FLAGS) == 0 }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::{SHORTEST_NS, get};
    use super::*;
    use std::thread;

    /// Returns policy, niceness and slice.
    fn state() -> (u32, i32, u64) {
        let now = get().unwrap();
        (now.sched_policy, now.sched_nice, now.sched_runtime)
    }

    #[test]
    fn a_thread_has_a_short_slice_and_then_its_own_again() {
        let (policy, nice, own_ns) = state();
        let slice = ShortTimeSlice::begin();
        // Kernels before 6.12 report no slice.
        let short_ns = if own_ns == 0 { 0 } else { SHORTEST_NS };
        assert_eq!(state(), (policy, nice, short_ns));
        assert_eq!(thread::spawn(state).join().unwrap(), (policy, nice, own_ns), "it is not inherited");
        drop(slice);
        assert_eq!(state(), (policy, nice, own_ns));
        ShortTimeSlice::begin().keep();
        assert_eq!(state(), (policy, nice, short_ns));
    }
}
