//! The bytes of changes: frames, each with its encoder and its decoder. All numbers are little-endian. Changes follow
//! each other without separators; `docs/changes.md` shows one byte by byte.
//!
//! # Frame, 16 bytes and a payload
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | checksum of bytes 8 to the payload's end, seeded with the commit's number and the frame's |
//! | 8 | 4 | length of the payload, at most 256 KiB |
//! | 12 | 4 | kind |
//!
//! | kind | payload | how many, in this order |
//! |---:|---|---|
//! | 1 begin | see below | 1 |
//! | 2 tables | changes of tables as wholes, one after the other | any |
//! | 3 table | id (4), the name that it has after the commit | any; kinds 3 to 6 mix |
//! | 4 operations | how many (varint), puts and deletes as in a commit record | any |
//! | 5 value | table id (4), length (8), key: a value that follows in pieces | any |
//! | 6 piece | part of a value | as many as the value has |
//! | 7 end | frames before it (8), hash of their bytes (8) | 1 |
//!
//! | offset | bytes | field of a begin frame |
//! |---:|---:|---|
//! | 0 | 8 | magic, `PANDOCHG` |
//! | 8 | 4 | format, 1 |
//! | 12 | 4 | fork of the database |
//! | 16 | 8 | database id |
//! | 24 | 8 | commit |
//! | 32 | 8 | when it was made, in milliseconds since 1970; 0: not known |
//!
//! A change of a table is a tag byte and its parts: 1 created (name, row), 2 dropped (id (4), name), 3 renamed (former
//! name, name, row), 4 altered (name, row). A name or a row is its length (varint) and its bytes; a row is the
//! catalog's. A value is as it is stored: in a table with a TTL its date comes first.

use base::checksum::Running;
use base::codec::{Reader, Writer};
use base::{DatabaseId, Error, ErrorKind, Result, TableId};
use store::Lineage;
use store::changes::{TableChange, TableInfo};

const MAGIC: [u8; 8] = *b"PANDOCHG";
const FORMAT: u32 = 1;

/// The length of a frame without its payload, in bytes.
pub(super) const FRAME_BYTES: usize = 16;
/// The length of the longest payload that a reader accepts.
pub(super) const MAX_PAYLOAD_BYTES: usize = 256 << 10;
/// The longest value that is stored among the operations; longer values follow in pieces of this length. Operations are
/// collected up to this size, so a payload is at most twice as long, plus two keys.
pub(super) const PIECE_BYTES: usize = 64 << 10;
const BEGIN_BYTES: usize = 40;
const END_BYTES: usize = 16;

const _: () = assert!(2 * PIECE_BYTES + 2 * base::limits::MAX_PAGE_BYTES <= MAX_PAYLOAD_BYTES);

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin = 1,
    Tables = 2,
    Table = 3,
    Operations = 4,
    Value = 5,
    Piece = 6,
    End = 7,
}

impl Kind {
    fn from_number(number: u32) -> Option<Kind> {
        use Kind::{Begin, End, Operations, Piece, Table, Tables, Value};
        [Begin, Tables, Table, Operations, Value, Piece, End].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub checksum: u64,
    pub payload_bytes: usize,
    pub kind: Kind,
}

impl Head {
    /// Returns the head of a frame with `payload`, number `sequence` of commit `commit`.
    pub fn encode_head(kind: Kind, payload: &[u8], commit: u64, sequence: u64) -> [u8; FRAME_BYTES] {
        let rest = rest_of_head(kind, payload.len());
        let mut out = [0; FRAME_BYTES];
        out[..8].copy_from_slice(&checksum(&rest, payload, commit, sequence).to_le_bytes());
        out[8..].copy_from_slice(&rest);
        out
    }

    /// # Errors
    /// [`ErrorKind::Corruption`] if the bytes are not the head of a frame.
    pub fn decode(bytes: &[u8; FRAME_BYTES]) -> Result<Head> {
        let mut reader = Reader::new(bytes);
        let read = (reader.u64(), reader.u32(), reader.u32());
        let (Some(checksum), Some(payload_bytes), Some(kind)) = read else {
            unreachable!("16 bytes hold them")
        };
        let payload_bytes = payload_bytes as usize;
        match Kind::from_number(kind).filter(|_| payload_bytes <= MAX_PAYLOAD_BYTES) {
            Some(kind) => Ok(Head { checksum, payload_bytes, kind }),
            None => Err(Error::corruption(format!(
                "expected a frame of a change, found kind {kind} with {payload_bytes} bytes"
            ))),
        }
    }

    /// # Errors
    /// [`ErrorKind::Corruption`] if `payload` is not that of this frame.
    pub fn check(&self, payload: &[u8], commit: u64, sequence: u64) -> Result<()> {
        let found = checksum(&rest_of_head(self.kind, payload.len()), payload, commit, sequence);
        if found == self.checksum {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "frame {sequence} of commit {commit}: expected checksum {:016x}, found {found:016x}",
            self.checksum
        )))
    }
}

fn rest_of_head(kind: Kind, payload_bytes: usize) -> [u8; 8] {
    let mut rest = [0; 8];
    rest[..4].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    rest[4..].copy_from_slice(&(kind as u32).to_le_bytes());
    rest
}

fn checksum(rest: &[u8], payload: &[u8], commit: u64, sequence: u64) -> u64 {
    let mut running = Running::change_frame(commit, sequence);
    running.update(rest);
    running.update(payload);
    running.finish()
}

/// The contents of a begin frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub lineage: Lineage,
    pub commit: u64,
    pub time_ms: u64,
}

impl Begin {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BEGIN_BYTES);
        out.put(&MAGIC);
        out.put_u32(FORMAT);
        out.put_u32(self.lineage.fork);
        for word in [self.lineage.database.0, self.commit, self.time_ms] {
            out.put_u64(word);
        }
        out
    }

    /// # Errors
    /// [`ErrorKind::Foreign`] if the bytes are not the beginning of a change, or of one in another format;
    /// [`ErrorKind::Corruption`].
    pub fn decode(payload: &[u8]) -> Result<Begin> {
        let mut reader = Reader::new(payload);
        if reader.array() != Some(MAGIC) {
            return Err(Error::new(
                ErrorKind::Foreign,
                "the bytes are not changes of Pando (they have no magic number)",
            ));
        }
        let format = reader.u32();
        if format.is_some_and(|format| format != FORMAT) {
            let message = format!(
                "this version of Pando reads only format {FORMAT} of changes, and these have another"
            );
            return Err(Error::new(ErrorKind::Foreign, message));
        }
        let mut read = || {
            let (fork, database) = (reader.u32()?, DatabaseId(reader.u64()?));
            let (commit, time_ms) = (reader.u64()?, reader.u64()?);
            let is_whole = reader.is_empty() && commit > 0 && commit < u64::MAX;
            is_whole.then_some(Begin { lineage: Lineage { database, fork }, commit, time_ms })
        };
        read().ok_or_else(|| Error::corruption("the first frame of a change cannot be decoded"))
    }
}

/// The contents of an end frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub frames: u64,
    pub hash: u64,
}

impl End {
    pub fn encode(&self) -> [u8; END_BYTES] {
        let mut out = [0; END_BYTES];
        out[..8].copy_from_slice(&self.frames.to_le_bytes());
        out[8..].copy_from_slice(&self.hash.to_le_bytes());
        out
    }

    pub fn decode(payload: &[u8]) -> Option<End> {
        let mut reader = Reader::new(payload);
        let end = End { frames: reader.u64()?, hash: reader.u64()? };
        reader.is_empty().then_some(end)
    }
}

/// A value that follows in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LongValue<'a> {
    pub table: TableId,
    pub len_bytes: u64,
    pub key: &'a [u8],
}

impl<'a> LongValue<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + self.key.len());
        out.put_u32(self.table.0);
        out.put_u64(self.len_bytes);
        out.put(self.key);
        out
    }

    pub fn decode(payload: &'a [u8]) -> Option<LongValue<'a>> {
        let mut reader = Reader::new(payload);
        Some(LongValue { table: TableId(reader.u32()?), len_bytes: reader.u64()?, key: reader.rest() })
    }
}

/// Returns the payload of a table frame.
pub(super) fn encode_table(id: TableId, name: &str) -> Vec<u8> {
    [&id.0.to_le_bytes()[..], name.as_bytes()].concat()
}

/// Reads the payload of a table frame.
pub(super) fn decode_table(payload: &[u8]) -> Option<(TableId, &str)> {
    let mut reader = Reader::new(payload);
    Some((TableId(reader.u32()?), std::str::from_utf8(reader.rest()).ok()?))
}

const CREATED: u8 = 1;
const DROPPED: u8 = 2;
const RENAMED: u8 = 3;
const ALTERED: u8 = 4;

/// Appends a change of a table to the payload of a tables frame.
pub(super) fn encode_change(out: &mut Vec<u8>, change: &TableChange) {
    let put_table = |out: &mut Vec<u8>, table: &TableInfo| {
        out.put_bytes(table.name().as_bytes());
        out.put_bytes(&table.encode_row());
    };
    match change {
        TableChange::Created(table) => {
            out.put_u8(CREATED);
            put_table(out, table);
        }
        TableChange::Dropped { id, name } => {
            out.put_u8(DROPPED);
            out.put_u32(id.0);
            out.put_bytes(name.as_bytes());
        }
        TableChange::Renamed { from, table } => {
            out.put_u8(RENAMED);
            out.put_bytes(from.as_bytes());
            put_table(out, table);
        }
        TableChange::Altered(table) => {
            out.put_u8(ALTERED);
            put_table(out, table);
        }
    }
}

/// Reads the payload of a tables frame.
pub(super) fn decode_changes(payload: &[u8]) -> Result<Vec<TableChange>> {
    let mut reader = Reader::new(payload);
    let mut changes = Vec::new();
    while !reader.is_empty() {
        changes.push(decode_change(&mut reader)?);
    }
    Ok(changes)
}

fn decode_change(reader: &mut Reader<'_>) -> Result<TableChange> {
    let cut = || Error::corruption("a change of a table cannot be decoded");
    let name = |reader: &mut Reader<'_>| {
        let name = std::str::from_utf8(reader.bytes()?).ok()?;
        Some(name.into())
    };
    let table = |reader: &mut Reader<'_>| {
        let (name, row) = (reader.bytes().ok_or_else(cut)?, reader.bytes().ok_or_else(cut)?);
        TableInfo::decode(name, row)
    };
    match reader.u8() {
        Some(CREATED) => table(reader).map(TableChange::Created),
        Some(DROPPED) => {
            let id = TableId(reader.u32().ok_or_else(cut)?);
            Ok(TableChange::Dropped { id, name: name(reader).ok_or_else(cut)? })
        }
        Some(RENAMED) => {
            let from = name(reader).ok_or_else(cut)?;
            Ok(TableChange::Renamed { from, table: table(reader)? })
        }
        Some(ALTERED) => table(reader).map(TableChange::Altered),
        _ => Err(cut()),
    }
}
