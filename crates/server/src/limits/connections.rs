//! The connections of a server, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Which connections there are, and whether there will be more.
#[derive(Debug)]
pub struct Connections {
    /// Their places: those that are taken are connections.
    pub places: Arc<Semaphore>,
    most: usize,
    started: Instant,
    ending: AtomicBool,
}

impl Connections {
    /// None is open; `most` may be.
    pub fn new(most: usize) -> Self {
        let (started, ending) = (Instant::now(), AtomicBool::new(false));
        Connections { places: Arc::new(Semaphore::new(most)), most, started, ending }
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.most.saturating_sub(self.places.available_permits())
    }

    /// How long the server has been there for them.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The server is about to end: nobody should send requests any more.
    pub fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Whether it is.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }
}
