//! Data that is written to the data file before the commit that refers to it is in the log: large values
//! ([`crate::large`]), and the runs of a transaction that does not fit in memory.

use base::limits::MAX_PIECES;
use base::sync::lock;
use base::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The state of early writes; see the module.
#[derive(Debug)]
pub(crate) struct EarlyWrites {
    large_bytes: usize,
    piece_bytes: usize,
    units: AtomicU64,
    writing: RwLock<()>,
    sync: Mutex<()>,
}

impl EarlyWrites {
    /// Creates the state: values longer than `large_bytes` are written early, in pieces of `piece_bytes`.
    pub fn new(large_bytes: usize, piece_bytes: usize) -> EarlyWrites {
        let (units, writing, sync) = (AtomicU64::new(0), RwLock::new(()), Mutex::new(()));
        EarlyWrites { large_bytes, piece_bytes, units, writing, sync }
    }

    /// Returns whether a value of `len_bytes` is written early.
    #[inline]
    pub fn is_large(&self, len_bytes: u64) -> bool {
        len_bytes > self.large_bytes as u64
    }

    /// Returns the length of a piece in bytes.
    pub fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// Returns the length of the longest value: what an index of pieces can describe.
    pub fn max_value_bytes(&self) -> u64 {
        (self.piece_bytes * MAX_PIECES) as u64
    }

    /// Rejects a value that is longer than the longest.
    pub fn check_value_len(&self, len: usize) -> Result<()> {
        let most = self.max_value_bytes();
        if len as u64 <= most {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Invalid, format!("the value has {len} bytes; a value has at most {most}")))
    }

    /// Takes the lock that is held while something is written: closing waits for it. After that the files may belong to
    /// another process.
    pub fn begin(&self) -> RwLockReadGuard<'_, ()> {
        self.writing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the writes in progress, and keeps others out.
    pub fn stop(&self) -> RwLockWriteGuard<'_, ()> {
        self.writing.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock that is held for a sync of the data file: there is one at a time.
    pub fn sync_turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.sync)
    }

    /// Returns the number of units that no commit refers to yet.
    pub fn units(&self) -> u64 {
        self.units.load(Ordering::SeqCst)
    }

    /// Adds to that number. The caller holds the space map's lock.
    pub fn add(&self, units: u64) {
        self.units.fetch_add(units, Ordering::SeqCst);
    }

    /// Subtracts from that number: units are free again, under the space map's lock; or committed, under the commit
    /// lock.
    pub fn remove(&self, units: u64) {
        self.units.fetch_sub(units, Ordering::SeqCst);
    }
}
