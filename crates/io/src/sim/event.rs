//! The events of a simulated disk, as its history records them.

use super::content::Payload;
use std::sync::Arc;

/// A file, whatever its name (what a file system calls an inode).
pub type NodeId = u64;

/// One step in the history of a [`SimDisk`](super::SimDisk). `name` is what the handle was opened under.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A file was created.
    Create {
        /// The name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
    },
    /// A file was renamed.
    Rename {
        /// The old name.
        from: Arc<str>,
        /// The new name.
        to: Arc<str>,
    },
    /// A name was removed.
    Remove {
        /// The name.
        name: Arc<str>,
    },
    /// The names became durable.
    DirSync,
    /// Bytes were written, by a write or by a store to a mapping.
    Write {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
        /// The bytes.
        payload: Payload,
    },
    /// A file was cut or extended.
    Resize {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
        /// The new length in bytes.
        len: u64,
    },
    /// A range of a file was allocated on the disk.
    Allocate {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
        /// The start of the range.
        offset: u64,
        /// The length of the range in bytes.
        len: u64,
    },
    /// A range was returned to the file system.
    Discard {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
        /// The start of the range.
        offset: u64,
        /// The length of the range in bytes.
        len: u64,
    },
    /// A file's bytes became durable.
    Sync {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
    },
    /// A sync failed: the kernel treats the pending bytes as written, and they may be lost.
    FailedSync {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
    },
    /// The test harness recorded a note, such as "commit 7 acknowledged".
    Mark(Arc<str>),
}
