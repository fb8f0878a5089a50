//! A thread's turn on a processor: soon and short, instead of late and long.

use std::marker::PhantomData;

/// While it lives, this thread runs soon after it wakes, and gives way soon.
///
/// For threads that are often woken, to do a little that somebody waits for. On Linux a thread of the fair class that
/// wakes waits until the one that runs has used up its slice, often until the tick behind that, 4 ms later. Who asks
/// for a shorter slice runs earlier and gives way earlier, and gets no more of the processor for it: the rule of EEVDF
/// (Stoica and Abdel-Wahab, 1995), which Linux leaves to each thread since 6.12. Earlier kernels ignore the request,
/// other systems have none, and then it does nothing. Threads and processes that this one starts have slices as usual.
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
    /// It is the thread's that asked.
    _here: PhantomData<*const ()>,
}

impl ShortTimeSlice {
    /// From now on: a system call or two.
    pub fn begin() -> Self {
        ShortTimeSlice {
            #[cfg(target_os = "linux")]
            before: linux::shorten(),
            _here: PhantomData,
        }
    }

    /// For as long as the thread lives.
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
    /// `SCHED_FLAG_RESET_ON_FORK` of `linux/sched.h`: those that this thread starts do not inherit it. Only who has
    /// privileges can take it back, so it stays.
    const NOT_INHERITED: u64 = 1;
    /// This thread, to both calls.
    const THIS: c_long = 0;
    const NO_FLAGS: c_uint = 0;

    /// Asks for the shortest slice and leaves all else as it is: answers how that was, if it was changed.
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

    /// Policy, niceness and slice.
    fn state() -> (u32, i32, u64) {
        let now = get().unwrap();
        (now.sched_policy, now.sched_nice, now.sched_runtime)
    }

    #[test]
    fn a_thread_has_a_short_slice_and_then_its_own_again() {
        let (policy, nice, own_ns) = state();
        let slice = ShortTimeSlice::begin();
        // Kernels before 6.12 tell of no slice.
        let short_ns = if own_ns == 0 { 0 } else { SHORTEST_NS };
        assert_eq!(state(), (policy, nice, short_ns));
        assert_eq!(thread::spawn(state).join().unwrap(), (policy, nice, own_ns), "it is not inherited");
        drop(slice);
        assert_eq!(state(), (policy, nice, own_ns));
        ShortTimeSlice::begin().keep();
        assert_eq!(state(), (policy, nice, short_ns));
    }
}
