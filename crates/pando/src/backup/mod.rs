//! Backup: one commit's state as a file, while everything goes on; and a database made of it again.
//!
//! ```text
//!   store::Pinned ──parts──► writer ──records──► a file of a folder, or a stream
//!   store::Rebuild ◄──parts── reader ◄──records──┘   (a chain: a full backup, then differences)
//! ```
//! Reading order: `format` (the bytes), `writer`, `reader` (nothing is believed unchecked), `channel` (files and
//! streams), `take` (one backup, paced), `folder` (chains in a directory), `receive` (one from elsewhere),
//! `restore`.
//!
//! # What holds
//! 1. A backup holds every commit at or before the one that it names, each whole, and none after it.
//! 2. A file under its own name in a folder is complete and synced.
//! 3. A backup with any byte changed, cut, added or left out is refused before a restored database is visible; so is a
//!    chain with a member missing, swapped or of another database.
//! 4. A restored database was read back whole, and is of a fork of its own: its own backups never join the chain that
//!    it came from.

mod channel;
mod folder;
mod format;
mod reader;
mod receive;
mod restore;
mod take;
mod writer;

pub use folder::{BackupEntry, BackupInfo, Backups};
pub use restore::{RestoreReport, restore, restore_files, restore_in, restore_stream, restore_stream_in};
pub use take::{BackupOptions, BackupProgress, BackupReport};
