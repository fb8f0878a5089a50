//! The bytes of every object in a bucket: a header, a payload and a hash; each with its encoder and its decoder. All
//! numbers are little-endian. `docs/replication.md` has the same tables, and an example.
//!
//! # Object
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic, `PANDOSHP` |
//! | 8 | 4 | format: 2 of a segment that says that the database was dropped, otherwise 1 |
//! | 12 | 4 | kind |
//! | 16 | 8 | database id |
//! | 24 | 8 | lineage id, drawn at random when the lineage was created |
//! | 32 | 8 | writer id, drawn at random by the writer of this object |
//! | 40 | 8 | epoch of the writer; 0 in kind 1 |
//! | 48 | 4 | fork of the writer's database |
//! | 52 | 4 | zero |
//! | 56 | 8 | length of the payload |
//! | 64 | | payload |
//! | | 32 | SHA-256 of everything before it: the object's hash |
//!
//! The parts of bases and of long changes are the only objects without this frame. Whatever names a part has its hash.

use base::codec::{Reader, Writer as _};
use base::limits::NUMBER_LIMIT;
use base::{Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};

const MAGIC: [u8; 8] = *b"PANDOSHP";
/// The format of all objects but those of [`DROP_FORMAT`].
pub(crate) const FORMAT: u32 = 1;
/// The format of a segment that says that the database was dropped. Versions that do not know such a segment refuse it,
/// and do not take the lineage for one that goes on.
pub(crate) const DROP_FORMAT: u32 = 2;
/// Bytes before the payload.
const HEADER_BYTES: usize = 64;
/// Bytes after the payload.
const HASH_BYTES: usize = 32;

/// The SHA-256 of an object.
pub(crate) type Hash = [u8; HASH_BYTES];

/// Returns the SHA-256 of `bytes`.
pub(crate) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// Who wrote an object, of which database and lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    pub database: u64,
    pub lineage: u64,
    pub writer: u64,
    pub epoch: u64,
    pub fork: u32,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lineage = 1,
    Epoch = 2,
    Floor = 3,
    Manifest = 4,
    Segment = 5,
}

impl Kind {
    /// Returns whether objects of this kind exist in `format`.
    fn has(self, format: u32) -> bool {
        format == FORMAT || (self == Kind::Segment && format == DROP_FORMAT)
    }
}

/// Puts a header before a payload and a hash after it.
pub(crate) fn seal(kind: Kind, author: &Author, payload: &[u8]) -> Vec<u8> {
    seal_as(FORMAT, kind, author, payload)
}

/// Puts a header of `format` before a payload and a hash after it.
pub(crate) fn seal_as(format: u32, kind: Kind, author: &Author, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len() + HASH_BYTES);
    out.put(&MAGIC);
    out.put_u32(format);
    out.put_u32(kind as u32);
    for word in [author.database, author.lineage, author.writer, author.epoch] {
        out.put_u64(word);
    }
    out.put_u32(author.fork);
    out.put_u32(0);
    out.put_u64(payload.len() as u64);
    out.put(payload);
    let hash = hash(&out);
    out.put(&hash);
    out
}

/// A decoded object.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    pub format: u32,
    pub author: Author,
    pub payload: &'a [u8],
    pub hash: Hash,
}

/// Verifies the object `name` and returns its parts.
///
/// # Errors
/// `Foreign` if it is no object of Pando or of a newer format; `Corruption` naming it, with what was expected.
pub(crate) fn open<'a>(name: &str, kind: Kind, bytes: &'a [u8]) -> Result<Opened<'a>> {
    let damaged = |what: String| Err(Error::corruption(format!("{name}: {what}")));
    let foreign = |what: String| Err(Error::new(ErrorKind::Foreign, format!("{name}: {what}")));
    if bytes.len() < HEADER_BYTES + HASH_BYTES && MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
        return damaged(format!("it has {} bytes, so it was emptied or cut off", bytes.len()));
    }
    if bytes.len() < MAGIC.len() || bytes[..MAGIC.len()] != MAGIC {
        // A flipped bit in the magic of an object of ours is damage: the rest still has its hash.
        let rest = bytes.len().saturating_sub(HASH_BYTES);
        let mut mended = bytes[..rest].to_vec();
        mended.splice(..MAGIC.len().min(rest), MAGIC);
        return if hash(&mended) == bytes[rest..] {
            damaged("the magic number is damaged".to_owned())
        } else {
            foreign("this is not an object of Pando".to_owned())
        };
    }
    let mut reader = Reader::new(&bytes[MAGIC.len()..]);
    let rest = bytes.len() - HASH_BYTES;
    let (expected, found) = (hash(&bytes[..rest]), &bytes[rest..]);
    let mut number = || reader.u32().expect("the header is there");
    let (format, found_kind) = (number(), number());
    if !kind.has(format) && expected == found {
        let known = format!("the object has format {format}, which this version of Pando does not read");
        return foreign(known);
    }
    if expected != found {
        return damaged(format!("expected SHA-256 {}, found {}", hex::encode(&expected), hex::encode(found)));
    }
    if found_kind != kind as u32 {
        return damaged(format!("expected an object of kind {}, found {found_kind}", kind as u32));
    }
    let mut word = || reader.u64().expect("the header is there");
    let (database, lineage, writer, epoch, fork) = (word(), word(), word(), word(), word() as u32);
    let payload = &bytes[HEADER_BYTES..rest];
    if word() != payload.len() as u64 {
        return damaged(format!(
            "the payload has {} bytes, but the header states another length",
            payload.len()
        ));
    }
    if epoch >= NUMBER_LIMIT {
        return Err(impossible(name));
    }
    let author = Author { database, lineage, writer, epoch, fork };
    Ok(Opened { format, author, payload, hash: expected })
}

/// Returns the error for a payload that is too short for its fields.
pub(crate) fn short(name: &str) -> Error {
    Error::corruption(format!("{name}: the payload is too short for its fields"))
}

/// Returns the error for an object that has a number that no writer reaches, so that the next one may not fit.
pub(crate) fn impossible(name: &str) -> Error {
    Error::corruption(format!(
        "{name}: it has a commit, a segment or an epoch with a number that no database reaches, so it was \
         forged"
    ))
}

/// How bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Plain = 0,
    Lz4 = 1,
}

impl Codec {
    pub fn decode(number: u32) -> Option<Codec> {
        match number {
            0 => Some(Codec::Plain),
            1 => Some(Codec::Lz4),
            _ => None,
        }
    }
}

/// Compresses `bytes` if that saves at least a sixteenth.
pub(crate) fn pack(bytes: Vec<u8>) -> (Codec, Vec<u8>) {
    let packed = lz4_flex::block::compress(&bytes);
    if packed.len() + bytes.len() / 16 < bytes.len() { (Codec::Lz4, packed) } else { (Codec::Plain, bytes) }
}

/// Undoes [`pack`]. `most` bounds what is allocated; the hash of `stored` was verified before.
pub(crate) fn unpack(
    name: &str,
    codec: Codec,
    stored: &[u8],
    raw_bytes: u64,
    most: usize,
) -> Result<Vec<u8>> {
    let damaged = |what: String| Error::corruption(format!("{name}: {what}"));
    let wanted = usize::try_from(raw_bytes).ok().filter(|&bytes| bytes <= most);
    let wanted = wanted.ok_or_else(|| damaged(format!("{raw_bytes} bytes are more than {most}")))?;
    let bytes = match codec {
        Codec::Plain => stored.to_vec(),
        Codec::Lz4 => lz4_flex::block::decompress(stored, wanted)
            .map_err(|error| damaged(format!("it cannot be decompressed: {error}")))?,
    };
    if bytes.len() != wanted {
        return Err(damaged(format!("expected {wanted} bytes, found {}", bytes.len())));
    }
    Ok(bytes)
}

/// A part of a base or of a long change, 56 bytes where it is named:
///
/// | offset | bytes | field |
/// |---:|---:|---|
/// | 0 | 8 | length as stored |
/// | 8 | 8 | length |
/// | 16 | 4 | compression: 0 none, 1 LZ4 |
/// | 20 | 4 | zero |
/// | 24 | 32 | SHA-256 of the part as stored |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartEntry {
    pub stored_bytes: u64,
    pub raw_bytes: u64,
    pub codec: Codec,
    pub hash: Hash,
}

impl PartEntry {
    pub const BYTES: usize = 56;

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.stored_bytes);
        out.put_u64(self.raw_bytes);
        out.put_u32(self.codec as u32);
        out.put_u32(0);
        out.put(&self.hash);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (stored_bytes, raw_bytes) = (reader.u64()?, reader.u64()?);
        let codec = Codec::decode(reader.u32()?)?;
        (reader.u32()? == 0).then_some(())?;
        Some(PartEntry { stored_bytes, raw_bytes, codec, hash: reader.array()? })
    }
}

/// The parts of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartList {
    /// A random number in the names of the parts, so that two attempts never write one name.
    pub attempt: u64,
    pub entries: Vec<PartEntry>,
}

impl PartList {
    pub fn raw_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.raw_bytes).sum()
    }

    pub fn stored_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.stored_bytes).sum()
    }

    /// Reads `count` entries; `None` if there are fewer bytes, or if the sum of their lengths does not fit.
    pub fn decode(reader: &mut Reader<'_>, attempt: u64, count: u32) -> Option<Self> {
        let fits = reader.rest().len() / PartEntry::BYTES >= count as usize;
        let entries = (0..if fits { count } else { return None }).map(|_| PartEntry::decode(reader));
        let entries: Vec<PartEntry> = entries.collect::<Option<_>>()?;
        let sum = |of: fn(&PartEntry) -> u64| entries.iter().map(of).try_fold(0_u64, u64::checked_add);
        sum(|entry| entry.raw_bytes).and(sum(|entry| entry.stored_bytes))?;
        Some(PartList { attempt, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author() -> Author {
        Author { database: 1, lineage: 2, writer: 3, epoch: 4, fork: 5 }
    }

    #[test]
    fn each_flipped_bit_is_found_and_names_the_object() {
        let sealed = seal(Kind::Epoch, &author(), b"payload");
        let opened = open("epoch/1", Kind::Epoch, &sealed).unwrap();
        assert_eq!((opened.author, opened.payload), (author(), &b"payload"[..]));
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = open("epoch/1", Kind::Epoch, &damaged).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "bit {bit}: {error}");
            assert!(error.to_string().contains("epoch/1"), "{error}");
        }
        for cut in 0..sealed.len() {
            assert!(open("epoch/1", Kind::Epoch, &sealed[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn foreign_and_newer_objects_are_refused_as_such() {
        let kind = |bytes: &[u8]| open("lineage", Kind::Lineage, bytes).unwrap_err().kind();
        assert_eq!(
            kind(b"something else that somebody keeps here, which is long enough"),
            ErrorKind::Foreign
        );
        let mut newer = seal(Kind::Lineage, &author(), b"");
        let rest = newer.len() - HASH_BYTES;
        newer[8] = 3;
        let sum = hash(&newer[..rest]);
        newer[rest..].copy_from_slice(&sum);
        assert_eq!(kind(&newer), ErrorKind::Foreign);
        assert_eq!(kind(&seal(Kind::Epoch, &author(), b"")), ErrorKind::Corruption, "another kind");
    }

    #[test]
    fn what_is_packed_is_unpacked_and_no_length_is_believed() {
        for bytes in [vec![7; 10_000], (0..=255).collect::<Vec<u8>>(), Vec::new()] {
            let (codec, packed) = pack(bytes.clone());
            assert_eq!(unpack("x", codec, &packed, bytes.len() as u64, 1 << 20).unwrap(), bytes);
            assert!(unpack("x", codec, &packed, bytes.len() as u64 + 1, 1 << 20).is_err());
            assert!(unpack("x", codec, &packed, u64::MAX, 1 << 20).is_err());
        }
    }
}
