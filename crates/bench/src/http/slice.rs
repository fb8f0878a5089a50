//! The clock that waits for no one: the measuring thread's turn on a processor.

use std::marker::PhantomData;

/// While it lives, this thread runs soon after it wakes.
///
/// A client and the server that it measures share processors here. A thread of Linux's fair class that wakes waits
/// until the one that runs has used up its slice, often until the tick behind that, 4 ms later; so does a server's
/// thread behind the client. Such waits are neither the server's nor those of a client on another machine. Who asks
/// for a shorter slice runs earlier and gives way earlier, and gets no more of the processor for it: the rule of EEVDF
/// (Stoica and Abdel-Wahab, 1995), which Linux leaves to each thread since 6.12. Earlier kernels ignore the request,
/// other systems have none, and then it does nothing.
#[derive(Debug)]
pub(super) struct Prompt {
    #[cfg(target_os = "linux")]
    before: Option<linux::Attributes>,
    /// It is the thread's that made it.
    _here: PhantomData<*const ()>,
}

impl Prompt {
    /// From now on.
    pub(super) fn begin() -> Self {
        Prompt {
            #[cfg(target_os = "linux")]
            before: linux::shorten(),
            _here: PhantomData,
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Prompt {
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
    /// This thread, to both calls.
    const THIS: c_long = 0;
    const NO_FLAGS: c_uint = 0;

    /// Asks for the shortest slice and leaves all else as it is: answers how that was, if it was changed.
    pub(super) fn shorten() -> Option<Attributes> {
        let before = get()?;
        let is_fair = [SCHED_OTHER, SCHED_BATCH].contains(&(before.sched_policy as i32));
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

    #[test]
    fn a_thread_has_a_short_slice_and_then_its_own_again() {
        let state = || {
            let now = get().unwrap();
            (now.sched_policy, now.sched_nice, now.sched_runtime)
        };
        let (policy, nice, own_ns) = state();
        let prompt = Prompt::begin();
        // Kernels before 6.12 tell of no slice.
        let short_ns = if own_ns == 0 { 0 } else { SHORTEST_NS };
        assert_eq!(state(), (policy, nice, short_ns));
        drop(prompt);
        assert_eq!(state(), (policy, nice, own_ns));
    }
}
