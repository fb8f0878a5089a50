//! Counts and a checksum of the records of a table, to compare a copy with its source.

use crate::failure::{Failure, Outcome};
use base::checksum::{self, Running};
use pando::{Error, ValueReader};
use std::io::{self, Read};

/// The number of records and bytes of a table, and a checksum over all of them in key order.
#[derive(Debug)]
pub struct Digest {
    pub records: u64,
    pub bytes: u64,
    running: Running,
}

impl Digest {
    pub fn new() -> Self {
        Digest { records: 0, bytes: 0, running: Running::unseeded() }
    }

    /// Adds the next record in key order, by the checksum of its value.
    pub fn add(&mut self, key: &[u8], value_bytes: u64, value_sum: u64) {
        self.records += 1;
        self.bytes += key.len() as u64 + value_bytes;
        // The lengths keep two records from having the checksum of two others with the same bytes.
        for number in [key.len() as u64, value_bytes, value_sum] {
            self.running.update(&number.to_le_bytes());
        }
        self.running.update(key);
    }

    /// Returns the checksum of all records so far.
    pub fn sum(&self) -> u64 {
        self.running.finish()
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        (self.records, self.bytes, self.sum()) == (other.records, other.bytes, other.sum())
    }
}

/// Returns the checksum of a value in memory.
pub fn sum_of(value: &[u8]) -> u64 {
    checksum::header(value)
}

/// Returns the checksum of a value of any length, as [`sum_of`] does, without holding it in memory.
pub fn sum_of_long(mut value: ValueReader) -> Outcome<u64> {
    let (mut running, mut piece) = (Running::unseeded(), vec![0; 256 << 10]);
    loop {
        match value.read(&mut piece).map_err(reading_failed)? {
            0 => return Ok(running.finish()),
            count => running.update(&piece[..count]),
        }
    }
}

/// Unwraps an error of the engine that comes through `std::io`.
pub fn reading_failed(error: io::Error) -> Failure {
    match error.downcast::<Error>() {
        Ok(error) => error.into(),
        Err(cause) => Failure::system("read a value", cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(records: &[(&[u8], &[u8])]) -> Digest {
        let mut digest = Digest::new();
        for (key, value) in records {
            digest.add(key, value.len() as u64, sum_of(value));
        }
        digest
    }

    #[test]
    fn other_records_have_another_digest() {
        let one = digest(&[(b"a", b"bc"), (b"d", b"")]);
        assert_eq!((one.records, one.bytes), (2, 4));
        assert!(one == digest(&[(b"a", b"bc"), (b"d", b"")]));
        for other in [
            &[(&b"ab"[..], &b"c"[..]), (b"d", b"")][..],
            &[(b"a", b"bc"), (b"e", b"")],
            &[(b"a", b"bd"), (b"d", b"")],
            &[(b"a", b"bc")],
            &[(b"a", b"b"), (b"d", b"c")],
        ] {
            assert!(one != digest(other), "{other:?}");
        }
    }
}
