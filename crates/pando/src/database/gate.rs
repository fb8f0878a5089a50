//! The gate that lets one transaction commit before the others: a last retry, or one that asked for it.

use base::sync::{Condvar, Mutex, MutexGuard, lock, wait};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

/// What holds back the commits of all others. A thread that holds the gate passes it: so a commit inside a gated
/// closure does not wait for the gate that its own caller holds. A [`CommitHold`](super::CommitHold) belongs to no
/// thread, and its commits do not come by here.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    opened: Condvar,
    /// A copy of whether there is a holder, which commits read without the lock.
    is_held: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    holder: Option<Holder>,
    /// How many threads wait until it is open. To wake none is a system call, too.
    waiting: usize,
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
        let mut state = lock(&self.state);
        if state.holder == Some(this) {
            return None;
        }
        state = self.wait_while(state, |holder| holder.is_some());
        self.close_for(&mut state, this);
        Some(Held { gate: self })
    }

    /// Takes the gate for a handle, if nobody has it. [`Gate::open`] ends that.
    pub fn try_hold(&self) -> bool {
        let mut state = lock(&self.state);
        if state.holder.is_some() {
            return false;
        }
        self.close_for(&mut state, Holder::Handle);
        true
    }

    fn close_for(&self, state: &mut State, by: Holder) {
        state.holder = Some(by);
        self.is_held.store(true, Ordering::SeqCst);
    }

    fn wait_while<'g>(
        &self,
        mut state: MutexGuard<'g, State>,
        holds: impl Fn(Option<Holder>) -> bool,
    ) -> MutexGuard<'g, State> {
        state.waiting += 1;
        while holds(state.holder) {
            state = wait(&self.opened, state);
        }
        state.waiting -= 1;
        state
    }

    /// Opens the gate, which the caller holds.
    pub fn open(&self) {
        let waiting = {
            let mut state = lock(&self.state);
            state.holder = None;
            self.is_held.store(false, Ordering::SeqCst);
            state.waiting
        };
        if waiting > 0 {
            self.opened.notify_all();
        }
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
        drop(self.wait_while(lock(&self.state), |holder| holder.is_some_and(|holder| holder != this)));
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.gate.open();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn all_who_wait_are_woken() {
        let gate = Arc::new(Gate::default());
        assert!(gate.try_hold());
        let (done, is_done) = mpsc::channel();
        for wait in [Gate::pass, |gate: &Gate| drop(gate.hold())] {
            let (gate, done) = (Arc::clone(&gate), done.clone());
            thread::spawn(move || {
                wait(&gate);
                done.send(())
            });
        }
        while lock(&gate.state).waiting < 2 {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(is_done.try_recv().is_err(), "the gate is held");
        gate.open();
        for _ in 0..2 {
            is_done.recv_timeout(Duration::from_secs(20)).expect("it is woken");
        }
        assert_eq!(lock(&gate.state).waiting, 0);
    }
}
