//! The bytes of a backup file: a header, records and an end record. Each has an encoder and a decoder. All numbers are
//! little-endian.
//!
//! # Header, 104 bytes
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic, `PANDOBAK` |
//! | 8 | 4 | format, 1 |
//! | 12 | 4 | page size in bytes |
//! | 16 | 8 | id of this backup, drawn at random, not 0 |
//! | 24 | 8 | id of its base; 0 if this backup is full |
//! | 32 | 8 | the hash in the base's end record; 0 if this backup is full |
//! | 40 | 8 | the base's checkpoint; 0 if this backup is full |
//! | 48 | 8 | database id |
//! | 56 | 4 | fork |
//! | 60 | 4 | zero |
//! | 64 | 8 | checkpoint |
//! | 72 | 8 | commit: the last one that the state has |
//! | 80 | 8 | when it was begun, in seconds since 1970 |
//! | 88 | 8 | zero |
//! | 96 | 8 | checksum of bytes 0-95, unseeded |
//!
//! # Record, 24 bytes and a payload
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | checksum of bytes 8 to the payload's end, seeded with the backup's id and the sequence number |
//! | 8 | 4 | length of the payload |
//! | 12 | 4 | kind |
//! | 16 | 8 | sequence number, from 0 |
//!
//! | kind | payload | how many, in this order |
//! |---:|---|---|
//! | 1 state | the superblock of the checkpoint, 168 bytes | 1 |
//! | 2 commit | a commit record, as in the log | those after the checkpoint, through the commit |
//! | 3 page | page pointer (16), the page | any; kinds 3 and 4 mix |
//! | 4 extent | page pointer (16), length of what it covers (8), offset of this piece (8), the piece | any |
//! | 5 end | five words: records before it, commits, pages, bytes before it, hash of those bytes, unseeded | 1 |
//!
//! Nothing follows the end record, except that in a stream the next backup of the chain follows.

use crate::Identity;
use base::checksum::{self, Running};
use base::codec::{Reader, Writer};
use base::{CheckpointNo, CommitTs, DatabaseId, Error, ErrorKind, Result};

const MAGIC: [u8; 8] = *b"PANDOBAK";
const FORMAT: u32 = 1;

/// The length of the header in bytes.
pub(super) const HEADER_BYTES: usize = 104;
/// The length of a record without its payload, in bytes.
pub(super) const RECORD_BYTES: usize = 24;
/// The length of an end record's payload in bytes.
pub(super) const END_BYTES: usize = 40;
/// The length of the longest payload: that of the longest commit record, 65 MiB.
pub(super) const MAX_PAYLOAD_BYTES: usize = 65 << 20;

/// The kind of a backup, its database and its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub id: u64,
    pub base: Option<Base>,
    pub database: DatabaseId,
    pub fork: u32,
    pub page_bytes: u32,
    pub checkpoint: CheckpointNo,
    pub commit: CommitTs,
    pub created_s: u64,
}

/// The older backup that an incremental backup builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base {
    pub id: u64,
    pub hash: u64,
    pub checkpoint: CheckpointNo,
}

impl Header {
    /// Returns the identity that the database had.
    pub fn identity(&self) -> Identity {
        Identity { database: self.database.0, fork: self.fork }
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        let base = self.base.unwrap_or(Base { id: 0, hash: 0, checkpoint: CheckpointNo(0) });
        out.put(&MAGIC);
        out.put_u32(FORMAT);
        out.put_u32(self.page_bytes);
        for word in [self.id, base.id, base.hash, base.checkpoint.0, self.database.0] {
            out.put_u64(word);
        }
        out.put_u32(self.fork);
        out.put_u32(0);
        for word in [self.checkpoint.0, self.commit.0, self.created_s, 0] {
            out.put_u64(word);
        }
        out.put_u64(checksum::header(&out));
        out.try_into().expect("the fields have 104 bytes")
    }

    /// # Errors
    /// [`ErrorKind::Foreign`] if the bytes are not the header of a backup, or of one in another format;
    /// [`ErrorKind::Corruption`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
        let mut reader = Reader::new(bytes);
        let mut word = || reader.u64().expect("104 bytes hold the fields");
        if word() != u64::from_le_bytes(MAGIC) {
            return Err(Error::new(ErrorKind::Foreign, "not a backup of Pando (it has no magic number)"));
        }
        let sizes = word();
        let (format, page_bytes) = (sizes as u32, (sizes >> 32) as u32);
        let (expected, found) =
            (checksum::header(&bytes[..96]), u64::from_le_bytes(bytes[96..].try_into().expect("8 bytes")));
        if format != FORMAT {
            let message = format!(
                "the backup has format {format}, but this version of Pando reads only format {FORMAT}"
            );
            return Err(Error::new(ErrorKind::Foreign, message));
        }
        if expected != found {
            let message = format!("header: expected checksum {expected:016x}, found {found:016x}");
            return Err(Error::corruption(message));
        }
        let id = word();
        let base = Base { id: word(), hash: word(), checkpoint: CheckpointNo(word()) };
        let (database, fork) = (DatabaseId(word()), word() as u32);
        let (checkpoint, commit, created_s) = (CheckpointNo(word()), CommitTs(word()), word());
        let base = (base.id != 0).then_some(base);
        Ok(Header { id, base, database, fork, page_bytes, checkpoint, commit, created_s })
    }
}

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    State = 1,
    Commit = 2,
    Page = 3,
    Extent = 4,
    End = 5,
}

/// The first bytes of a record, without the checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHead {
    pub kind: Kind,
    pub payload_bytes: usize,
    pub sequence: u64,
}

impl RecordHead {
    /// Returns the 24 bytes before a payload that consists of `parts`.
    pub fn seal(&self, backup: u64, parts: &[&[u8]]) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[8..12].copy_from_slice(&(self.payload_bytes as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[16..].copy_from_slice(&self.sequence.to_le_bytes());
        let sum = Self::checksum(&bytes, backup, self.sequence, parts);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn checksum(bytes: &[u8; RECORD_BYTES], backup: u64, sequence: u64, parts: &[&[u8]]) -> u64 {
        let mut running = Running::backup_record(backup, sequence);
        running.update(&bytes[8..]);
        parts.iter().for_each(|part| running.update(part));
        running.finish()
    }

    /// Reads the head of record `sequence`. It does not verify the checksum.
    pub fn decode(bytes: &[u8; RECORD_BYTES], sequence: u64) -> Result<RecordHead> {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let kind = match number(12) {
            1 => Kind::State,
            2 => Kind::Commit,
            3 => Kind::Page,
            4 => Kind::Extent,
            5 => Kind::End,
            other => return Err(Error::corruption(format!("expected a kind from 1 to 5, found {other}"))),
        };
        let found = u64::from_le_bytes(bytes[16..].try_into().expect("8 bytes"));
        if found != sequence {
            return Err(Error::corruption(format!("expected sequence number {sequence}, found {found}")));
        }
        let payload_bytes = number(8) as usize;
        if payload_bytes > MAX_PAYLOAD_BYTES {
            let message = format!("expected at most {MAX_PAYLOAD_BYTES} bytes, found {payload_bytes}");
            return Err(Error::corruption(message));
        }
        Ok(RecordHead { kind, payload_bytes, sequence })
    }

    /// Verifies the record's checksum, in `bytes`, against the payload.
    pub fn verify(&self, bytes: &[u8; RECORD_BYTES], backup: u64, payload: &[u8]) -> Result<()> {
        let found = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        match Self::checksum(bytes, backup, self.sequence, &[payload]) {
            expected if expected == found => Ok(()),
            expected => {
                Err(Error::corruption(format!("expected checksum {expected:016x}, found {found:016x}")))
            }
        }
    }
}

/// The totals that the end record states of everything before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub records: u64,
    pub commits: u64,
    pub pages: u64,
    pub bytes: u64,
    pub hash: u64,
}

impl Totals {
    pub fn encode(&self) -> [u8; END_BYTES] {
        let mut out = [0; END_BYTES];
        let words = [self.records, self.commits, self.pages, self.bytes, self.hash];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub fn decode(payload: &[u8]) -> Result<Totals> {
        let mut reader = Reader::new(payload);
        let mut fields = || {
            let [records, commits, pages, bytes, hash] =
                [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
            reader.is_empty().then_some(Totals { records, commits, pages, bytes, hash })
        };
        fields().ok_or_else(|| {
            Error::corruption(format!("expected {END_BYTES} bytes of totals, found {}", payload.len()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Header {
        Header {
            id: 9,
            base: None,
            database: DatabaseId(7),
            fork: 0,
            page_bytes: 4096,
            checkpoint: CheckpointNo(1),
            commit: CommitTs(2),
            created_s: 1_700_000_000,
        }
    }

    #[test]
    fn the_example_in_the_documentation_is_true() {
        let bytes = example().encode();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let documented = include_str!("../../../../docs/format.md");
        for (at, line) in bytes.chunks(16).enumerate() {
            let line = format!("{:04x}  {}", at * 16, hex(line));
            assert!(documented.contains(&line), "docs/format.md lacks {line:?}");
        }
        let head = RecordHead { kind: Kind::Commit, payload_bytes: 5, sequence: 1 }.seal(9, &[b"hello"]);
        let line = format!("`{}`", hex(&head));
        assert!(documented.contains(&line), "docs/format.md lacks {line}");
    }

    #[test]
    fn a_header_comes_back_and_no_flipped_bit_does() {
        let base = Base { id: 3, hash: 4, checkpoint: CheckpointNo(1) };
        let header = Header { base: Some(base), fork: 5, ..example() };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
