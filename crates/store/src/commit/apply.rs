//! Applying a commit record to the memtable (invariant 4).
//!
//! Recovery applies records by [`apply_record`]. A commit does that in two parts, of which only the second one holds
//! the commit lock: [`stage_record`] and [`Writer::link`]. Both decode the same bytes, in the same order, and end in
//! the same function of the tree: a record that is completed under the lock must not be staged. A commit whose record
//! cannot be staged uses [`apply_record`], too.
//!
//! A record holds, table by table, range deletes and then puts and deletes in ascending order of key, so that a large
//! transaction goes into the memtable in one sorted pass. A record whose keys do not ascend, which this engine never
//! writes, is applied as well, one sorted piece at a time.

use crate::uncommitted::write_set::WriteSet;
use base::op::{Decoder, Op};
use base::{CommitTs, Error, Result, TableId, Value};
use memtable::{Memtable, Staged, Writer};
use std::sync::Arc;

/// Applies the commit record that fills `record`, and returns its timestamp.
///
/// # Errors
/// [`base::ErrorKind::Corruption`] if it is not a commit record. The part before the damage may have been applied: only
/// recovery can meet this, and it discards the memtable.
pub(crate) fn apply_record(record: &[u8], writer: &mut Writer) -> Result<CommitTs> {
    let mut decoder = Decoder::begin(record).ok_or_else(no_record)?;
    let ts = decoder.ts();
    let mut ahead = decoder.next();
    while let Some((table, op)) = ahead {
        ahead = decoder.next();
        match (change(op), &ahead) {
            (Some(first), Some((next, op))) if *next == table && change(*op).is_some() => {
                let mut piece =
                    Piece { table, last: first.0, first: Some(first), ahead, decoder, is_over: false };
                writer.extend_sorted(table, ts, &mut piece);
                (ahead, decoder) = (piece.ahead, piece.decoder);
            }
            (None, Some((next, Op::DeleteRange { .. }))) if *next == table => {
                ahead = apply_ranges(op, (table, ts), ahead, &mut decoder, writer);
            }
            _ => writer.apply(ts, table, op),
        }
    }
    decoder.finish().filter(|rest| rest.is_empty()).ok_or_else(no_record)?;
    Ok(ts)
}

/// The fewest operations for which staging pays: it takes a stage and returns it, under a lock of its own.
const LEAST_STAGED: u64 = 4;
/// The most operations of a record that is staged: the list of them takes eight bytes each, which no budget knows of.
const MOST_STAGED: u64 = 4096;
/// The most bytes of a record that is staged. In a small memtable it is less: [`Staged::most_bytes`].
const MOST_STAGED_BYTES: usize = 1 << 20;

/// Writes the puts and deletes of `record`, which is that of `writes`, into the memory of the open memtable, where no
/// reader finds them until [`Writer::link`]. Returns `None` for a record that is to be applied by [`apply_record`]: a
/// short or a long one, one with range deletes, or one for which there is no stage or no memory.
pub(crate) fn stage_record(
    record: &[u8],
    writes: &WriteSet,
    full_bytes: usize,
    open: impl FnOnce() -> Arc<Memtable>,
) -> Option<Staged> {
    let decoder = Decoder::begin(record)?;
    // The range deletes of a table come first in it, but after the records of the tables before: those would be
    // copied in vain.
    if writes.has_ranges()
        || !(LEAST_STAGED..=MOST_STAGED).contains(&decoder.left())
        || record.len() > MOST_STAGED_BYTES
    {
        return None;
    }
    let mut staged = Staged::begin(&open(), record.len(), decoder.left(), full_bytes)?;
    for (table, op) in decoder {
        // Runs are attached by another path: see `apply_spilled`.
        let (key, value) = change(op)?;
        staged.push(table, key, value);
    }
    staged.search();
    Some(staged)
}

/// Returns whether `staged` has the changes of `record`, as they are now.
pub(crate) fn is_staged_as(record: &[u8], staged: &Staged) -> bool {
    let changes = Decoder::begin(record).into_iter().flatten();
    staged.is_of(changes.filter_map(|(table, op)| change(op).map(|(key, value)| (table, key, value))))
}

/// Applies an operation that is followed by a range delete in the same table, and all following range deletes, which
/// are cheaper together. Returns the next operation.
#[cold]
fn apply_ranges<'a>(
    first: Op<'a>,
    (table, ts): (TableId, CommitTs),
    mut ahead: Option<(TableId, Op<'a>)>,
    decoder: &mut Decoder<'a>,
    writer: &mut Writer,
) -> Option<(TableId, Op<'a>)> {
    let mut spans = Vec::new();
    match first {
        Op::DeleteRange { start, end } => spans.push((start, end)),
        other => writer.apply(ts, table, other),
    }
    while let Some((_, Op::DeleteRange { start, end })) = ahead.filter(|(of, _)| *of == table) {
        spans.push((start, end));
        ahead = decoder.next();
    }
    writer.delete_ranges(table, &spans, ts);
    ahead
}

#[cold]
fn no_record() -> Error {
    Error::corruption("its checksum is correct, but it is not a commit record")
}

/// A key and its new state.
type Change<'a> = (&'a [u8], Value<'a>);

#[inline]
fn change(op: Op<'_>) -> Option<Change<'_>> {
    match op {
        Op::Put { key, value } => Some((key, Value::Inline(value))),
        Op::PutLarge { key, large } => Some((key, Value::Large(large))),
        Op::Delete { key } => Some((key, Value::Deleted)),
        Op::DeleteRange { .. } | Op::Attach { .. } => None,
    }
}

/// The adjacent puts and deletes in one table, with strictly ascending keys.
struct Piece<'a> {
    table: TableId,
    last: &'a [u8],
    first: Option<Change<'a>>,
    /// The next operation, if it was decoded: the one after `first`, or the one that ends the piece.
    ahead: Option<(TableId, Op<'a>)>,
    decoder: Decoder<'a>,
    is_over: bool,
}

impl<'a> Iterator for Piece<'a> {
    type Item = Change<'a>;

    #[inline]
    fn next(&mut self) -> Option<Change<'a>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.is_over {
            return None;
        }
        let ahead = self.ahead.take().or_else(|| self.decoder.next());
        if let Some((table, op)) = ahead
            && table == self.table
            && let Some(next) = change(op)
            && self.last < next.0
        {
            self.last = next.0;
            return Some(next);
        }
        (self.ahead, self.is_over) = (ahead, true);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::steps::encode;
    use crate::uncommitted::write_set::Prior;
    use base::op::Encoder;

    #[test]
    fn a_record_with_range_deletes_is_not_staged() {
        let (memtable, _writer) = Memtable::new();
        let stage = |writes: &mut WriteSet| {
            let (mut record, mut is_asked) = (Vec::new(), false);
            encode(writes, None, false, &mut record);
            let staged = stage_record(&record, writes, usize::MAX, || {
                is_asked = true;
                Arc::clone(&memtable)
            });
            (staged.is_some(), is_asked)
        };
        let mut writes = WriteSet::new();
        (0..100_u8).for_each(|n| writes.put(TableId(16), &[n], b"", Prior::Unread));
        assert_eq!(stage(&mut writes), (true, true));
        writes.delete_range(TableId(17), b"a", Some(b"b"));
        assert_eq!(stage(&mut writes), (false, false));
    }

    #[test]
    fn descending_keys_and_a_cut_record() {
        let (memtable, mut writer) = Memtable::new();
        let table = TableId(16);
        let mut record = Vec::new();
        let mut encoder = Encoder::begin(&mut record, CommitTs(1), 4);
        for key in [&b"b"[..], b"c", b"a", b"a"] {
            encoder.push(table, Op::Put { key, value: key });
        }
        assert_eq!(apply_record(&record, &mut writer).unwrap(), CommitTs(1));
        for key in [&b"a"[..], b"b", b"c"] {
            assert_eq!(memtable.get(table, key, CommitTs(1)), Some(Value::Inline(key)));
        }
        for cut in 0..record.len() {
            let (_, mut writer) = Memtable::new();
            assert!(apply_record(&record[..cut], &mut writer).is_err(), "cut at {cut}");
        }
    }
}
