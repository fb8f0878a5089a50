//! The checksum of every stored byte: XXH3-64, seeded with the place where the bytes belong.
//!
//! XXH3 (Collet, <https://xxhash.com>) runs at memory speed and detects any accidental change with probability
//! 1 - 2^-64. It does not detect a page that somebody forged on purpose. Such a page passes the checksum, and the
//! structural checks of the decoder must reject it.

use crate::{DatabaseId, Lsn};
use std::fmt;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// Spreads two numbers over a seed (the finalizer of SplitMix64).
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let mut z = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the checksum of a page or extent at `unit` of the data file of `database`. The same bytes have another
/// checksum at another place or in another database.
#[inline]
pub fn extent(database: DatabaseId, unit: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, mix(database.0, unit))
}

/// A checksum of bytes that arrive piece by piece, for callers that never hold all of them.
///
/// ```
/// use pando_base::{DatabaseId, checksum::{self, Running}};
/// let mut running = Running::extent(DatabaseId(7), 3);
/// running.update(b"as");
/// running.update(b"pen");
/// assert_eq!(running.finish(), checksum::extent(DatabaseId(7), 3, b"aspen"));
/// ```
#[derive(Clone)]
pub struct Running(Box<Xxh3>);

impl Running {
    /// Starts the checksum that [`extent`] returns for all bytes together.
    pub fn extent(database: DatabaseId, unit: u64) -> Self {
        Running(Box::new(Xxh3::with_seed(mix(database.0, unit))))
    }

    /// Starts the checksum of record number `sequence` of backup `backup`.
    pub fn backup_record(backup: u64, sequence: u64) -> Self {
        Running(Box::new(Xxh3::with_seed(mix(backup, sequence))))
    }

    /// Starts the checksum of frame number `sequence` of the changes of commit `commit`.
    pub fn change_frame(commit: u64, sequence: u64) -> Self {
        Running(Box::new(Xxh3::with_seed(mix(commit, sequence))))
    }

    /// Starts the checksum that [`header`] returns for all bytes together.
    pub fn unseeded() -> Self {
        Running(Box::new(Xxh3::new()))
    }

    /// Adds the next piece.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all pieces so far.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Running({:016x})", self.finish())
    }
}

/// Returns the checksum of a log block that begins at `lsn` of generation `generation`.
#[inline]
pub fn log_block(database: DatabaseId, generation: u64, lsn: Lsn, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, mix(mix(database.0, generation), lsn.0))
}

/// Returns the checksum of a fixed header (superblock, segment header) that names its own database.
#[inline]
pub fn header(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Returns the hash of one record. A merge conserves the wrapping sum of these hashes over all records.
#[inline]
pub fn record(key: &[u8], value: &[u8]) -> u64 {
    mix(xxh3_64(key), xxh3_64(value))
}

/// Returns the hash of a key, as filters use it.
#[inline]
pub fn key(key: &[u8]) -> u64 {
    xxh3_64(key)
}
