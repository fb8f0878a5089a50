//! A writer of changes as frames; see `format`.

use super::format::{
    Begin, End, FRAME_BYTES, Head, Kind, LongValue, PIECE_BYTES, encode_change, encode_table,
};
use base::checksum::Running;
use base::codec::Writer as _;
use base::op::{Encoder, Op};
use base::{Error, Result, TableId};
use std::io::{self, Read, Write};
use store::Lineage;
use store::changes::{Change, ChangeValue, Operation, TableInfo};

/// Writes the whole `change` to `out`, and returns the number of bytes.
pub(super) fn write(change: Change<'_>, out: &mut dyn Write) -> Result<u64> {
    let lineage = Lineage { database: change.database(), fork: change.fork() };
    let begin = Begin { lineage, commit: change.commit_number(), time_ms: change.time_ms() };
    let hash = Running::unseeded();
    let mut frames = Frames { out, commit: begin.commit, sequence: 0, bytes: 0, hash };
    frames.frame(Kind::Begin, &begin.encode())?;
    let mut gathered = Vec::new();
    for table in change.tables() {
        encode_change(&mut gathered, table);
        if gathered.len() >= PIECE_BYTES {
            frames.frame(Kind::Tables, &std::mem::take(&mut gathered))?;
        }
    }
    if !gathered.is_empty() {
        frames.frame(Kind::Tables, &gathered)?;
    }
    let mut batch = Batch { frames, ops: Vec::new(), count: 0, table: None, named: None };
    let mut operations = change.operations()?;
    while let Some(operation) = operations.next()? {
        batch.push(operation)?;
    }
    batch.flush()?;
    let Batch { mut frames, .. } = batch;
    let end = End { frames: frames.sequence, hash: frames.hash.finish() };
    frames.frame(Kind::End, &end.encode())?;
    Ok(frames.bytes)
}

/// A writer of frames.
struct Frames<'o> {
    out: &'o mut dyn Write,
    commit: u64,
    sequence: u64,
    bytes: u64,
    hash: Running,
}

impl Frames<'_> {
    fn frame(&mut self, kind: Kind, payload: &[u8]) -> Result<()> {
        let head = Head::encode_head(kind, payload, self.commit, self.sequence);
        for part in [&head[..], payload] {
            self.out.write_all(part).map_err(written)?;
            self.hash.update(part);
        }
        self.sequence += 1;
        self.bytes += (FRAME_BYTES + payload.len()) as u64;
        Ok(())
    }
}

#[cold]
fn written(cause: io::Error) -> Error {
    Error::io("write the changes", cause)
}

/// The operations that are collected for a frame.
struct Batch<'o> {
    frames: Frames<'o>,
    ops: Vec<u8>,
    count: u64,
    /// The table of the last collected operation.
    table: Option<TableId>,
    /// The table of the last table frame.
    named: Option<TableId>,
}

impl Batch<'_> {
    fn push(&mut self, operation: Operation<'_>) -> Result<()> {
        match operation {
            Operation::Table(_) => Ok(()),
            Operation::Put { table, key, value } => match value.stored_inline() {
                Some(value) if value.len() <= PIECE_BYTES => self.gather(table, Op::Put { key, value }),
                _ => self.long_value(table, key, value),
            },
            Operation::Delete { table, key } => self.gather(table, Op::Delete { key }),
            Operation::DeleteRange { table, start, end } => {
                self.gather(table, Op::DeleteRange { start, end })
            }
        }
    }

    fn name(&mut self, table: &TableInfo) -> Result<()> {
        if self.named == Some(table.id()) {
            return Ok(());
        }
        self.flush()?;
        self.named = Some(table.id());
        self.frames.frame(Kind::Table, &encode_table(table.id(), table.name()))
    }

    fn gather(&mut self, table: &TableInfo, op: Op<'_>) -> Result<()> {
        self.name(table)?;
        Encoder::of_operations(&mut self.ops, self.table).push(table.id(), op);
        self.table = Some(table.id());
        self.count += 1;
        if self.ops.len() >= PIECE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let mut payload = Vec::with_capacity(self.ops.len() + 4);
        payload.put_varint(self.count);
        payload.append(&mut self.ops);
        (self.count, self.table) = (0, None);
        self.frames.frame(Kind::Operations, &payload)
    }

    fn long_value(&mut self, table: &TableInfo, key: &[u8], value: ChangeValue<'_>) -> Result<()> {
        self.name(table)?;
        self.flush()?;
        let long = LongValue { table: table.id(), len_bytes: value.stored_len(), key };
        self.frames.frame(Kind::Value, &long.encode())?;
        let mut reader = value.stored_reader()?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = read_piece(&mut reader, &mut piece)?;
            if count == 0 {
                return Ok(());
            }
            self.frames.frame(Kind::Piece, &piece[..count])?;
        }
    }
}

/// Fills `piece` as far as `reader` has bytes.
fn read_piece(reader: &mut impl Read, piece: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match reader.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) => {
                return Err(error
                    .downcast::<Error>()
                    .unwrap_or_else(|cause| Error::io("read a value", cause)));
            }
        }
    }
    Ok(filled)
}
