//! What a transaction does to a table, and the encoding of it in the log.
//!
//! A commit record in the log is `commit timestamp u64 · operation count varint · operations`. An operation is one kind
//! byte and its parts. A record names a table once, for all operations up to the next [`Op`] of another table
//! (`docs/format.md` has the table and a worked example). The timestamp has a fixed length, so that a record can be
//! encoded before its place in the order of commits is known ([`stamp`]). The time of the commit has a fixed length,
//! too ([`stamp_time`]). It precedes the first operation of a record if a reader follows the changes.

use crate::codec::{Reader, Writer};
use crate::{CommitTs, Large, LargeRef, PagePtr, TableId};

/// One logical operation. Its keys and values are borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Sets `key` to `value`.
    Put {
        /// The key.
        key: &'a [u8],
        /// The new value.
        value: &'a [u8],
    },
    /// Sets `key` to a value whose bytes lie in the data file, where they were synced before this was logged.
    PutLarge {
        /// The key.
        key: &'a [u8],
        /// The reference to the new value, without its beginning.
        large: Large<'a>,
    },
    /// Attaches a run that was synced before this was logged. All that the run says about the table takes effect before
    /// the operations that follow. Attach operations come first in a record.
    Attach {
        /// The encoded description of the run, 144 bytes: `run::Delta`.
        delta: &'a [u8; DELTA_BYTES],
        /// Extents of this run or others of the same record: [`encode_extents`].
        extents: &'a [u8],
    },
    /// Removes `key`, whether it is present or not.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Removes every key in `[start, end)`. Without `end`, the range ends at the end of the table. Within one commit it
    /// takes effect before the puts and deletes of the same table.
    DeleteRange {
        /// The first key that is removed.
        start: &'a [u8],
        /// The first key after the range.
        end: Option<&'a [u8]>,
    },
}

/// The length in bytes of the description of an attached run.
pub const DELTA_BYTES: usize = 144;

/// Encodes the extents of an `Attach` operation: the first unit and the number of units of each, as varints. Neighbours
/// are joined, up to what one pointer can name.
pub fn encode_extents(extents: impl IntoIterator<Item = (u64, u64)>) -> Vec<u8> {
    let mut sorted: Vec<(u64, u64)> = extents.into_iter().collect();
    sorted.sort_unstable();
    sorted.dedup_by(|next, last| {
        let joins = last.0 + last.1 == next.0 && last.1 + next.1 <= PagePtr::MAX_UNITS;
        if joins {
            last.1 += next.1;
        }
        joins
    });
    let mut out = Vec::new();
    for (unit, units) in sorted {
        out.put_varint(unit);
        out.put_varint(units);
    }
    out
}

/// Decodes what [`encode_extents`] wrote. Returns `None` where the bytes end in the middle of an extent.
pub fn decode_extents(extents: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut reader = Reader::new(extents);
    let mut decoded = Vec::new();
    while !reader.is_empty() {
        decoded.push((reader.varint()?, reader.varint()?));
    }
    Some(decoded)
}

/// The kind bytes of format 1. Kinds 16-31 are references to data outside the log: 16 is a large value, 17 an attached
/// run; the others are reserved.
mod kind {
    pub const TABLE: u8 = 1;
    pub const PUT: u8 = 2;
    pub const DELETE: u8 = 3;
    pub const DELETE_RANGE: u8 = 4;
    pub const DELETE_FROM: u8 = 5;
    pub const TIME: u8 = 6;
    pub const PUT_LARGE: u8 = 16;
    pub const ATTACH: u8 = 17;
}

/// Appends a commit record's operations to a buffer.
#[derive(Debug)]
pub struct Encoder<'a, W: Writer> {
    out: &'a mut W,
    table: Option<TableId>,
}

impl<'a, W: Writer> Encoder<'a, W> {
    /// Begins a commit record of `count` operations.
    #[inline]
    pub fn begin(out: &'a mut W, ts: CommitTs, count: u64) -> Self {
        out.put_u64(ts.0);
        out.put_varint(count);
        Encoder { out, table: None }
    }

    /// Appends operations without the head of a record, for [`Decoder::of_operations`]. The operation before them was
    /// on `table`, if there was one.
    pub fn of_operations(out: &'a mut W, table: Option<TableId>) -> Self {
        Encoder { out, table }
    }

    /// Begins a commit record that has room for its time: see [`stamp_time`].
    #[inline]
    pub fn begin_timed(out: &'a mut W, ts: CommitTs, count: u64) -> Self {
        let encoder = Encoder::begin(out, ts, count);
        encoder.out.put_u8(kind::TIME);
        encoder.out.put_u64(0);
        encoder
    }

    /// Appends one operation on `table`.
    #[inline]
    pub fn push(&mut self, table: TableId, op: Op<'_>) {
        if self.table != Some(table) {
            self.table = Some(table);
            self.out.put_u8(kind::TABLE);
            self.out.put_varint(u64::from(table.0));
        }
        match op {
            Op::Put { key, value } => {
                self.out.put_u8(kind::PUT);
                self.out.put_bytes(key);
                self.out.put_bytes(value);
            }
            Op::PutLarge { key, large } => {
                self.out.put_u8(kind::PUT_LARGE);
                self.out.put_bytes(key);
                self.out.put(large.encoded_reference());
            }
            Op::Attach { delta, extents } => {
                self.out.put_u8(kind::ATTACH);
                self.out.put(delta);
                self.out.put_bytes(extents);
            }
            Op::Delete { key } => {
                self.out.put_u8(kind::DELETE);
                self.out.put_bytes(key);
            }
            Op::DeleteRange { start, end: Some(end) } => {
                self.out.put_u8(kind::DELETE_RANGE);
                self.out.put_bytes(start);
                self.out.put_bytes(end);
            }
            Op::DeleteRange { start, end: None } => {
                self.out.put_u8(kind::DELETE_FROM);
                self.out.put_bytes(start);
            }
        }
    }
}

/// Sets the timestamp of an encoded commit record.
#[inline]
pub fn stamp(record: &mut [u8], ts: CommitTs) {
    record[..8].copy_from_slice(&ts.0.to_le_bytes());
}

/// Sets the time of a commit record that was begun with [`Encoder::begin_timed`]: milliseconds since 1970. Does nothing
/// to a record without room for it.
///
/// ```
/// use pando_base::{op::{Decoder, Encoder, stamp_time}, CommitTs};
/// let mut record = Vec::new();
/// Encoder::begin_timed(&mut record, CommitTs(9), 0);
/// stamp_time(&mut record, 1_700_000_000_000);
/// assert_eq!(Decoder::begin(&record).unwrap().time_ms(), Some(1_700_000_000_000));
/// ```
pub fn stamp_time(record: &mut [u8], time_ms: u64) {
    let time_at = || {
        let mut reader = Reader::new(record);
        reader.u64()?;
        reader.varint()?;
        (reader.u8()? == kind::TIME).then(|| record.len() - reader.rest().len())
    };
    if let Some(place) = time_at().and_then(|at| record.get_mut(at..at + 8)) {
        place.copy_from_slice(&time_ms.to_le_bytes());
    }
}

/// Reads a commit record: an iterator over its operations, each with its table.
///
/// `None` ends the record. [`Decoder::finish`] says whether the record was complete.
///
/// ```
/// use pando_base::{op::{Decoder, Encoder, Op}, CommitTs, TableId};
/// let mut bytes = Vec::new();
/// let mut encoder = Encoder::begin(&mut bytes, CommitTs(9), 1);
/// encoder.push(TableId(16), Op::Put { key: b"k", value: b"v" });
/// let mut decoder = Decoder::begin(&bytes).unwrap();
/// assert_eq!(decoder.ts(), CommitTs(9));
/// assert_eq!(decoder.next(), Some((TableId(16), Op::Put { key: b"k", value: b"v" })));
/// assert_eq!(decoder.next(), None);
/// assert_eq!(decoder.finish().unwrap(), &[] as &[u8]);
/// ```
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    ts: CommitTs,
    left: u64,
    time_ms: Option<u64>,
    table: Option<TableId>,
    bad: bool,
}

impl<'a> Decoder<'a> {
    /// Reads the head of the record at the front of `bytes`. Returns `None` if it is incomplete.
    pub fn begin(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let ts = CommitTs(reader.u64()?);
        let left = reader.varint()?;
        let time_ms = match reader.rest().first() {
            Some(&kind::TIME) => {
                reader.u8()?;
                Some(reader.u64()?)
            }
            _ => None,
        };
        Some(Decoder { reader, ts, left, time_ms, table: None, bad: false })
    }

    /// Reads `count` operations without the head of a record, as another format may hold them.
    pub fn of_operations(bytes: &'a [u8], count: u64) -> Self {
        let (reader, ts) = (Reader::new(bytes), CommitTs(0));
        Decoder { reader, ts, left: count, time_ms: None, table: None, bad: false }
    }

    /// Returns the time of the commit in milliseconds since 1970, or `None` if the record has no time.
    pub fn time_ms(&self) -> Option<u64> {
        self.time_ms
    }

    /// Returns the commit's timestamp.
    pub fn ts(&self) -> CommitTs {
        self.ts
    }

    /// Returns how many operations are left, if the bytes are a record.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns the bytes after the record once every operation was read, or `None` if the bytes were not a record.
    pub fn finish(self) -> Option<&'a [u8]> {
        (!self.bad && self.left == 0).then(|| self.reader.rest())
    }

    fn read(&mut self) -> Option<(TableId, Op<'a>)> {
        let reader = &mut self.reader;
        let mut kind = reader.u8()?;
        if kind == kind::TABLE {
            self.table = Some(TableId(u32::try_from(reader.varint()?).ok()?));
            kind = reader.u8()?;
        }
        let op = match kind {
            kind::PUT => Op::Put { key: reader.bytes()?, value: reader.bytes()? },
            kind::PUT_LARGE => {
                Op::PutLarge { key: reader.bytes()?, large: Large::of(reader.take(LargeRef::BYTES)?) }
            }
            kind::ATTACH => {
                Op::Attach { delta: reader.take(DELTA_BYTES)?.first_chunk()?, extents: reader.bytes()? }
            }
            kind::DELETE => Op::Delete { key: reader.bytes()? },
            kind::DELETE_RANGE => Op::DeleteRange { start: reader.bytes()?, end: Some(reader.bytes()?) },
            kind::DELETE_FROM => Op::DeleteRange { start: reader.bytes()?, end: None },
            _ => return None,
        };
        Some((self.table?, op))
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = (TableId, Op<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.bad || self.left == 0 {
            return None;
        }
        let read = self.read();
        match read {
            Some(_) => self.left -= 1,
            None => self.bad = true,
        }
        read
    }
}
