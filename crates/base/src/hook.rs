//! A place in the engine that calls one function of the process, if a function was set. Most of the time none is.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A hook. `F` is a function pointer.
#[derive(Debug)]
pub(crate) struct Hook<F> {
    function: OnceLock<F>,
    is_on: AtomicBool,
}

impl<F: Copy + PartialEq> Hook<F> {
    pub(crate) const fn new() -> Self {
        Hook { function: OnceLock::new(), is_on: AtomicBool::new(false) }
    }

    /// Sets `function` to be called from now on. The first function of a process stays set, and later calls enable it
    /// again. Returns false if `function` is another one.
    pub(crate) fn listen(&self, function: F) -> bool {
        let is_ours = *self.function.get_or_init(|| function) == function;
        if is_ours {
            self.is_on.store(true, Ordering::SeqCst);
        }
        is_ours
    }

    /// Disables the function. A call that began before continues.
    pub(crate) fn ignore(&self) {
        self.is_on.store(false, Ordering::SeqCst);
    }

    /// Returns the function if it is enabled. Costs one load while it is not.
    #[inline]
    pub(crate) fn heard_by(&self) -> Option<F> {
        // Relaxed: whether one call more or less is reported orders nothing; the function is published by its lock.
        if self.is_on.load(Ordering::Relaxed) { self.function.get().copied() } else { None }
    }
}
