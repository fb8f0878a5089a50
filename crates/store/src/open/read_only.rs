//! Opening a database for reading, together with other readers, without any write. [`crate::open::beside`] is for
//! reading a database that another process writes.
//!
//! It runs only the read-only half of recovery: the log is replayed into memory, an unclean end is left as it is, and
//! the resulting store is latched from the beginning. Three things protect the files, each sufficient alone: the
//! directory rejects writes ([`io::ReadOnlyDir`]), the log accepts no append, and the latch returns an error to
//! writers.
//!
//! No checkpoint can make room, so the replayed log must fit into the half of the memory that the pool does not use. If
//! it does not, the error states how much memory is enough.

use crate::state::options::Options;
use base::{Error, ErrorKind, Result};

/// The limit on the memory that a replay of the log may take.
#[derive(Debug)]
pub(crate) struct Ceiling {
    memory_bytes: usize,
    most_bytes: usize,
    /// The bytes of all commit records.
    logged_bytes: u64,
    /// The bytes of the applied records.
    applied_bytes: u64,
}

impl Ceiling {
    /// Returns the limit for an opening with these options, if the log holds `logged_bytes`; `None` unless it is
    /// read-only.
    pub fn new(options: &Options, logged_bytes: u64) -> Option<Self> {
        options.read_only.then(|| Ceiling {
            memory_bytes: options.memory_bytes,
            most_bytes: (options.memory_bytes / 2).max(options.shares().memtables_bytes),
            logged_bytes,
            applied_bytes: 0,
        })
    }

    /// Checks, before a record of `record_bytes` is applied, that it fits while memtables hold `held_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] if it does not fit; the message states the memory that would be enough for all records.
    pub fn admit(&mut self, record_bytes: usize, held_bytes: usize) -> Result<()> {
        if held_bytes + record_bytes <= self.most_bytes {
            self.applied_bytes += record_bytes as u64;
            return Ok(());
        }
        const MIB: u64 = 1 << 20;
        let logged = self.logged_bytes;
        // A memtable takes more than the record: the ratio so far, or else three times as much, and a tenth to be safe.
        let ratio = if self.applied_bytes > logged / 16 {
            (held_bytes as f64 / self.applied_bytes as f64).max(1.0)
        } else {
            3.0
        };
        let enough = ((logged as f64 * ratio * 2.2) as u64 / MIB + 1) * MIB;
        Err(Error::new(
            ErrorKind::Full,
            format!(
                "the log holds {logged} bytes of commits that are in no checkpoint, and a read-only \
                 database keeps \
                 them in memory: {} bytes were given, {enough} are enough; or open the database for \
                 writing once, which makes a checkpoint",
                self.memory_bytes
            ),
        ))
    }
}
