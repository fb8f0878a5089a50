//! The gate that lets one transaction commit before the others: a last retry, or one that asked for it.

use base::sync::{Condvar, Mutex, MutexGuard, lock, wait};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

/// What holds back the commits of all others. A thread that holds the gate passes it: so a commit inside a gated
/// closure does not wait for the gate that its own caller holds. A [`CommitHold`](super::CommitHold) belongs to no
/// thread, and its commits do not come by here.
#[derive(Debug, Default)]
pub(super) struct Gate {
    holder: Mutex<Option<Holder>>,
    opened: Condvar,
    /// A copy of whether there is a holder, which commits read without the lock.
    is_held: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Thread(ThreadId),
    Handle,
}

/// The held gate. Dropping it opens the gate.
pub(super) struct Held<'a> {
    gate: &'a Gate,
}

impl Gate {
    /// Takes the gate, and waits for it. Returns `None` if a caller further out in this thread has it already.
    pub fn hold(&self) -> Option<Held<'_>> {
        let this = Holder::Thread(thread::current().id());
        let mut holder = lock(&self.holder);
        if *holder == Some(this) {
            return None;
        }
        while holder.is_some() {
            holder = wait(&self.opened, holder);
        }
        self.close_for(&mut holder, this);
        Some(Held { gate: self })
    }

    /// Takes the gate for a handle, if nobody has it. [`Gate::open`] ends that.
    pub fn try_hold(&self) -> bool {
        let mut holder = lock(&self.holder);
        if holder.is_some() {
            return false;
        }
        self.close_for(&mut holder, Holder::Handle);
        true
    }

    fn close_for(&self, holder: &mut MutexGuard<'_, Option<Holder>>, by: Holder) {
        **holder = Some(by);
        self.is_held.store(true, Ordering::SeqCst);
    }

    /// Opens the gate, which the caller holds.
    pub fn open(&self) {
        let mut holder = lock(&self.holder);
        *holder = None;
        self.is_held.store(false, Ordering::SeqCst);
        drop(holder);
        self.opened.notify_all();
    }

    /// Returns whether commits are held back.
    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    #[inline]
    pub fn pass(&self) {
        if self.is_held.load(Ordering::SeqCst) {
            self.wait_until_open();
        }
    }

    #[cold]
    fn wait_until_open(&self) {
        let this = Holder::Thread(thread::current().id());
        let mut holder = lock(&self.holder);
        while holder.is_some_and(|holder| holder != this) {
            holder = wait(&self.opened, holder);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.gate.open();
    }
}
