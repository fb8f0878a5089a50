//! Stops the statements of a request at a time, or when its client has left.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Decides when the statements of a request are stopped. Clones decide together.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

struct Inner {
    at: Instant,
    /// The time that the statements have in total, for messages.
    time: Duration,
    is_cancelled: AtomicBool,
    /// Returns whether nobody wants the result any longer.
    is_given_up: Box<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("time", &self.time).finish_non_exhaustive()
    }
}

impl Stop {
    /// Stops statements after `time`.
    ///
    /// ```
    /// let stop = pando_hrana::Stop::after(std::time::Duration::from_secs(10));
    /// assert!(!stop.is_over());
    /// stop.cancel();
    /// assert!(stop.is_over());
    /// ```
    pub fn after(time: Duration) -> Self {
        Stop::after_or(time, || false)
    }

    /// Stops statements after `time`, or once `is_given_up` returns true.
    pub fn after_or(time: Duration, is_given_up: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let at = Instant::now() + time;
        Stop(Arc::new(Inner {
            at,
            time,
            is_cancelled: AtomicBool::new(false),
            is_given_up: Box::new(is_given_up),
        }))
    }

    /// Stops the statements now, because their client has left.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
    }

    /// Returns whether [`Stop::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    /// Returns whether statements are to stop.
    pub fn is_over(&self) -> bool {
        self.is_cancelled() || (self.0.is_given_up)() || Instant::now() >= self.0.at
    }

    /// Returns the time that the statements had.
    pub(crate) fn time(&self) -> Duration {
        self.0.time
    }
}

/// The stop of the request that a stream serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current(Arc<Mutex<Option<Stop>>>);

impl Current {
    pub fn set(&self, stop: Option<Stop>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stop;
    }

    pub fn get(&self) -> Option<Stop> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether statements are to stop.
    pub fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Stop::is_over)
    }
}
