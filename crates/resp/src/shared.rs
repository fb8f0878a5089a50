//! What the connections of a door share.

use crate::commands::call::Around;
use crate::commit::Committer;
use crate::host::{Host, Options};
use crate::notify::Notifier;
use crate::room::Room;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

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
    /// The memory of long commands that are being received.
    pub receiving: Arc<Room>,
    /// When the log last named a request of HTTP.
    pub warned_of_http: Mutex<Option<Instant>>,
}
