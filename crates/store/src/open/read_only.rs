//! Opening beside others who only read, without a write of any sort. Beside a writer: [`crate::open::beside`].
//!
//! The read-only half of recovery is all of it: the log is replayed into memory, an unclean end is left as it is, and
//! the store that comes of it is latched from the beginning. Three things keep the files as they are, each alone: the
//! directory refuses ([`io::ReadOnlyDir`]), the log takes no append, the latch turns writers away by name.
//!
//! Nothing can be checkpointed to make room, so what the log holds must fit the half of the memory that is not the
//! pool's. If it does not, the error says how much would do.

use crate::state::options::Options;
use base::{Error, ErrorKind, Result};

/// How much of the log replay may keep in memory.
#[derive(Debug)]
pub(crate) struct Ceiling {
    memory_bytes: usize,
    most_bytes: usize,
    /// Bytes of all commit records.
    logged_bytes: u64,
    /// Bytes of those that were applied.
    applied_bytes: u64,
}

impl Ceiling {
    /// That of an opening with these options, where the log holds `logged_bytes`: none unless it is read-only.
    pub fn of(options: &Options, logged_bytes: u64) -> Option<Self> {
        options.read_only.then(|| Ceiling {
            memory_bytes: options.memory_bytes,
            most_bytes: (options.memory_bytes / 2).max(options.shares().memtables_bytes),
            logged_bytes,
            applied_bytes: 0,
        })
    }

    /// Asked before a record of `record_bytes` is applied, while memtables hold `held_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] if it does not fit, with the memory that would have been enough for all.
    pub fn admit(&mut self, record_bytes: usize, held_bytes: usize) -> Result<()> {
        if held_bytes + record_bytes <= self.most_bytes {
            self.applied_bytes += record_bytes as u64;
            return Ok(());
        }
        const MIB: u64 = 1 << 20;
        let logged = self.logged_bytes;
        // A memtable takes more than the record: as much as it did so far, or else thrice, and a tenth to be sure.
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
