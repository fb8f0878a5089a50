//! The records of a table that is one of Redis' databases. docs/redis.md has the same, byte by byte.
//!
//! | first byte | rest of the key | value |
//! |---:|---|---|
//! | 0 | | the version of the layout: 1 |
//! | 1 | the key | the [header](Header), and the value of a string |
//! | 2 | generation (8 bytes), part of a collection | what belongs to this part |
//! | 3 | moment of expiry (8 bytes), the key | nothing |
//!
//! 1. A collection (hash, list, set, sorted set) is a header and elements. The elements are below its *generation*, a
//!    number that no other collection has. So a rename moves one record, and a removal is one range delete. A new
//!    collection gets a generation that is larger than that of each element in the table, which its transaction checks.
//! 2. A header with an expiry has exactly one record in the index of expiries, which is written in the same
//!    transaction.
//! 3. Every command that changes a key gives its header a new version, also if only an element changes. `WATCH`
//!    compares versions.

use crate::fault::{Done, Fault};
use pando::{Error, Span};

/// The version of the layout, the value of the record with the key `[0]`.
pub const LAYOUT: u8 = 1;
/// The key of the record of the version.
pub const LAYOUT_KEY: [u8; 1] = [0];
/// The first byte of keys of headers.
pub const HEADERS: u8 = 1;
const ELEMENTS: u8 = 2;
const EXPIRIES: u8 = 3;

/// The bytes of a header before the value of a string.
pub const HEADER_BYTES: usize = 18;
const COLLECTION_BYTES: usize = HEADER_BYTES + 24;

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A byte string.
    String = 1,
    /// Fields and their values.
    Hash = 2,
    /// Values in the order in which they were added, at both ends.
    List = 3,
    /// Members.
    Set = 4,
    /// Members in the order of their scores.
    Sorted = 5,
}

impl Kind {
    /// Returns the name by which `TYPE` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Sorted => "zset",
        }
    }

    fn of(tag: u8) -> Option<Self> {
        [Kind::String, Kind::Hash, Kind::List, Kind::Set, Kind::Sorted]
            .into_iter()
            .find(|kind| *kind as u8 == tag)
    }
}

/// The record of a key, except for the value of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type.
    pub kind: Kind,
    /// What the last command did: an index of [`EVENTS`].
    pub event: u8,
    /// When the key expires, in milliseconds since 1970; 0: never.
    pub expires_ms: u64,
    /// Changes with every command that changes the key.
    pub version: u64,
    /// Where the elements of a collection are.
    pub generation: u64,
    /// The number of elements.
    pub count: u64,
    /// The index of a list's first element.
    pub first: i64,
    /// The expiry that the index has for the key; 0: none.
    pub indexed_ms: u64,
}

impl Header {
    /// Creates the header of a key that does not exist yet.
    pub fn new(kind: Kind, generation: u64) -> Self {
        Header { kind, event: 0, expires_ms: 0, version: 0, generation, count: 0, first: 0, indexed_ms: 0 }
    }

    /// Reads the header of a record.
    ///
    /// # Errors
    /// `Corruption` for bytes that are none.
    pub fn decode(record: &[u8]) -> Done<Self> {
        let corrupt = || {
            let length = record.len();
            Fault::Database(Error::corruption(format!(
                "a record of {length} bytes is not the header of a key: was it written by another program?"
            )))
        };
        let number = |at: usize| {
            let bytes = record.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
            bytes.map(u64::from_be_bytes).ok_or_else(corrupt)
        };
        let kind = record.first().and_then(|&tag| Kind::of(tag)).ok_or_else(corrupt)?;
        let expires_ms = number(2)?;
        let mut header = Header {
            event: record[1],
            expires_ms,
            indexed_ms: expires_ms,
            version: number(10)?,
            ..Header::new(kind, 0)
        };
        if kind != Kind::String {
            header.generation = number(18)?;
            header.count = number(26)?;
            header.first = number(34)? as i64;
        }
        Ok(header)
    }

    /// Returns the record; `value` is that of a string.
    pub fn encode(&self, value: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(COLLECTION_BYTES.max(HEADER_BYTES + value.len()));
        record.extend([self.kind as u8, self.event]);
        record.extend(self.expires_ms.to_be_bytes());
        record.extend(self.version.to_be_bytes());
        if self.kind == Kind::String {
            record.extend_from_slice(value);
        } else {
            record.extend(self.generation.to_be_bytes());
            record.extend(self.count.to_be_bytes());
            record.extend(self.first.to_be_bytes());
        }
        record
    }

    /// Returns whether the key has expired at `now_ms`.
    pub fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_ms != 0 && self.expires_ms <= now_ms
    }
}

/// Returns the key of the record of `key`.
pub fn header_key(key: &[u8]) -> Vec<u8> {
    [&[HEADERS], key].concat()
}

/// Returns the key of a part of a collection.
pub fn element_key(generation: u64, part: &[u8]) -> Vec<u8> {
    [&[ELEMENTS], &generation.to_be_bytes()[..], part].concat()
}

/// The bytes before a part in the key of an element.
pub const BEFORE_PART: usize = 9;

/// Returns the keys of the elements of a collection whose parts begin with `prefix`.
pub fn elements(generation: u64, prefix: &[u8]) -> Span {
    Span::prefix(&element_key(generation, prefix))
}

/// Returns the keys of the elements of all collections whose generation is at least `generation`.
pub fn generations_from(generation: u64) -> Span {
    let start = element_key(generation, b"");
    Span::between(std::ops::Bound::Included(&start[..]), std::ops::Bound::Excluded(&[EXPIRIES][..]))
}

/// Returns the generation in the key of an element. A key that is too short, and so of another program, has zeros in
/// place of what it lacks: all of its generation's elements come after it.
pub fn generation_of(element_key: &[u8]) -> u64 {
    let mut generation = [0; 8];
    let stored = element_key.get(1..).unwrap_or_default();
    let count = stored.len().min(generation.len());
    generation[..count].copy_from_slice(&stored[..count]);
    u64::from_be_bytes(generation)
}

/// Returns the key of the index of expiries.
pub fn expiry_key(expires_ms: u64, key: &[u8]) -> Vec<u8> {
    [&[EXPIRIES], &expires_ms.to_be_bytes()[..], key].concat()
}

/// Returns the moment and the key that a key of the index of expiries has.
pub fn parse_expiry_key(record_key: &[u8]) -> Option<(u64, &[u8])> {
    let (moment, key) = record_key.strip_prefix(&[EXPIRIES])?.split_first_chunk()?;
    Some((u64::from_be_bytes(*moment), key))
}

/// Returns the keys of the index of expiries through the moment `now_ms`.
pub fn expired(now_ms: u64) -> Span {
    let end = [&[EXPIRIES], &now_ms.saturating_add(1).to_be_bytes()[..]].concat();
    Span::between(std::ops::Bound::Included(&[EXPIRIES]), std::ops::Bound::Excluded(&end))
}

macro_rules! events {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// What a command did to a key, as keyspace notifications call it. The order is part of the layout.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Event { $($name),* }

        /// The names of the events. A header has an index of it.
        pub const EVENTS: &[&str] = &[$($text),*];
    };
}

events! {
    Set = "set",
    Append = "append",
    SetRange = "setrange",
    IncrBy = "incrby",
    IncrByFloat = "incrbyfloat",
    Expire = "expire",
    Persist = "persist",
    RenameTo = "rename_to",
    CopyTo = "copy_to",
    HSet = "hset",
    HDel = "hdel",
    HIncrBy = "hincrby",
    HIncrByFloat = "hincrbyfloat",
    SAdd = "sadd",
    SRem = "srem",
    SPop = "spop",
    SStore = "sstore",
    ZAdd = "zadd",
    ZIncr = "zincr",
    ZRem = "zrem",
    ZPop = "zpop",
    ZStore = "zstore",
    LPush = "lpush",
    RPush = "rpush",
    LPop = "lpop",
    RPop = "rpop",
    LSet = "lset",
    LInsert = "linsert",
    LRem = "lrem",
    LTrim = "ltrim",
    SetBit = "setbit",
    MoveTo = "move_to",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let list = Header {
            event: Event::RPush as u8,
            expires_ms: 7,
            indexed_ms: 7,
            version: 1 << 60,
            count: 3,
            first: -2,
            ..Header::new(Kind::List, 9)
        };
        let record = list.encode(b"");
        assert_eq!(record.len(), COLLECTION_BYTES);
        assert_eq!(Header::decode(&record).unwrap(), list);
        for length in 0..record.len() {
            assert!(Header::decode(&record[..length]).is_err(), "{length} bytes");
        }
        let string = Header { version: 5, ..Header::new(Kind::String, 0) };
        let record = string.encode(b"value");
        // docs/redis.md shows this record.
        assert_eq!(record, b"\x01\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05value");
        assert_eq!(Header::decode(&record).unwrap(), string);
        assert!(Header::decode(&[9; 50]).is_err());
        assert!(string.expires_ms == 0 && !string.has_expired(u64::MAX));
        assert!(list.has_expired(7) && !list.has_expired(6));
        assert_eq!(EVENTS[Event::LTrim as usize], "ltrim");
    }

    #[test]
    fn an_expiry_is_found_until_its_moment() {
        let key = expiry_key(1000, b"k");
        assert_eq!(parse_expiry_key(&key), Some((1000, &b"k"[..])));
        let (before, at) = (expired(999), expired(1000));
        assert!(before.end().unwrap() <= &key[..] && at.end().unwrap() > &key[..]);
        assert!(at.start() <= &key[..]);
    }
}
