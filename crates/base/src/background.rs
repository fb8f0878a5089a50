//! Work that has time: pauses between its pieces, if the thread that runs it made any.
//!
//! A merge that nobody waits for would take a processor and the disk away from those who wait for a commit. It calls
//! [`pause`] between its pieces, deep in loops and files; whether that pauses at all, and for how long, is for the one
//! who runs it to say, and on other threads it never does.

use std::cell::RefCell;
use std::rc::Rc;

/// What runs the work.
pub trait Leisure {
    /// Called between two pieces.
    fn pause(&self);
    /// Whether a pause would be made now.
    fn has_time(&self) -> bool;
}

/// What only pauses always has time.
impl<F: Fn()> Leisure for F {
    fn pause(&self) {
        self();
    }
    fn has_time(&self) -> bool {
        true
    }
}

thread_local! {
    static HERE: RefCell<Option<Rc<dyn Leisure>>> = const { RefCell::new(None) };
}

/// Runs `work`, which calls [`pause`] between its pieces, and that `leisure`. No lock that others wait for may be held
/// where it does.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// let pauses = Rc::new(Cell::new(0));
/// let counted = Rc::clone(&pauses);
/// pando_base::background::within(Rc::new(move || counted.set(counted.get() + 1)), || {
///     (0..10).for_each(|_| pando_base::background::pause());
/// });
/// pando_base::background::pause(); // Nobody has time here.
/// assert_eq!(pauses.get(), 10);
/// ```
pub fn within<R>(leisure: Rc<dyn Leisure>, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<Rc<dyn Leisure>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            HERE.set(self.0.take());
        }
    }
    let _restore = Restore(HERE.replace(Some(leisure)));
    work()
}

/// Between two pieces of work: pauses if there is time.
#[inline]
pub fn pause() {
    if let Some(leisure) = here() {
        leisure.pause();
    }
}

/// Whether there is time: work that knows a slower way, which leaves more to others, asks this.
pub fn has_time() -> bool {
    here().is_some_and(|leisure| leisure.has_time())
}

/// What runs this thread's work. Not borrowed while it is called, so that it may itself come past here. Nobody any
/// more at the thread's end, where what it kept may still be freed.
#[inline]
fn here() -> Option<Rc<dyn Leisure>> {
    HERE.try_with(|here| here.borrow().clone()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_panics_leaves_no_leisure_behind() {
        let pauses = Rc::new(Cell::new(0));
        let counted = Rc::clone(&pauses);
        let pausing = Rc::new(move || counted.set(counted.get() + 1));
        let work = std::panic::AssertUnwindSafe(|| within(pausing, || panic!("in the midst of it")));
        assert!(std::panic::catch_unwind(work).is_err());
        pause();
        assert_eq!((pauses.get(), has_time()), (0, false));
    }

    #[test]
    fn what_is_freed_at_the_end_of_a_thread_pauses_no_more() {
        struct Freed;
        impl Drop for Freed {
            fn drop(&mut self) {
                pause();
                assert!(!has_time());
            }
        }
        thread_local!(static KEPT: Freed = const { Freed });
        let thread = std::thread::spawn(|| {
            KEPT.with(|_| ());
            within(Rc::new(|| ()), pause);
        });
        thread.join().unwrap();
    }
}
