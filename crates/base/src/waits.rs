//! The lock-wait hook. A program that wants to know how long threads wait for locks sets a function here.
//!
//! The hook hears of [`sync::lock`](crate::sync::lock) on a lock that another thread holds, of
//! [`sync::wait`](crate::sync::wait), and of code that calls [`timed`]. Taking a free lock costs nothing more. While no
//! hook is set, a wait costs one more load and reads no clock, so simulations stay deterministic.

use crate::env::Stopwatch;
use crate::hook;

/// A function that is called on the thread that waited, as soon as it continues. The thread usually holds the lock it
/// waited for, so the function must be short and must not take a lock of the engine.
pub type Hook = fn(waited_ns: u64);

static HOOK: hook::Hook<Hook> = hook::Hook::new();

/// Reports every wait of every thread to `hook` from now on. A process has one hook: the first stays set, and later
/// calls enable it again. Returns false if `hook` is another one.
pub fn listen(hook: Hook) -> bool {
    HOOK.listen(hook)
}

/// Disables the hook. A wait that began before may still be reported.
pub fn ignore() {
    HOOK.ignore();
}

/// Runs `wait`, which delays an operation of its caller, and reports to the hook how long it took.
#[cold]
#[inline(never)]
pub fn timed<R>(wait: impl FnOnce() -> R) -> R {
    let Some(hook) = HOOK.heard_by() else { return wait() };
    let began = Stopwatch::start();
    let result = wait();
    hook(began.elapsed_ns());
    result
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::sync::{Condvar, Mutex, lock, wait};
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        // Of this thread alone: other tests of the process wait for their own locks meanwhile.
        static WAITED_NS: Cell<u64> = const { Cell::new(0) };
    }

    fn note(waited_ns: u64) {
        WAITED_NS.set(WAITED_NS.get() + waited_ns);
    }

    /// Returns the reported wait of a thread for `mutex`, which another one holds for 20 ms; less, if it comes late.
    fn waited_for(mutex: &Mutex<()>) -> u64 {
        std::thread::scope(|scope| {
            let held = lock(mutex);
            let waiter = scope.spawn(|| {
                drop(lock(mutex));
                WAITED_NS.get()
            });
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            waiter.join().unwrap()
        })
    }

    #[test]
    fn waits_are_heard_while_somebody_listens() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        assert_eq!(waited_for(&mutex), 0, "nobody listens");
        assert!(super::listen(note));
        drop(lock(&mutex));
        assert_eq!(WAITED_NS.get(), 0, "a free lock is not waited for");
        assert!((0..100).any(|_| waited_for(&mutex) > 1_000_000));

        std::thread::scope(|scope| {
            let held = lock(&mutex);
            scope.spawn(|| {
                let _held = lock(&mutex);
                condvar.notify_all();
            });
            drop(wait(&condvar, held));
        });
        assert!(WAITED_NS.get() > 0, "a condition is waited for, too");

        super::ignore();
        assert_eq!(waited_for(&mutex), 0);
        assert!(!super::listen(|_| ()), "one hook per process");
    }
}
