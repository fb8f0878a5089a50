//! One value from one thread to one task: the sender never waits, and the receiver is a future.
//!
//! 1. The state is changed under its lock alone, and a waker is stored under the same lock under which the receiver
//!    found no value. So no value can arrive between the look and the storing, and no wake-up is lost.
//! 2. The waker is called after the lock was released: an executor may poll the receiver within the call.
//! 3. A receiver that is dropped is a fact that the sender can read ([`Sender::is_awaited`]). A sender that is dropped
//!    without a value wakes the receiver, which then returns `None`: no task waits for a thread that has ended.

use crate::sync::{Arc, Mutex, lock};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

enum State<T> {
    /// No value yet; the waker of the receiver, if it was polled.
    Empty(Option<Waker>),
    Sent(T),
    /// The sender or the receiver is gone, or the value was taken.
    Closed,
}

/// The sending half; see [`channel`].
pub struct Sender<T> {
    state: Arc<Mutex<State<T>>>,
}

/// The receiving half; see [`channel`]. It completes with the value, or with `None` if the sender was dropped.
#[must_use = "a receiver does nothing unless it is polled"]
pub struct Receiver<T> {
    state: Arc<Mutex<State<T>>>,
}

/// Returns the two halves of a channel for one value.
///
/// ```
/// let (sender, receiver) = pando_base::oneshot::channel();
/// let sent = std::thread::spawn(move || sender.send(7));
/// # let mut receiver = receiver;
/// # sent.join().unwrap();
/// # use std::{future::Future, pin::Pin, task::{Context, Poll, Waker}};
/// # let polled = Pin::new(&mut receiver).poll(&mut Context::from_waker(Waker::noop()));
/// assert_eq!(polled, Poll::Ready(Some(7)));
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Arc::new(Mutex::new(State::Empty(None)));
    (Sender { state: Arc::clone(&state) }, Receiver { state })
}

/// Sets the state to `next`, unless it is closed, and wakes the receiver. Returns what was not stored.
fn settle<T>(state: &Mutex<State<T>>, next: State<T>) -> Option<State<T>> {
    let mut state = lock(state);
    match std::mem::replace(&mut *state, State::Closed) {
        State::Empty(waker) => {
            *state = next;
            drop(state);
            waker.into_iter().for_each(Waker::wake);
            None
        }
        other => {
            *state = other;
            Some(next)
        }
    }
}

impl<T> Sender<T> {
    /// Sends `value` and wakes the receiver. If the receiver was dropped, so is the value.
    pub fn send(self, value: T) {
        // What is not stored is dropped here, without the lock.
        drop(settle(&self.state, State::Sent(value)));
    }

    /// Returns whether the receiver is still there. It may be dropped at any moment.
    pub fn is_awaited(&self) -> bool {
        matches!(*lock(&self.state), State::Empty(_))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // After `send` the state is not empty, and this changes nothing.
        let mut state = lock(&self.state);
        if let State::Empty(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Closed;
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Empty(mut waker) => {
                match &mut waker {
                    Some(known) => known.clone_from(context.waker()),
                    None => waker = Some(context.waker().clone()),
                }
                *state = State::Empty(waker);
                Poll::Pending
            }
            State::Sent(value) => Poll::Ready(Some(value)),
            State::Closed => Poll::Ready(None),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // The value, or the waker, is dropped without the lock: either may be the caller's own code.
        let unread = std::mem::replace(&mut *lock(&self.state), State::Closed);
        drop(unread);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
