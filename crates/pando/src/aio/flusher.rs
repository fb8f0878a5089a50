//! The thread that waits for the disk instead of the tasks that commit.
//!
//! 1. A commit that is applied is put into the inbox together with the sender that completes its future, in one step
//!    without a wait. So its flush comes even if its future has been dropped meanwhile.
//! 2. The thread takes everything that is there, and asks the store for one flush through the last of it. That is the
//!    group flush of all other committers: the thread leads it, or waits for the thread that does.
//! 3. It completes the futures. Those whose commits the pacer delays are kept until they are due.

use crate::transaction::Unflushed;
use crate::workers::Signals;
use base::{Error, ErrorKind, Result};
use futures_channel::oneshot::{Receiver, Sender, channel};
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use store::Store;

type Outcome = Result<u64>;

/// A commit whose future is not complete.
#[derive(Debug)]
struct Waiting {
    commit: Unflushed,
    outcome: Sender<Outcome>,
}

/// The handle of the thread; see the module. When it is dropped, the thread finishes what it was given, and ends.
#[derive(Debug)]
pub(super) struct Flusher {
    inbox: mpsc::Sender<Waiting>,
    store: Arc<Store>,
    signals: Arc<Signals>,
}

impl Flusher {
    pub fn start(store: &Arc<Store>, signals: &Arc<Signals>) -> Result<Self> {
        let (inbox, applied) = mpsc::channel();
        let flusher = Flusher { inbox, store: Arc::clone(store), signals: Arc::clone(signals) };
        let (store, signals) = (Arc::clone(store), Arc::clone(signals));
        let run = move || attend(&applied, &store, &signals);
        let started = thread::Builder::new().name("pando-flush".to_owned()).spawn(run);
        started.map_err(|cause| Error::io("start the thread pando-flush", cause))?;
        Ok(flusher)
    }

    /// Applies a commit by `apply`, and has `outcome` sent once it is acknowledged, or has failed.
    pub fn commit(&self, apply: impl FnOnce() -> Result<Unflushed>, outcome: Sender<Outcome>) {
        match apply() {
            Ok(commit) if self.is_done(&commit) => send(outcome, Ok(commit.applied.ts().0)),
            // If the thread has ended, the sender is dropped, and the future fails.
            Ok(commit) => drop(self.inbox.send(Waiting { commit, outcome })),
            Err(error) => send(outcome, Err(error)),
        }
    }

    /// Returns whether the commit needs neither a flush nor a delay.
    fn is_done(&self, commit: &Unflushed) -> bool {
        self.store.needs_no_flush(&commit.applied) && !self.signals.pacer.is_owed()
    }
}

/// Completes a future. If it was dropped, the outcome is dropped, too. A panic of the task's waker was printed, and
/// must not end the thread that waits for the disk.
fn send(outcome: Sender<Outcome>, done: Outcome) {
    let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(outcome.send(done))));
}

/// Returns the two ends of a commit's outcome.
pub(super) fn outcome() -> (Sender<Outcome>, Receiver<Outcome>) {
    channel()
}

/// Waits for a commit's outcome.
pub(super) async fn acknowledged(outcome: Receiver<Outcome>) -> Outcome {
    outcome.await.unwrap_or_else(|_| {
        let message = "the thread that was to finish the commit has ended; open the database again and \
                       read back whether the commit is there";
        Err(Error::new(ErrorKind::Indeterminate, message))
    })
}

/// Runs the thread. If it panics, nothing would be acknowledged any more: the store stops writing.
fn attend(inbox: &mpsc::Receiver<Waiting>, store: &Store, signals: &Signals) {
    if panic::catch_unwind(AssertUnwindSafe(|| run(inbox, store, signals))).is_err() {
        store.stop_writing(Error::new(ErrorKind::Latched, "the thread pando-flush of the database panicked"));
        // The inbox is dropped after this, and with it the senders in it: their futures fail.
    }
}

fn run(inbox: &mpsc::Receiver<Waiting>, store: &Store, signals: &Signals) {
    let (mut batch, mut delayed) = (Vec::new(), Delays::default());
    while take(inbox, &mut batch, delayed.next_in()) {
        delayed.release();
        let flushed = store.acknowledge_all(batch.iter().map(|waiting: &Waiting| &waiting.commit.applied));
        for Waiting { commit: Unflushed { applied, bytes }, outcome } in batch.drain(..) {
            match &flushed {
                // What did not need the flush is acknowledged all the same.
                Err(cause) if !store.needs_no_flush(&applied) => send(outcome, Err(cause.duplicate())),
                _ => delayed.send(applied.ts().0, outcome, delay(store, signals, bytes)),
            }
        }
    }
    delayed.release_all();
}

/// Waits for a commit, for `at_most` if that is given, and takes all that are there. Returns `false` once there are
/// none, and no more can come.
fn take(inbox: &mpsc::Receiver<Waiting>, batch: &mut Vec<Waiting>, at_most: Option<Duration>) -> bool {
    let first = match at_most {
        None => inbox.recv().map_err(mpsc::RecvTimeoutError::from),
        Some(time) => inbox.recv_timeout(time),
    };
    if first.as_ref().is_err_and(|error| *error == mpsc::RecvTimeoutError::Disconnected) {
        return false;
    }
    batch.extend(first.into_iter().chain(inbox.try_iter()));
    true
}

/// Returns how long the pacer delays a commit of `bytes`.
fn delay(store: &Store, signals: &Signals, bytes: u64) -> Duration {
    if bytes == 0 {
        return Duration::ZERO;
    }
    let (delay, is_full) = signals.pacer.delay(store, bytes);
    if is_full {
        signals.note_full();
    }
    delay
}

/// The outcomes of acknowledged commits that are delayed, by the time at which they are due and their number.
#[derive(Debug, Default)]
struct Delays(BTreeMap<(Instant, u64), Sender<Outcome>>);

impl Delays {
    /// Sends the outcome of commit `number`, `delay` from now.
    fn send(&mut self, number: u64, outcome: Sender<Outcome>, delay: Duration) {
        if delay.is_zero() {
            send(outcome, Ok(number));
        } else {
            self.0.insert((Instant::now() + delay, number), outcome);
        }
    }

    /// Returns the time until the next outcome is due, or `None` if none waits.
    fn next_in(&self) -> Option<Duration> {
        self.0.keys().next().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }

    /// Sends the outcomes that are due.
    fn release(&mut self) {
        while self.next_in().is_some_and(|left| left.is_zero()) {
            self.0.pop_first().into_iter().for_each(|((_, number), outcome)| send(outcome, Ok(number)));
        }
    }

    /// Sends all outcomes now: no writer has to be slowed any longer.
    fn release_all(self) {
        self.0.into_iter().for_each(|((_, number), outcome)| send(outcome, Ok(number)));
    }
}
