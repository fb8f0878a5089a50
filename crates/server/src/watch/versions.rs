//! Counts the connections of HTTP/2, and what their clients reset. Both are rare beside requests, which are counted in
//! [`Traffic`](crate::watch::traffic::Traffic).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of HTTP/2.
#[derive(Debug, Default)]
pub struct Versions(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    resets: AtomicU64,
    connections: AtomicU64,
}

/// An open connection, counted until this is dropped.
#[derive(Debug)]
pub struct Counted(Arc<Counts>);

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: this is a counter, which orders nothing.
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Versions {
    /// Counts a request that its client has reset before the end of its response.
    pub fn reset(&self) {
        self.0.resets.fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Counts a connection of HTTP/2.
    pub fn connection(&self) -> Counted {
        self.0.connections.fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
        Counted(Arc::clone(&self.0))
    }

    /// Returns the number of requests that clients have reset.
    pub fn resets(&self) -> u64 {
        self.0.resets.load(Ordering::Relaxed) // Relaxed: as above.
    }

    /// Returns the number of open connections of HTTP/2.
    pub fn connections(&self) -> u64 {
        self.0.connections.load(Ordering::Relaxed) // Relaxed: as above.
    }
}
