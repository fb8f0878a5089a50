//! The closing note: how far the log was durable when the database was closed properly.
//!
//! After a crash, a log ends where its blocks end, and what was not synced may be missing. After a proper close, it
//! ends where it was closed, and a missing block is damage. The log itself cannot distinguish the two if its last
//! sector is lost, closing block included. So the end is also recorded in the data file:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic, `PANDOEND` |
//! | 8 | 8 | database id |
//! | 16 | 4 | fork, as in the superblock |
//! | 20 | 4 | zero |
//! | 24 | 8 | LSN before which every block of the log is durable |
//! | 32 | 8 | checksum of bytes 0-31 |
//!
//! There are two copies, 2,048 bytes into the units of the two superblocks: in sectors of their own, so that writing
//! them never tears a superblock, and after the bytes that a checkpoint writes. A note stays true: what is durable
//! stays durable, and later blocks come after it.

use crate::state::cached_slot::CachedSlot;
use crate::state::reserve::Allowance;
use crate::state::store::Store;
use crate::state::superblock::{RESERVED_UNITS, Superblock};
use base::codec::{Reader, Writer};
use base::limits::UNIT_BYTES;
use base::{DatabaseId, Lsn, Result, checksum};
use io::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MAGIC: [u8; 8] = *b"PANDOEND";
/// The offset of a copy within its unit.
const OFFSET_BYTES: u64 = 2048;
const BODY_BYTES: usize = 32;
const NOTE_BYTES: usize = BODY_BYTES + 8;

const _: () =
    assert!(Superblock::BYTES <= OFFSET_BYTES as usize, "a note lies beyond its superblock's sectors");

/// The contents of the note.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ClosingNote {
    database: DatabaseId,
    fork: u32,
    durable: Lsn,
}

impl ClosingNote {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(NOTE_BYTES);
        out.put(&MAGIC);
        out.put_u64(self.database.0);
        out.put_u32(self.fork);
        out.put_u32(0);
        out.put_u64(self.durable.0);
        debug_assert_eq!(out.len(), BODY_BYTES);
        out.put_u64(checksum::header(&out));
        out
    }

    fn decode(bytes: &[u8; NOTE_BYTES]) -> Option<Self> {
        let (body, stored) = bytes.split_at(BODY_BYTES);
        if Reader::new(stored).u64()? != checksum::header(body) {
            return None;
        }
        let mut reader = Reader::new(body);
        let is_note = reader.array()? == MAGIC;
        let (database, fork) = (DatabaseId(reader.u64()?), reader.u32()?);
        reader.u32()?;
        is_note.then_some(ClosingNote { database, fork, durable: Lsn(reader.u64()?) })
    }
}

/// Returns the LSN before which every block of the log is known to be durable: according to `superblock`, or to a
/// closing note of the same database beside it.
///
/// # Errors
/// Those of reading.
pub(crate) fn known_durable(data: &dyn File, superblock: &Superblock) -> Result<Lsn> {
    let mut durable = superblock.log_synced;
    for unit in 0..RESERVED_UNITS {
        let mut bytes = [0; NOTE_BYTES];
        data.read_at(&mut bytes, unit * UNIT_BYTES as u64 + OFFSET_BYTES)?;
        let note = ClosingNote::decode(&bytes);
        let ours = note.filter(|n| (n.database, n.fork) == (superblock.database, superblock.fork));
        durable = durable.max(ours.map_or(Lsn(0), |note| note.durable));
    }
    Ok(durable)
}

impl Store {
    /// Returns an error if this thread cannot close the store. What serves it is stopped only after this.
    ///
    /// # Errors
    /// [`base::ErrorKind::Forked`] after a fork; [`base::ErrorKind::Invalid`] in a function that a check calls.
    pub fn check_may_close(&self) -> Result<()> {
        self.check_process()?;
        self.checkpoints.check_not_called()
    }

    /// Syncs the log, writes its closing block and the closing note, and unlocks the directory. Every later call fails
    /// with [`base::ErrorKind::Closed`]. Open snapshots can still be read, until another opening of the directory
    /// reuses pages that they need. The caller has stopped its workers. A second call waits for the first, and has the
    /// same result.
    ///
    /// # Errors
    /// [`base::ErrorKind::Latched`], with the cause, if writing had stopped: the next opening finds out what is on the
    /// disk.
    pub fn close(self: &Arc<Self>) -> Result<()> {
        self.check_may_close()?;
        self.closed.store(true, Ordering::SeqCst);
        // Before the lock: a waker may close the store, too.
        self.feeds.wake();
        let mut result = base::sync::lock(&self.closing);
        let closed = match result.take() {
            Some(closed) => closed,
            None => self.close_first(),
        };
        *result = Some(closed.as_ref().copied().map_err(base::Error::duplicate));
        closed
    }

    fn close_first(self: &Arc<Self>) -> Result<()> {
        CachedSlot::forget_all(self);
        // A thread inside a checkpoint, a commit or a piece of a value finishes first.
        let mut superblock = self.checkpoints.claim()?;
        let _stopped = self.early.stop();
        // A directory that cannot be listed does not show who owns it.
        if self.check_ownership(&superblock).is_ok() || self.latch.check().is_ok() {
            // A closed file needs no reserve for a next checkpoint. A failure here costs only space.
            self.free_unneeded();
            base::sync::lock(&self.committer).room = Allowance::default();
            let _ = self.give_back(true);
            let _ = self.reserve_log(&[]);
        }
        let mut committer = base::sync::lock(&self.committer);
        let result = match self.latch.check() {
            Err(_) if self.is_read_only() => self.log.close().map(drop),
            latched => latched.and_then(|()| {
                let closed = self.close_log(&mut superblock);
                // Closing may have made commits durable that are acknowledged only after this.
                self.publish_synced_in(&mut committer);
                closed
            }),
        };
        // The next writer shows what readers may read. A commit of this one that is acknowledged later must not.
        self.processes.end_showing();
        drop(committer);
        // From now on another process may reuse the pages of snapshots that are still open.
        self.pool.close();
        self.processes.unlock();
        self.give_memory_back();
        result
    }

    /// Closes the log, and writes the closing note and the time beside the superblock, unless they are stored already.
    ///
    /// # Errors
    /// Those of the log and of the data file. A failed flush latches.
    pub(crate) fn close_log(&self, superblock: &mut Superblock) -> Result<()> {
        let durable = self.log.close()?;
        let noted = self.note_closing(superblock, durable)?;
        // A time that is not saved costs no record.
        let saved = self.save_time(superblock, 0).unwrap_or(false);
        if noted || saved { self.sync_data() } else { Ok(()) }
    }

    /// Writes both copies of the note, without a sync. `durable` is what the log's last flush covered. Returns whether
    /// the note was new.
    fn note_closing(&self, superblock: &Superblock, durable: Lsn) -> Result<bool> {
        if durable <= known_durable(&*self.data, superblock)? {
            return Ok(false);
        }
        let note = ClosingNote { database: superblock.database, fork: superblock.fork, durable }.encode();
        for unit in 0..RESERVED_UNITS {
            self.data.write_at(&note, unit * UNIT_BYTES as u64 + OFFSET_BYTES)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_no_flipped_bit_does() {
        let note = ClosingNote { database: DatabaseId(7), fork: 3, durable: Lsn(4096) };
        let bytes: [u8; NOTE_BYTES] = note.encode().try_into().unwrap();
        assert_eq!(ClosingNote::decode(&bytes), Some(note));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ClosingNote::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(ClosingNote::decode(&[0; NOTE_BYTES]), None);
    }

    #[test]
    fn the_documented_bytes() {
        let note = ClosingNote { database: DatabaseId(7), fork: 0, durable: Lsn(184) };
        let documented = include_str!("../../../../docs/format.md");
        for (line, bytes) in note.encode().chunks(16).enumerate() {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let line = format!("{:04x}  {}", OFFSET_BYTES + 16 * line as u64, bytes.join(" "));
            assert!(documented.contains(&line), "docs/format.md lacks {line:?}");
        }
    }
}
