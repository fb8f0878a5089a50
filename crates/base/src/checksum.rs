//! One checksum for everything: XXH3-64, seeded with where the bytes belong.
//!
//! XXH3 (Collet, <https://xxhash.com>) runs at memory speed and detects any accidental change with probability
//! 1 - 2^-64. It is no defence against someone who forges a page on purpose: such a page passes the checksum and
//! is then refused by the structural checks of the decoder.

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

/// The checksum of a page or extent that lies at `unit` of the data file of `database`: the same bytes at another
/// place, or in another database, have another one.
#[inline]
pub fn extent(database: DatabaseId, unit: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, mix(database.0, unit))
}

/// A checksum of bytes that come piece by piece, for those who never hold all of them.
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
    /// What [`extent`] answers once all bytes have come.
    pub fn extent(database: DatabaseId, unit: u64) -> Self {
        Running(Box::new(Xxh3::with_seed(mix(database.0, unit))))
    }

    /// The checksum of record number `sequence` of backup `backup`.
    pub fn backup_record(backup: u64, sequence: u64) -> Self {
        Running(Box::new(Xxh3::with_seed(mix(backup, sequence))))
    }

    /// The checksum of frame number `sequence` of the changes of commit `commit`.
    pub fn change_frame(commit: u64, sequence: u64) -> Self {
        Running(Box::new(Xxh3::with_seed(mix(commit, sequence))))
    }

    /// What [`header`] answers once all bytes have come.
    pub fn unseeded() -> Self {
        Running(Box::new(Xxh3::new()))
    }

    /// The next piece.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all pieces up to now.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Running({:016x})", self.finish())
    }
}

/// The checksum of a log block that begins at `lsn` of generation `generation`.
#[inline]
pub fn log_block(database: DatabaseId, generation: u64, lsn: Lsn, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, mix(mix(database.0, generation), lsn.0))
}

/// The checksum of a fixed header (superblock, segment header) that names its own database.
#[inline]
pub fn header(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The hash of one record. A merge conserves the wrapping sum of these over all records.
#[inline]
pub fn record(key: &[u8], value: &[u8]) -> u64 {
    mix(xxh3_64(key), xxh3_64(value))
}

/// The hash of a key, as filters use it.
#[inline]
pub fn key(key: &[u8]) -> u64 {
    xxh3_64(key)
}
