//! The interface to the server in which the door is.

use pando::{Database, Durability, Error, Result};
use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The options of a door.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address and the port on which clients connect.
    pub listen: SocketAddr,
    /// The durability of each write. A reply is sent after it is reached.
    pub durability: Durability,
    /// The largest number of connections. Each has a thread.
    pub connections: usize,
    /// The longest command in bytes, and so the longest string.
    pub command_bytes: usize,
    /// The memory in bytes of all long commands that are being received or run, and of the names and keys that
    /// connections keep.
    pub receiving_bytes: usize,
    /// The time in which a client that needs a token has to send one. Its connection is closed then.
    pub authentication: Duration,
    /// The memory in bytes of all long replies that are being gathered, of the elements that commands gather them from,
    /// and of replies and messages that wait for their clients.
    pub replying_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 6379)),
            durability: Durability::Sync,
            connections: 1024,
            command_bytes: 64 << 20,
            receiving_bytes: 256 << 20,
            authentication: Duration::from_secs(60),
            replying_bytes: 512 << 20,
        }
    }
}

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Nothing before it authenticates.
    Nothing,
    /// Reading keys.
    Read,
    /// Reading and changing keys.
    Write,
}

/// The server in which a door is: it has the database, and knows who may use it.
pub trait Host: Debug + Send + Sync + 'static {
    /// Returns the database in whose tables the keys are.
    fn database(&self) -> &Database;

    /// Returns whether a client needs a token.
    fn needs_token(&self) -> bool;

    /// Returns what the holder of this token may do. It is asked again for each group of commands, and four times in a
    /// second while a client waits or listens, so that a token can be revoked.
    fn permission(&self, token: &[u8]) -> Permission;

    /// Returns why no write is accepted now, if none is.
    fn refusal(&self) -> Option<Error> {
        None
    }

    /// Waits for what has to happen between the commit of this number and its replies.
    ///
    /// # Errors
    /// If it did not happen. The commit stands, and the replies are errors: `the write is stored, but`, and this error.
    fn after_commit(&self, commit: u64) -> Result<()> {
        let _ = commit;
        Ok(())
    }
}
