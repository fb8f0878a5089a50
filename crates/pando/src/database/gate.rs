//! The gate that lets one transaction commit before the others: a last retry, or one that asked for it.
//!
//! A closure that is retried while its thread holds the gate can wait for another thread, for a lock of the program's
//! or for a second database, and that thread can wait for the gate. So a gate that a thread holds keeps others out only
//! for a limited time. After that they commit as if it were open, and the closure can have another conflict.
//!
//! A child process that was forked while the gate was held has a copy that no thread opens, and whose lock another
//! thread of the parent may have held. In the child no commit waits at the gate, and none takes it: each fails with
//! `Forked` after that.

use base::sync::{Condvar, Mutex, MutexGuard, lock, wait, wait_at_most};
use io::Origin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// The time for which a thread keeps others out.
const MOST_HELD: Duration = Duration::from_millis(500);

/// What holds back the commits of all others. A thread that holds the gate passes it: so a commit inside a gated
/// closure does not wait for the gate that its own caller holds. A [`CommitHold`](super::CommitHold) belongs to no
/// thread, and its commits do not come by here.
#[derive(Debug)]
pub(super) struct Gate {
    /// The process that opened the database.
    origin: Origin,
    state: Mutex<State>,
    opened: Condvar,
    /// A copy of whether there is a holder, which commits read without the lock.
    is_held: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    holder: Option<Holder>,
    /// When the others no longer wait for a thread.
    until: Option<Instant>,
    /// How many threads wait until it is open. To wake none is a system call, too.
    waiting: usize,
    /// Whether the database was closed, so that a commit finds that out rather than waits.
    is_over: bool,
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

impl Default for Gate {
    fn default() -> Self {
        let (state, opened, is_held) = (Mutex::default(), Condvar::default(), AtomicBool::default());
        Gate { origin: Origin::here(), state, opened, is_held }
    }
}

impl Gate {
    /// Takes the gate, and waits for it. Returns `None` if a caller further out in this thread has it already, or if
    /// another thread has it for too long.
    pub fn hold(&self) -> Option<Held<'_>> {
        if self.origin.is_forked() {
            return None;
        }
        let this = Holder::Thread(thread::current().id());
        let mut state = lock(&self.state);
        if state.holder == Some(this) {
            return None;
        }
        state = self.wait_while(state, |holder| holder.is_some());
        if state.holder.is_some() {
            return None;
        }
        self.close_for(&mut state, this);
        state.until = Some(Instant::now() + MOST_HELD);
        Some(Held { gate: self })
    }

    /// Takes the gate for a handle, if it is free. Returns whether it did. [`Gate::open`] gives it back.
    pub fn try_hold(&self) -> bool {
        if self.origin.is_forked() {
            return false;
        }
        let mut state = lock(&self.state);
        if state.holder.is_some() {
            return false;
        }
        self.close_for(&mut state, Holder::Handle);
        true
    }

    fn close_for(&self, state: &mut State, by: Holder) {
        (state.holder, state.until) = (Some(by), None);
        self.is_held.store(true, Ordering::SeqCst);
    }

    /// Waits while `holds` returns true, until a thread has kept others out for its time, or the database was closed.
    fn wait_while<'g>(
        &self,
        mut state: MutexGuard<'g, State>,
        holds: impl Fn(Option<Holder>) -> bool,
    ) -> MutexGuard<'g, State> {
        state.waiting += 1;
        while !state.is_over && holds(state.holder) {
            let Some(until) = state.until else {
                state = wait(&self.opened, state);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = wait_at_most(&self.opened, state, left);
        }
        state.waiting -= 1;
        state
    }

    /// Opens the gate, which the caller holds.
    pub fn open(&self) {
        if self.origin.is_forked() {
            return;
        }
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

    /// Lets everything pass from now on, because the database was closed and no commit can succeed: a handle that holds
    /// the gate may never be dropped, where its owner waits for one of those that wait here.
    pub fn end(&self) {
        lock(&self.state).is_over = true;
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
        if self.origin.is_forked() {
            return;
        }
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
    fn a_thread_keeps_others_out_for_a_limited_time() {
        let gate = Arc::new(Gate::default());
        let begun = Instant::now();
        let held = gate.hold().expect("nobody has it");
        let others = [Gate::pass, |gate: &Gate| assert!(gate.hold().is_none())].map(|wait| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || wait(&gate))
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(begun.elapsed() >= MOST_HELD);
        let (gate_of_late, late) = (Arc::clone(&gate), Instant::now());
        thread::spawn(move || gate_of_late.pass()).join().unwrap();
        assert!(late.elapsed() < MOST_HELD / 2, "they do not wait again");
        drop(held);
        assert!(gate.hold().is_some());
    }

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

    #[test]
    fn nothing_waits_after_the_end() {
        let gate = Arc::new(Gate::default());
        assert!(gate.try_hold());
        let waits = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.pass())
        };
        while lock(&gate.state).waiting < 1 {
            thread::sleep(Duration::from_millis(1));
        }
        gate.end();
        waits.join().unwrap();
        gate.pass();
    }
}
