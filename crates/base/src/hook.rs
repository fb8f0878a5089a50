//! A place in the engine where one function of the process may listen, and where nobody listens most of the time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The place. `F` is a function pointer.
#[derive(Debug)]
pub(crate) struct Hook<F> {
    function: OnceLock<F>,
    is_on: AtomicBool,
}

impl<F: Copy + PartialEq> Hook<F> {
    pub(crate) const fn new() -> Self {
        Hook { function: OnceLock::new(), is_on: AtomicBool::new(false) }
    }

    /// Has `function` called from now on. The first stays, and is what later calls switch on again. False if it is
    /// another one.
    pub(crate) fn listen(&self, function: F) -> bool {
        let is_ours = *self.function.get_or_init(|| function) == function;
        if is_ours {
            self.is_on.store(true, Ordering::SeqCst);
        }
        is_ours
    }

    /// The opposite. A call that began before goes on.
    pub(crate) fn ignore(&self) {
        self.is_on.store(false, Ordering::SeqCst);
    }

    /// Who listens. One load while nobody does.
    #[inline]
    pub(crate) fn heard_by(&self) -> Option<F> {
        // Relaxed: whether one call more or less is heard orders nothing; the function is published by its lock.
        if self.is_on.load(Ordering::Relaxed) { self.function.get().copied() } else { None }
    }
}
