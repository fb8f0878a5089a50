//! The small objects: the lineage, epochs, floors, and the manifests of bases.
//!
//! | kind | name | payload |
//! |---:|---|---|
//! | 1 lineage | `lineage` | when it was created (8), in milliseconds since 1970 |
//! | 2 epoch | `epochs/E` | when it was raised (8) |
//! | 3 floor | `floors/N` | the first segment that is kept (8), and the commit of the oldest base that is kept (8) |
//! | 4 manifest | `base/E-C` | below |
//!
//! # Payload of a manifest, 96 bytes and the parts
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | commit: the base has this one and all before it |
//! | 8 | 8 | a time of the database, in milliseconds since 1970, that no commit of the base is after |
//! | 16 | 8 | number of the segment that the base stands on: the log through it has the commit |
//! | 24 | 4 | flags: 1 rebase, that segment begins after this base |
//! | 28 | 4 | zero |
//! | 32 | 8 | of a rebase, the last commit that the log had before |
//! | 40 | 32 | hash of that segment |
//! | 72 | 8 | attempt: part of the names of its parts |
//! | 80 | 8 | length of the backup |
//! | 88 | 4 | number of parts |
//! | 92 | 4 | zero |
//! | 96 | | 56 bytes for each part |

use crate::format::{self, Author, Hash, Kind, PartList};
use crate::name;
use base::codec::{Reader, Writer as _};
use base::limits::{NUMBER_LIMIT, TIMESTAMP_LIMIT};
use base::{Error, Result};

/// Encodes the object of kind 1 or 2, whose payload is one number.
pub(crate) fn encode_number(kind: Kind, author: &Author, number: u64) -> Vec<u8> {
    format::seal(kind, author, &number.to_le_bytes())
}

/// Verifies and decodes the object of kind 1 or 2.
pub(crate) fn decode_number(name: &str, kind: Kind, bytes: &[u8]) -> Result<(Author, u64)> {
    let opened = format::open(name, kind, bytes)?;
    let number = Reader::new(opened.payload).u64().ok_or_else(|| format::short(name))?;
    Ok((opened.author, number))
}

/// What is kept. Segments and bases below the floor are no longer needed, and may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    pub segment: u64,
    pub commit: u64,
}

impl Floor {
    pub fn encode(&self, author: &Author) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.segment);
        out.put_u64(self.commit);
        format::seal(Kind::Floor, author, &out)
    }

    pub fn decode(name: &str, bytes: &[u8]) -> Result<(Author, Floor)> {
        let opened = format::open(name, Kind::Floor, bytes)?;
        let mut reader = Reader::new(opened.payload);
        let mut word = || reader.u64().ok_or_else(|| format::short(name));
        let floor = Floor { segment: word()?, commit: word()? };
        if floor.segment >= NUMBER_LIMIT || floor.commit >= TIMESTAMP_LIMIT {
            return Err(format::impossible(name));
        }
        Ok((opened.author, floor))
    }
}

/// What a base is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub commit: u64,
    pub time_ms: u64,
    /// The segment that the base stands on, and its hash. Without exactly that segment, the base does not count.
    pub segment: u64,
    pub segment_hash: Hash,
    /// The log before that segment ends with this commit, and the base leaps over what follows it.
    pub leaps_after: Option<u64>,
    pub parts: PartList,
}

impl Manifest {
    /// Returns the object's name, in the epoch of its author.
    pub fn name(&self, epoch: u64) -> String {
        name::manifest(epoch, self.commit)
    }

    pub fn encode(&self, author: &Author) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [self.commit, self.time_ms, self.segment] {
            out.put_u64(word);
        }
        out.put_u32(self.leaps_after.is_some().into());
        out.put_u32(0);
        out.put_u64(self.leaps_after.unwrap_or(0));
        out.put(&self.segment_hash);
        out.put_u64(self.parts.attempt);
        out.put_u64(self.parts.raw_bytes());
        out.put_u32(self.parts.entries.len() as u32);
        out.put_u32(0);
        self.parts.entries.iter().for_each(|entry| entry.encode(&mut out));
        format::seal(Kind::Manifest, author, &out)
    }

    pub fn decode(name: &str, bytes: &[u8]) -> Result<(Author, Manifest)> {
        let opened = format::open(name, Kind::Manifest, bytes)?;
        let manifest = Self::read(&mut Reader::new(opened.payload)).ok_or_else(|| format::short(name))?;
        let commit = manifest.commit.max(manifest.leaps_after.unwrap_or(0));
        if manifest.segment >= NUMBER_LIMIT || commit >= TIMESTAMP_LIMIT {
            return Err(format::impossible(name));
        }
        if name::base_of(name) != Some((opened.author.epoch, manifest.commit)) {
            let (epoch, commit) = (opened.author.epoch, manifest.commit);
            return Err(Error::corruption(format!("{name}: it is of epoch {epoch} and commit {commit}")));
        }
        Ok((opened.author, manifest))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Manifest> {
        let (commit, time_ms, segment) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (flags, zero, after) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let (segment_hash, attempt, bytes) = (reader.array()?, reader.u64()?, reader.u64()?);
        let (count, rest) = (reader.u32()?, reader.u32()?);
        let parts = PartList::decode(reader, attempt, count)?;
        let is_valid =
            flags <= 1 && zero == 0 && rest == 0 && bytes == parts.raw_bytes() && reader.is_empty();
        let leaps_after = (flags == 1).then_some(after);
        is_valid.then_some(Manifest { commit, time_ms, segment, segment_hash, leaps_after, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Codec, PartEntry};

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let author = Author { database: 1, lineage: 2, writer: 3, epoch: 4, fork: 5 };
        let entry = PartEntry { stored_bytes: 5, raw_bytes: 9, codec: Codec::Plain, hash: [7; 32] };
        for leaps_after in [None, Some(3)] {
            let parts = PartList { attempt: 8, entries: vec![entry; 3] };
            let manifest =
                Manifest { commit: 12, time_ms: 9, segment: 6, segment_hash: [1; 32], leaps_after, parts };
            let name = manifest.name(4);
            let bytes = manifest.encode(&author);
            assert_eq!(Manifest::decode(&name, &bytes).unwrap(), (author, manifest));
            assert!(Manifest::decode(&name::manifest(5, 12), &bytes).is_err(), "moved elsewhere");
        }
    }

    #[test]
    fn numbers_that_no_database_has_are_refused() {
        let author = Author { database: 1, lineage: 2, writer: 3, epoch: 4, fork: 5 };
        let (segment_hash, parts) = ([1; 32], PartList::default());
        let good = Manifest { commit: 12, time_ms: 9, segment: 6, segment_hash, leaps_after: Some(3), parts };
        let read = |manifest: &Manifest| Manifest::decode(&manifest.name(4), &manifest.encode(&author));
        assert_eq!(read(&good).unwrap().1, good);
        let entry =
            |raw_bytes| PartEntry { stored_bytes: raw_bytes, raw_bytes, codec: Codec::Plain, hash: [7; 32] };
        for forged in [
            Manifest { commit: u64::MAX, ..good.clone() },
            Manifest { commit: TIMESTAMP_LIMIT, ..good.clone() },
            Manifest { segment: NUMBER_LIMIT, ..good.clone() },
            Manifest { leaps_after: Some(TIMESTAMP_LIMIT), ..good.clone() },
        ] {
            assert_eq!(read(&forged).unwrap_err().kind(), base::ErrorKind::Corruption, "{forged:?}");
        }
        // The lengths of its parts, of which the sum does not fit.
        let mut listed = Vec::new();
        [entry(u64::MAX), entry(2)].iter().for_each(|entry| entry.encode(&mut listed));
        assert!(PartList::decode(&mut Reader::new(&listed), 8, 2).is_none());
        for floor in
            [Floor { segment: NUMBER_LIMIT, commit: 0 }, Floor { segment: 1, commit: TIMESTAMP_LIMIT }]
        {
            assert!(Floor::decode("floors/1", &floor.encode(&author)).is_err(), "{floor:?}");
        }
    }
}
