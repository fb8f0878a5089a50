//! What lets a transaction that met too many conflicts commit before the others.

use base::sync::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};

/// Holds back all commits but those of its holder's thread, so that a commit inside a gated closure does not wait for
/// the gate that its own caller holds.
#[derive(Debug, Default)]
pub(super) struct Gate {
    turn: Mutex<()>,
    holder: Mutex<Option<ThreadId>>,
    /// A copy of whether there is a holder, read by commits without the lock.
    is_held: AtomicBool,
}

/// The gate, held; opened when dropped.
pub(super) struct Held<'a> {
    gate: &'a Gate,
    _turn: MutexGuard<'a, ()>,
}

impl Gate {
    /// Takes the gate; `None` if this thread has it already, further out.
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

    /// Whether commits are held back.
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
