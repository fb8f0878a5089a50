//! Backups: the state of one commit as a file, taken while the database is in use, and a database restored from it.
//!
//! ```text
//!   store::Pinned ──parts──► writer ──records──► a file of a folder, or a stream
//!   store::Rebuild ◄──parts── reader ◄──records──┘   (a chain: a full backup, then differences)
//! ```
//! Reading order: `format` (the bytes), `writer`, `reader` (which verifies everything before use), `channel` (files and
//! streams), `take` (one backup, at a limited rate), `folder` (chains in a directory), `receive` (a backup from
//! elsewhere), `restore`, `retention`.
//!
//! # Invariants
//! 1. A backup holds exactly the commits up to the one that it names, each of them whole.
//! 2. A file with a backup's name in a folder is complete and synced.
//! 3. A backup with any byte changed, cut, added or left out is rejected before a restored database becomes visible.
//!    The same holds for a chain with a member that is missing, swapped or from another database.
//! 4. A restored database has been read back completely and has a fork of its own: its backups never join the chain
//!    that it came from.

mod channel;
mod folder;
mod format;
mod reader;
mod receive;
mod restore;
mod retention;
mod take;
mod writer;

pub use folder::{BackupEntry, BackupInfo, Backups};
pub use restore::{
    RestoreProgress, RestoreReport, restore, restore_files, restore_in, restore_stream, restore_stream_in,
    restore_with,
};
pub use retention::Retention;
pub use take::{BackupOptions, BackupProgress, BackupReport};
