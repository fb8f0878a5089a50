//! What happens to a disk, as its history records it.

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
        /// Its name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
    },
    /// A file got another name.
    Rename {
        /// Its name before.
        from: Arc<str>,
        /// Its name after.
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
        /// Its length since.
        len: u64,
    },
    /// A range of a file got room on the disk.
    Allocate {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
        /// Where the range begins.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// A range was given back to the file system.
    Discard {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
        /// Where the range begins.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// A file's bytes became durable.
    Sync {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
    },
    /// A sync failed: the bytes pending are taken for written by the kernel, and may be lost.
    FailedSync {
        /// The file's name.
        name: Arc<str>,
        /// The file.
        node: NodeId,
    },
    /// The harness noted something, such as "commit 7 acknowledged".
    Mark(Arc<str>),
}
