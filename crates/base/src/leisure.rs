//! Work that has time: pauses between its pieces, if whoever runs it made any.
//!
//! A merge that nobody waits for would take a processor and the disk away from those who wait for a commit. It calls
//! [`pause`] between its pieces, deep in loops and files; whether that pauses at all, and for how long, is for the one
//! who runs it to say, and on other threads it never does.

use std::cell::RefCell;
use std::rc::Rc;

/// What is done between two pieces.
pub type Pause = Rc<dyn Fn()>;

thread_local! {
    static PAUSE: RefCell<Option<Pause>> = const { RefCell::new(None) };
}

/// Runs `work`, which calls `pause` between its pieces. No lock that others wait for may be held where it does.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// let pauses = Rc::new(Cell::new(0));
/// let counted = Rc::clone(&pauses);
/// base::leisure::within(Rc::new(move || counted.set(counted.get() + 1)), || {
///     (0..10).for_each(|_| base::leisure::pause());
/// });
/// base::leisure::pause(); // Nobody has time here.
/// assert_eq!(pauses.get(), 10);
/// ```
pub fn within<R>(pause: Pause, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<Pause>);
    impl Drop for Restore {
        fn drop(&mut self) {
            PAUSE.set(self.0.take());
        }
    }
    let _restore = Restore(PAUSE.replace(Some(pause)));
    work()
}

/// Between two pieces of work: pauses if there is time.
#[inline]
pub fn pause() {
    // Not borrowed while it is called, so that it may itself come past here.
    if let Some(pause) = PAUSE.with_borrow(Option::clone) {
        pause();
    }
}

/// Whether [`pause`] may do anything on this thread.
pub fn is_here() -> bool {
    PAUSE.with_borrow(Option::is_some)
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
        assert_eq!((pauses.get(), is_here()), (0, false));
    }
}
