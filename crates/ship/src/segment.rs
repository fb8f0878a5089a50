//! A segment of the log: the payload of an object of kind 5, and the changes in it.
//!
//! # Payload, 128 bytes and a body
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | number |
//! | 8 | 4 | flags: 1 fence, first of an epoch; 2 rebase, begins after a base; 4 release, last of its writer; 8 drop |
//! | 12 | 4 | compression of the body: 0 none, 1 LZ4 (one block) |
//! | 16 | 8 | first commit; without changes, the last one plus 1 |
//! | 24 | 8 | last commit that the log has with this segment |
//! | 32 | 8 | time of the first commit, in milliseconds since 1970 |
//! | 40 | 8 | time of the last commit |
//! | 48 | 8 | how many changes it has |
//! | 56 | 8 | length of the body before compression |
//! | 64 | 32 | hash of the previous segment; zeros in segment 1 |
//! | 96 | 8 | XXH3 of the last change that the log has; 0 if unknown |
//! | 104 | 8 | commit of the newest base that was published before; 0 if none |
//! | 112 | 8 | bytes of the segments since that base |
//! | 120 | 8 | of a drop, when the database was dropped, in milliseconds since 1970; otherwise zero |
//! | 128 | | body |
//!
//! A *drop* says that the database was dropped. It has no changes and no other flag, it is the last segment of its
//! lineage, and its object has a format of its own.
//!
//! # Body: changes, each 40 bytes and its data
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | commit |
//! | 8 | 8 | time of the commit, in milliseconds since 1970 |
//! | 16 | 8 | length of the change |
//! | 24 | 8 | attempt: part of the names of its parts; 0 if the change is here |
//! | 32 | 4 | number of parts; 0 if the change is here |
//! | 36 | 4 | zero |
//! | 40 | | the change, or 56 bytes for each part |

use crate::format::{self, Author, Codec, DROP_FORMAT, FORMAT, Hash, Kind, PartList};
use crate::name;
use base::codec::{Reader, Writer as _};
use base::limits::{NUMBER_LIMIT, TIMESTAMP_LIMIT};
use base::{Error, Result};

/// The longest body before compression. A longer change has parts, so a segment never needs more.
pub(crate) const MOST_BODY_BYTES: usize = 64 << 20;
const FENCE: u32 = 1;
const REBASE: u32 = 2;
const RELEASE: u32 = 4;
const DROP: u32 = 8;

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub number: u64,
    pub is_fence: bool,
    pub is_rebase: bool,
    pub is_release: bool,
    /// When the database was dropped, in milliseconds since 1970. Nothing follows such a segment.
    pub dropped_ms: Option<u64>,
    pub first_commit: u64,
    pub last_commit: u64,
    pub first_time_ms: u64,
    pub last_time_ms: u64,
    pub count: u64,
    pub previous: Hash,
    pub last_change: u64,
    pub base_commit: u64,
    pub log_bytes: u64,
}

/// A verified segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub author: Author,
    pub head: Head,
    pub hash: Hash,
    pub body: Vec<u8>,
}

/// One change of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub commit: u64,
    pub time_ms: u64,
    pub bytes: u64,
    pub content: Content<'a>,
}

/// Where a change's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Here(&'a [u8]),
    Parts(PartList),
}

/// Encodes a segment, whole.
pub(crate) fn encode(author: &Author, head: &Head, body: Vec<u8>) -> Vec<u8> {
    let raw_bytes = body.len() as u64;
    let (codec, stored) = format::pack(body);
    let mut out = Vec::with_capacity(128 + stored.len());
    out.put_u64(head.number);
    let is_drop = head.dropped_ms.is_some();
    let flags =
        [(head.is_fence, FENCE), (head.is_rebase, REBASE), (head.is_release, RELEASE), (is_drop, DROP)];
    out.put_u32(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    out.put_u32(codec as u32);
    for word in [head.first_commit, head.last_commit, head.first_time_ms, head.last_time_ms, head.count] {
        out.put_u64(word);
    }
    out.put_u64(raw_bytes);
    out.put(&head.previous);
    for word in [head.last_change, head.base_commit, head.log_bytes, head.dropped_ms.unwrap_or(0)] {
        out.put_u64(word);
    }
    out.put(&stored);
    format::seal_as(if is_drop { DROP_FORMAT } else { FORMAT }, Kind::Segment, author, &out)
}

/// The number of bytes at the beginning of a segment's object that suffice for [`is_fence`].
pub(crate) const START_BYTES: u64 = 76;

/// Returns whether the object that begins with these bytes is a fence. Bytes of another origin might be one.
pub(crate) fn is_fence(start: &[u8]) -> bool {
    let flags = start.get(72..76).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
    flags.is_none_or(|flags| flags & FENCE != 0)
}

/// Verifies and decodes segment `number`.
pub(crate) fn decode(number: u64, bytes: &[u8]) -> Result<Segment> {
    let name = name::numbered(name::LOG, number);
    let opened = format::open(&name, Kind::Segment, bytes)?;
    let mut reader = Reader::new(opened.payload);
    let is_drop = opened.format == DROP_FORMAT;
    let (head, codec, raw_bytes) = read_head(&mut reader, is_drop).ok_or_else(|| format::short(&name))?;
    if !head.is_possible() {
        return Err(format::impossible(&name));
    }
    if head.number != number {
        return Err(Error::corruption(format!("{name}: it says that it is segment {}", head.number)));
    }
    let body = format::unpack(&name, codec, reader.rest(), raw_bytes, MOST_BODY_BYTES)?;
    let segment = Segment { author: opened.author, head, hash: opened.hash, body };
    segment.check_changes(&name)?;
    if is_drop && segment.head.count > 0 {
        return Err(Error::corruption(format!("{name}: it drops the database, and has changes")));
    }
    Ok(segment)
}

/// Reads the fields before the body. `is_drop` says whether the object's format is that of a drop.
fn read_head(reader: &mut Reader<'_>, is_drop: bool) -> Option<(Head, Codec, u64)> {
    let (number, flags, codec) = (reader.u64()?, reader.u32()?, Codec::decode(reader.u32()?)?);
    let (first_commit, last_commit) = (reader.u64()?, reader.u64()?);
    let (first_time_ms, last_time_ms) = (reader.u64()?, reader.u64()?);
    let (count, raw_bytes, previous) = (reader.u64()?, reader.u64()?, reader.array()?);
    let (last_change, base_commit, log_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let dropped_ms = reader.u64()?;
    let is_valid = match is_drop {
        true => flags == DROP,
        false => flags <= FENCE | REBASE | RELEASE && dropped_ms == 0,
    };
    is_valid.then_some(())?;
    let (is_fence, is_rebase, is_release) = (flags & FENCE != 0, flags & REBASE != 0, flags & RELEASE != 0);
    let head = Head {
        number,
        is_fence,
        is_rebase,
        is_release,
        dropped_ms: is_drop.then_some(dropped_ms),
        first_commit,
        last_commit,
        first_time_ms,
        last_time_ms,
        count,
        previous,
        last_change,
        base_commit,
        log_bytes,
    };
    Some((head, codec, raw_bytes))
}

impl Head {
    /// Returns whether the writer of this segment, which is the newest, may be alive.
    pub fn is_held(&self) -> bool {
        !self.is_release && self.dropped_ms.is_none()
    }

    /// Returns whether the segment's numbers are ones that a database reaches. Then the successor of each fits, too.
    fn is_possible(&self) -> bool {
        let newest = self.last_commit.max(self.base_commit);
        self.number < NUMBER_LIMIT && self.first_commit > 0 && newest < TIMESTAMP_LIMIT
    }
}

impl Segment {
    /// Returns the changes, in order.
    pub fn changes(&self) -> Changes<'_> {
        Changes { rest: Reader::new(&self.body) }
    }

    /// Checks that the changes are those that the head announces: each commit is the successor of the one before it.
    fn check_changes(&self, name: &str) -> Result<()> {
        let (head, mut expected, mut changes) = (&self.head, self.head.first_commit, self.changes());
        let mut count = 0;
        for change in changes.by_ref() {
            if change.commit != expected {
                let found = change.commit;
                return Err(Error::corruption(format!("{name}: expected commit {expected}, found {found}")));
            }
            (expected, count) = (expected.saturating_add(1), count + 1);
        }
        let is_whole = changes.rest.is_empty();
        if !is_whole || count != head.count || expected != head.last_commit + 1 {
            return Err(Error::corruption(format!(
                "{name}: its changes are not those that its head announces"
            )));
        }
        Ok(())
    }
}

/// Appends a change to a body.
pub(crate) fn push_change(body: &mut Vec<u8>, change: &Change<'_>) {
    body.put_u64(change.commit);
    body.put_u64(change.time_ms);
    body.put_u64(change.bytes);
    match &change.content {
        Content::Here(bytes) => {
            body.put_u64(0);
            body.put_u64(0);
            body.put(bytes);
        }
        Content::Parts(list) => {
            body.put_u64(list.attempt);
            body.put_u32(list.entries.len() as u32);
            body.put_u32(0);
            list.entries.iter().for_each(|entry| entry.encode(body));
        }
    }
}

/// Iterates over the changes of a body. It ends early, with bytes left, where they are damaged.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        let mut reader = self.rest;
        let (commit, time_ms, bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (attempt, count) = (reader.u64()?, reader.u32()?);
        (reader.u32()? == 0).then_some(())?;
        let content = match count {
            0 => Content::Here(reader.take(usize::try_from(bytes).ok()?)?),
            count => Content::Parts(PartList::decode(&mut reader, attempt, count)?),
        };
        self.rest = reader;
        Some(Change { commit, time_ms, bytes, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::PartEntry;

    fn example() -> (Author, Head, Vec<u8>) {
        let author = Author { database: 1, lineage: 2, writer: 3, epoch: 4, fork: 5 };
        let mut body = Vec::new();
        let entry = PartEntry { stored_bytes: 5, raw_bytes: 9, codec: Codec::Lz4, hash: [7; 32] };
        let list = PartList { attempt: 8, entries: vec![entry] };
        let here = Content::Here(b"a change");
        push_change(&mut body, &Change { commit: 11, time_ms: 100, bytes: 8, content: here });
        let content = Content::Parts(list);
        push_change(&mut body, &Change { commit: 12, time_ms: 101, bytes: 9, content });
        let head = Head {
            number: 6,
            is_fence: false,
            is_rebase: true,
            is_release: true,
            dropped_ms: None,
            first_commit: 11,
            last_commit: 12,
            first_time_ms: 100,
            last_time_ms: 101,
            count: 2,
            previous: [9; 32],
            last_change: 1,
            base_commit: 10,
            log_bytes: 77,
        };
        (author, head, body)
    }

    #[test]
    fn a_segment_is_read_as_it_was_written() {
        let (author, head, body) = example();
        let bytes = encode(&author, &head, body.clone());
        let segment = decode(6, &bytes).unwrap();
        assert_eq!((segment.author, segment.head, &segment.body), (author, head, &body));
        assert_eq!(segment.changes().map(|change| change.commit).collect::<Vec<_>>(), [11, 12]);
        assert!(!is_fence(&bytes[..START_BYTES as usize]));
        let fence = encode(&author, &Head { is_fence: true, ..head }, body);
        assert!(is_fence(&fence[..START_BYTES as usize]) && is_fence(&fence[..9]));
        assert!(decode(7, &bytes).unwrap_err().to_string().contains("segment 6"));
    }

    #[test]
    fn a_drop_has_a_format_of_its_own_and_nothing_else() {
        let (author, head, body) = example();
        let (dropped_ms, is_rebase, is_release) = (Some(200), false, false);
        let drop = Head { dropped_ms, is_rebase, is_release, first_commit: 13, count: 0, ..head };
        let bytes = encode(&author, &drop, Vec::new());
        assert_eq!(bytes[8], 2, "the format");
        assert_eq!(decode(6, &bytes).unwrap().head, drop);
        // Forged: with changes, with another flag, in the format of other segments, and a time without a drop.
        let with_changes = Head { first_commit: 11, count: 2, ..drop };
        assert!(decode(6, &encode(&author, &with_changes, body)).is_err());
        assert!(decode(6, &encode(&author, &Head { is_fence: true, ..drop }, Vec::new())).is_err());
        let forged = |format: u32, edit: &dyn Fn(&mut [u8])| {
            let mut payload = bytes[64..bytes.len() - 32].to_vec();
            edit(&mut payload);
            decode(6, &format::seal_as(format, Kind::Segment, &author, &payload)).unwrap_err().kind()
        };
        assert_eq!(forged(FORMAT, &|_| {}), base::ErrorKind::Corruption);
        assert_eq!(forged(FORMAT, &|payload| payload[8] = 0), base::ErrorKind::Corruption);
        assert_eq!(forged(DROP_FORMAT, &|payload| payload[8] = 0), base::ErrorKind::Corruption);
    }

    #[test]
    fn changes_that_the_head_does_not_announce_are_refused() {
        let (author, head, body) = example();
        for head in [
            Head { count: 3, ..head },
            Head { first_commit: 10, ..head },
            Head { last_commit: 13, ..head },
            Head { last_commit: u64::MAX, ..head },
        ] {
            assert!(decode(6, &encode(&author, &head, body.clone())).is_err(), "{head:?}");
        }
        // Numbers that no database has: the next one would not fit.
        let empty = Head { first_commit: 13, count: 0, ..head };
        assert!(decode(6, &encode(&author, &empty, Vec::new())).is_ok());
        for head in [
            Head { first_commit: 0, last_commit: u64::MAX, ..empty },
            Head { first_commit: TIMESTAMP_LIMIT + 1, last_commit: TIMESTAMP_LIMIT, ..empty },
            Head { base_commit: TIMESTAMP_LIMIT, ..empty },
        ] {
            assert!(decode(6, &encode(&author, &head, Vec::new())).is_err(), "{head:?}");
        }
        let last = Head { number: NUMBER_LIMIT, ..empty };
        assert!(decode(NUMBER_LIMIT, &encode(&author, &last, Vec::new())).is_err());
        let forger = Author { epoch: NUMBER_LIMIT, ..author };
        assert!(decode(6, &encode(&forger, &empty, Vec::new())).is_err());
        for cut in 1..body.len() {
            assert!(decode(6, &encode(&author, &head, body[..cut].to_vec())).is_err(), "cut at {cut}");
        }
    }
}
