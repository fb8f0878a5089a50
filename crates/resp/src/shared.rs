//! What the connections of a door share.

use crate::commands::call::Around;
use crate::commit::Committer;
use crate::host::{Host, Options};
use crate::notify::Notifier;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What the connections of a door share.
#[derive(Debug)]
pub struct Shared {
    /// The server.
    pub host: Arc<dyn Host>,
    /// The options.
    pub options: Options,
    /// What commands work with.
    pub around: Arc<Around>,
    /// Where writes are committed.
    pub committer: Committer,
    /// The thread that follows changes.
    pub notifier: Notifier,
    /// Whether the door is closing.
    pub is_ending: AtomicBool,
    /// The memory in bytes of long commands that are being received.
    pub receiving_bytes: AtomicUsize,
}

/// The bytes that a connection may hold without a charge.
const FREE_BYTES: usize = 64 << 10;

/// The part of one connection in the memory for commands.
#[derive(Debug)]
pub struct Charge {
    shared: Arc<Shared>,
    charged_bytes: usize,
}

impl Charge {
    /// Creates a charge of nothing.
    pub fn new(shared: &Arc<Shared>) -> Self {
        Charge { shared: Arc::clone(shared), charged_bytes: 0 }
    }

    /// Changes the charge to what a connection holds. Returns false if that exceeds the limit of all.
    pub fn set(&mut self, held_bytes: usize) -> bool {
        let bytes = held_bytes.saturating_sub(FREE_BYTES);
        let used = &self.shared.receiving_bytes;
        if bytes <= self.charged_bytes {
            used.fetch_sub(self.charged_bytes - bytes, Ordering::SeqCst);
            self.charged_bytes = bytes;
            return true;
        }
        let more = bytes - self.charged_bytes;
        if used.fetch_add(more, Ordering::SeqCst) + more > self.shared.options.receiving_bytes {
            used.fetch_sub(more, Ordering::SeqCst);
            return false;
        }
        self.charged_bytes = bytes;
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shared.receiving_bytes.fetch_sub(self.charged_bytes, Ordering::SeqCst);
    }
}
