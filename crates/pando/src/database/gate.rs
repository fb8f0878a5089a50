//! The gate that lets a transaction with too many conflicts commit before the others.

use base::sync::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};

/// A lock that holds back the commits of all threads except its holder's. So a commit inside a gated closure does not
/// wait for the gate that its own caller holds.
#[derive(Debug, Default)]
pub(super) struct Gate {
    turn: Mutex<()>,
    holder: Mutex<Option<ThreadId>>,
    /// A copy of whether there is a holder, which commits read without the lock.
    is_held: AtomicBool,
}

/// The held gate. Dropping it opens the gate.
pub(super) struct Held<'a> {
    gate: &'a Gate,
    _turn: MutexGuard<'a, ()>,
}

impl Gate {
    /// Takes the gate. Returns `None` if a caller further out in this thread has it already.
    pub fn hold(&self) -> Option<Held<'_>> {
        let this = thread::current().id();
        if *lock(&self.holder) == Some(this) {
            return None;
        }
        let turn = lock(&self.turn);
        *lock(&self.holder) = Some(this);
        self.is_held.store(true, Ordering::SeqCst);
        Some(Held { gate: self, _turn: turn })
    }

    /// Returns whether commits are held back.
    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    #[inline]
    pub fn pass(&self) {
        if self.is_held.load(Ordering::SeqCst) && *lock(&self.holder) != Some(thread::current().id()) {
            drop(lock(&self.turn));
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.gate.is_held.store(false, Ordering::SeqCst);
        *lock(&self.gate.holder) = None;
    }
}
