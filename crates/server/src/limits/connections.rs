//! The connections of a server, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The open connections, and whether the server still accepts more.
#[derive(Debug)]
pub struct Connections {
    /// A permit for each connection. Taken permits are open connections.
    pub places: Arc<Semaphore>,
    most: usize,
    started: Instant,
    ending: AtomicBool,
    closing: AtomicBool,
}

impl Connections {
    /// Creates a counter with no open connection and at most `most`.
    pub fn new(most: usize) -> Self {
        let (started, ending, closing) = (Instant::now(), AtomicBool::new(false), AtomicBool::new(false));
        Connections { places: Arc::new(Semaphore::new(most)), most, started, ending, closing }
    }

    /// Returns the number of open connections.
    pub fn count(&self) -> usize {
        self.most.saturating_sub(self.places.available_permits())
    }

    /// Returns the largest number of open connections.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the time since the server started.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Records that the server is about to end, so that clients should send no further requests.
    pub fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Records that the drain delay is over: what never ends by itself has to end now.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Returns whether the drain delay is over.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Returns whether the server is about to end.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }
}
