//! Ticks of CPU time. The kernel counts what the process's threads use (`ITIMER_PROF`), and sends `SIGPROF` to the
//! thread that used the end of a period. A blocked thread is not sampled; lock waits cover that.
//!
//! The handler stays once it is installed, and does nothing while there is no recording, because `SIGPROF` without a
//! handler would end the process.

use super::capture::push;
use super::thread::Errno;
use super::unwind::Registers;
use crate::kind::Error;
use crate::ring::Ring;
use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// The ring of the samples; null without a recording.
static RING: AtomicPtr<Ring> = AtomicPtr::new(std::ptr::null_mut());

/// Sends a stack to `ring` for every `period` of CPU time that this process uses. Kernels tick 100 to 1000 times a
/// second, and send no more than that for each processor.
pub(crate) fn start_ticks(ring: &'static Ring, period: Duration) -> Result<(), Error> {
    install().map_err(Error::System)?;
    RING.store(std::ptr::from_ref(ring).cast_mut(), Ordering::SeqCst);
    set_timer(period).map_err(|error| {
        stop_ticks();
        Error::System(error)
    })
}

/// Stops the ticks. A pending signal may still bring a sample.
pub(crate) fn stop_ticks() {
    // Switching a timer off has no reason to fail, and without a ring its signals do nothing.
    let _ = set_timer(Duration::ZERO);
    RING.store(std::ptr::null_mut(), Ordering::SeqCst);
}

fn install() -> io::Result<()> {
    // SAFETY: all zeros is a set of no signals, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    // Interrupted system calls are restarted.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: `handle` does only what a signal handler may; see there.
    let result = unsafe { libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_timer(period: Duration) -> io::Result<()> {
    let period = libc::timeval { tv_sec: period.as_secs() as _, tv_usec: period.subsec_micros().into() };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: reads `timer`.
    let result = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Handles a tick. It runs between any two instructions of any thread, so it takes no lock, allocates nothing, and
/// preserves `errno`.
extern "C" fn handle(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let errno = Errno::save();
    // SAFETY: null, or a ring that is never freed.
    let ring = unsafe { RING.load(Ordering::SeqCst).as_ref() };
    // SAFETY: the kernel hands a handler with SA_SIGINFO the context that it interrupted.
    let context = unsafe { context.cast::<libc::ucontext_t>().as_ref() };
    if let (Some(ring), Some(context)) = (ring, context) {
        push(ring, 1, interrupted(context));
    }
    errno.restore();
}

#[cfg(target_arch = "x86_64")]
fn interrupted(context: &libc::ucontext_t) -> Registers {
    let register = |name: libc::c_int| context.uc_mcontext.gregs[name as usize] as u64;
    Registers {
        instruction: register(libc::REG_RIP),
        stack: register(libc::REG_RSP),
        frame: register(libc::REG_RBP),
    }
}

#[cfg(target_arch = "aarch64")]
fn interrupted(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers { instruction: machine.pc, stack: machine.sp, frame: machine.regs[29], link: machine.regs[30] }
}
