//! Background work: work that no thread waits for, and that makes way for threads that do.
//!
//! A merge that runs at full speed takes a processor and the disk from threads that wait for a commit. The
//! priorities of the operating system did not help: in the idle class, for example, a thread starves while it holds
//! locks. So background work throttles itself:
//!
//! 1. Long work calls [`pause`] between its pieces: loops of merges, writes of files, the freeing of memory. It holds
//!    no lock there that other threads wait for.
//! 2. The thread's [`Throttle`] decides whether and for how long a call pauses. Without a throttle, a call returns at
//!    once.
//! 3. Code that has a slower path, which leaves more of the machine to other threads, takes it while [`is_throttled`].
//!
//! `docs/background-work.md` lists all such measures in the engine and the effect of each.

use std::cell::RefCell;
use std::rc::Rc;

/// Decides how much a thread's background work is slowed down.
pub trait Throttle {
    /// Pauses between two pieces of work, for as long as the throttle decides.
    fn pause(&self);
    /// Returns whether a call of [`Throttle::pause`] would pause after a long piece.
    fn is_throttled(&self) -> bool;
}

/// A function is a throttle: each pause calls it.
impl<F: Fn()> Throttle for F {
    fn pause(&self) {
        self();
    }
    fn is_throttled(&self) -> bool {
        true
    }
}

thread_local! {
    static HERE: RefCell<Option<Rc<dyn Throttle>>> = const { RefCell::new(None) };
}

/// Runs `work` under `throttle`, on this thread.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// let pauses = Rc::new(Cell::new(0));
/// let counted = Rc::clone(&pauses);
/// pando_base::background::throttled(Rc::new(move || counted.set(counted.get() + 1)), || {
///     (0..10).for_each(|_| pando_base::background::pause());
/// });
/// pando_base::background::pause(); // This thread is not throttled.
/// assert_eq!(pauses.get(), 10);
/// ```
pub fn throttled<R>(throttle: Rc<dyn Throttle>, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<Rc<dyn Throttle>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            HERE.set(self.0.take());
        }
    }
    let _restore = Restore(HERE.replace(Some(throttle)));
    work()
}

/// Pauses between two pieces of work, if this thread is throttled.
#[inline]
pub fn pause() {
    if let Some(throttle) = here() {
        throttle.pause();
    }
}

/// Returns whether this thread is throttled now.
pub fn is_throttled() -> bool {
    here().is_some_and(|throttle| throttle.is_throttled())
}

/// Returns this thread's throttle. It is not borrowed while it is called, because it may call this function again.
/// Returns `None` at the end of a thread, when the thread's variables were already freed.
#[inline]
fn here() -> Option<Rc<dyn Throttle>> {
    HERE.try_with(|here| here.borrow().clone()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_panic_leaves_no_throttle() {
        let pauses = Rc::new(Cell::new(0));
        let counted = Rc::clone(&pauses);
        let pausing = Rc::new(move || counted.set(counted.get() + 1));
        let work = std::panic::AssertUnwindSafe(|| throttled(pausing, || panic!("in the midst of it")));
        assert!(std::panic::catch_unwind(work).is_err());
        pause();
        assert_eq!((pauses.get(), is_throttled()), (0, false));
    }

    #[test]
    fn freeing_at_the_end_of_a_thread_does_not_pause() {
        struct Freed;
        impl Drop for Freed {
            fn drop(&mut self) {
                pause();
                assert!(!is_throttled());
            }
        }
        thread_local!(static KEPT: Freed = const { Freed });
        let thread = std::thread::spawn(|| {
            KEPT.with(|_| ());
            throttled(Rc::new(|| ()), pause);
        });
        thread.join().unwrap();
    }
}
