//! Items from many threads for one thread, which takes all of them at once.
//!
//! 1. Senders never wait for the taker: they hold the lock for one push.
//! 2. The taker sleeps only after it found the inbox empty under the lock that every push takes, and a push that sees
//!    the taker asleep wakes it. So no item is left lying while the taker sleeps.
//! 3. After [`Inbox::close`] the taker gets what is left, and then `None`. A push into a closed inbox is refused, and
//!    returns its item.

use crate::sync::{Condvar, Mutex, lock};
use std::time::Duration;

#[derive(Debug)]
struct State<T> {
    items: Vec<T>,
    sleeps: bool,
    closed: bool,
}

/// The inbox; see the module.
#[derive(Debug)]
pub struct Inbox<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let state = State { items: Vec::new(), sleeps: false, closed: false };
        Inbox { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<T> Inbox<T> {
    /// Adds `item`, and wakes the taker if it sleeps.
    ///
    /// # Errors
    /// The item itself, if the inbox was closed.
    pub fn push(&self, item: T) -> Result<(), T> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(item);
        }
        state.items.push(item);
        // One push wakes it, and the others before it has woken need not: a notification costs a system call.
        let wakes = std::mem::take(&mut state.sleeps);
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Moves all items to the end of `into`. If there are none, waits for one, for `at_most` if that is given. Returns
    /// `false` once the inbox is closed and empty. Only one thread may call it.
    pub fn take(&self, into: &mut Vec<T>, at_most: Option<Duration>) -> bool {
        let mut state = lock(&self.state);
        while state.items.is_empty() && !state.closed {
            state.sleeps = true;
            // The hook for waits is not called: nothing is delayed while there is nothing to do.
            state = match at_most {
                None => self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(time) => {
                    let waited = self.changed.wait_timeout(state, time);
                    state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
                    state.sleeps = false;
                    break;
                }
            };
            state.sleeps = false;
        }
        into.append(&mut state.items);
        !(into.is_empty() && state.closed)
    }

    /// Closes the inbox, and wakes the taker.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_one();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_taker_gets_what_was_pushed_in_order_and_then_the_end() {
        let inbox = Inbox::default();
        let mut taken = Vec::new();
        assert!(inbox.take(&mut taken, Some(Duration::from_millis(1))), "nothing yet, and not closed");
        assert!(taken.is_empty());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..1000).for_each(|item| inbox.push(item).unwrap());
                inbox.close();
            });
            while inbox.take(&mut taken, None) && taken.len() < 1000 {}
        });
        assert_eq!(taken, (0..1000).collect::<Vec<_>>());
        assert_eq!(inbox.push(7), Err(7));
        taken.clear();
        assert!(!inbox.take(&mut taken, None));
    }
}
