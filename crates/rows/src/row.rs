//! Rows as values of records: the columns that the key does not contain, compact, and readable with every later schema.
//!
//! | bytes | field |
//! |---|---|
//! | varint | the schema's version when it was written |
//! | 1 for each 8 columns that may be null | bit set: null; the first such column is the lowest bit |
//! | then, in the order of the columns, each that is not null | |
//! | varint | int, timestamp: zigzag; uint: as it is |
//! | 8 | float, little-endian |
//! | 1 | bool |
//! | 16 | uuid |
//! | varint, bytes | text, bytes, json |
//! | 1, then as above | any: the type's number in [`ColumnType::ALL`] first |
//!
//! Columns that can be decoded from the key are left out. The schema records which columns a version had, so a new
//! column costs old rows nothing: they lack it, and it reads as its default.

use crate::columns::Columns;
use crate::value::{ColumnType, Value};
use base::codec::{Reader, Writer};
use std::borrow::Cow;

/// One stored column of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub kind: ColumnType,
    /// The bit that marks a null; `None`: the column is never null.
    null_bit: Option<usize>,
    /// The place of the column in rows of the present schema; `None`: it was dropped.
    place: Option<usize>,
}

/// The columns that rows of one version store, in their order.
#[derive(Debug)]
pub(crate) struct Layout {
    columns: Vec<Stored>,
    null_bytes: usize,
    /// For each place of the present schema, the number of the stored column there.
    by_place: Vec<Option<usize>>,
}

impl Layout {
    /// Creates the layout of columns with their type, whether they may be null, and their place in rows of the present
    /// schema.
    pub fn new(columns: impl IntoIterator<Item = (ColumnType, bool, Option<usize>)>) -> Self {
        let (mut bits, mut by_place) = (0, Vec::new());
        let columns = columns.into_iter().enumerate().map(|(at, (kind, nullable, place))| {
            let null_bit = nullable.then_some(bits);
            bits += usize::from(nullable);
            if let Some(place) = place {
                by_place.resize(by_place.len().max(place + 1), None);
                by_place[place] = Some(at);
            }
            Stored { kind, null_bit, place }
        });
        Layout { columns: columns.collect(), null_bytes: bits.div_ceil(8), by_place }
    }

    /// Returns the number of the stored column at a place; `None`: its value is in the key, or the version lacks the
    /// column.
    #[inline]
    pub fn at(&self, place: usize) -> Option<usize> {
        self.by_place.get(place).copied().flatten()
    }

    /// Returns the value of the column numbered `at` of a row of this version. It skips the columns before it, and
    /// stores the start of each in `starts`, which must be empty for a new row; the next call for the same row
    /// continues from there. Returns `None` if the bytes are not such a row.
    #[inline]
    pub fn value<'a>(&self, row: &'a [u8], at: usize, starts: &mut Vec<usize>) -> Option<Value<'a>> {
        let start = self.start(row, at, starts)?;
        if start & NULL != 0 {
            return Some(Value::Null);
        }
        read_value(&mut Reader::new(row.get(start..)?), self.columns[at].kind)
    }

    /// Returns the integer in the column numbered `at` of a row of this version. Returns `None` if the value is null or
    /// no integer, or if the bytes are not such a row: then call [`Layout::value`]. For `starts` see there.
    #[inline]
    pub fn integer(&self, row: &[u8], at: usize, starts: &mut Vec<usize>) -> Option<i64> {
        if self.columns[at].kind != ColumnType::Int {
            return None;
        }
        // The start of a null includes its mark, so it is after the end of every row.
        varint_at(row, self.start(row, at, starts)?).map(|(value, _)| from_zigzag(value))
    }

    /// Returns the start of the column numbered `at`; if the column is null, the place where it would start, with
    /// [`NULL`].
    #[inline]
    fn start(&self, row: &[u8], at: usize, starts: &mut Vec<usize>) -> Option<usize> {
        match starts.get(at) {
            Some(start) => Some(*start),
            None => self.walk(row, at, starts),
        }
    }

    /// Continues from the last of `starts` to the column numbered `to`, and returns its start.
    fn walk(&self, row: &[u8], to: usize, starts: &mut Vec<usize>) -> Option<usize> {
        let first = match starts.first() {
            Some(first) => first & !NULL,
            None => varint_at(row, 0)?.1 + self.null_bytes,
        };
        let bits = row.get(first - self.null_bytes..first)?;
        let mark = |column: &Stored| if column.is_null(bits) { NULL } else { 0 };
        if starts.is_empty() {
            starts.push(first | mark(self.columns.first()?));
        }
        let mut start = *starts.last()?;
        for pair in self.columns.get(starts.len() - 1..=to)?.windows(2) {
            let end = if start & NULL != 0 { start & !NULL } else { pair[0].end(row, start)? };
            start = end | mark(&pair[1]);
            starts.push(start);
        }
        Some(start)
    }
}

/// The mark, in the start of a column, that the column is null. No row is so long.
const NULL: usize = 1 << (usize::BITS - 1);

/// Returns the varint at `at` and its end. It does the same as [`Reader::varint`], which is made for numbers of one
/// byte.
#[inline]
fn varint_at(row: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *row.get(at)?;
    if first < 0x80 {
        return Some((u64::from(first), at + 1));
    }
    let second = *row.get(at + 1)?;
    if second < 0x80 {
        // A last byte of zero is a longer form of another number.
        return (second != 0).then_some((u64::from(second) << 7 | u64::from(first & 0x7f), at + 2));
    }
    long_varint_at(row, at)
}

/// Reads a varint of up to eight bytes at once, if the row is long enough.
fn long_varint_at(row: &[u8], at: usize) -> Option<(u64, usize)> {
    let word = row.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_le_bytes(*bytes));
    let Some(word) = word else { return varint_near_the_end(row, at) };
    let last = !word & 0x8080_8080_8080_8080;
    if last == 0 {
        return varint_near_the_end(row, at);
    }
    let len = (last.trailing_zeros() / 8) as usize + 1;
    if word >> (8 * (len - 1)) & 0xff == 0 {
        return None;
    }
    let mut bits = word & (u64::MAX >> (64 - 8 * len)) & 0x7f7f_7f7f_7f7f_7f7f;
    bits = (bits & 0x7f00_7f00_7f00_7f00) >> 1 | bits & 0x007f_007f_007f_007f;
    bits = (bits & 0x3fff_0000_3fff_0000) >> 2 | bits & 0x0000_3fff_0000_3fff;
    bits = (bits & 0x0fff_ffff_0000_0000) >> 4 | bits & 0x0000_0000_0fff_ffff;
    Some((bits, at + len))
}

#[cold]
fn varint_near_the_end(row: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut reader = Reader::new(row.get(at..)?);
    reader.varint().map(|value| (value, row.len() - reader.rest().len()))
}

impl Stored {
    /// Returns whether `bits`, those of its row, mark the column as null.
    #[inline]
    fn is_null(&self, bits: &[u8]) -> bool {
        self.null_bit.is_some_and(|bit| bits[bit / 8] >> (bit % 8) & 1 == 1)
    }

    /// Returns the end of a value of this column that is not null and begins at `start`. It does not validate the
    /// contents.
    #[inline]
    fn end(&self, row: &[u8], start: usize) -> Option<usize> {
        let end = match self.kind {
            ColumnType::Int | ColumnType::Timestamp | ColumnType::UInt => varint_at(row, start)?.1,
            ColumnType::Text | ColumnType::Json | ColumnType::Bytes => {
                let (len, at) = varint_at(row, start)?;
                at.checked_add(usize::try_from(len).ok()?)?
            }
            kind => {
                let mut reader = Reader::new(row.get(start..)?);
                pass_over(&mut reader, kind)?;
                row.len() - reader.rest().len()
            }
        };
        (end <= row.len()).then_some(end)
    }
}

/// Appends the columns of `layout` of a row whose values have been checked.
pub(crate) fn encode(out: &mut Vec<u8>, version: u32, layout: &Layout, row: &(impl Columns + ?Sized)) {
    out.put_varint(u64::from(version));
    let bits_at = out.len();
    out.resize(bits_at + layout.null_bytes, 0);
    for column in &layout.columns {
        let place = column.place.expect("a row is written by the present schema");
        row.look_at(place, |value| match (value, column.null_bit) {
            (Value::Null, Some(bit)) => out[bits_at + bit / 8] |= 1 << (bit % 8),
            (Value::Null, None) => {}
            (value, _) => push_value(out, column.kind, value),
        });
    }
}

/// Returns the version of the schema with which a row was written.
#[inline]
pub(crate) fn version_of(row: &[u8]) -> Option<u32> {
    u32::try_from(Reader::new(row).varint()?).ok()
}

/// Reads a whole row of the version of `layout`, and passes on the values of the columns that still exist. Returns
/// `None` if the bytes are not such a row.
#[inline]
pub(crate) fn decode<'a>(
    row: &'a [u8],
    layout: &Layout,
    mut found: impl FnMut(usize, Value<'a>),
) -> Option<()> {
    let mut reader = Reader::new(row);
    reader.varint()?;
    let bits = reader.take(layout.null_bytes)?;
    for column in &layout.columns {
        match (column.is_null(bits), column.place) {
            (true, Some(place)) => found(place, Value::Null),
            (false, Some(place)) => found(place, read_value(&mut reader, column.kind)?),
            (true, None) => {}
            (false, None) => pass_over(&mut reader, column.kind)?,
        }
    }
    reader.is_empty().then_some(())
}

/// Appends a value, not null, of a column of type `kind`.
#[inline]
pub(crate) fn push_value(out: &mut Vec<u8>, kind: ColumnType, value: &Value<'_>) {
    if kind == ColumnType::Any {
        let own = value.column_type().expect("not null");
        out.push(number_of(own));
    }
    match value {
        Value::Null => {}
        Value::Text(text) | Value::Json(text) => out.put_bytes(text.as_bytes()),
        Value::Bytes(value) => out.put_bytes(value),
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Int(value) | Value::Timestamp(value) => {
            out.put_varint((*value as u64) << 1 ^ (*value >> 63) as u64);
        }
        Value::UInt(value) => out.put_varint(*value),
        Value::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Uuid(value) => out.extend_from_slice(value),
    }
}

/// Returns the number of a type on disk.
pub(crate) fn number_of(kind: ColumnType) -> u8 {
    ColumnType::ALL.iter().position(|known| *known == kind).expect("ALL has all") as u8
}

#[inline]
fn from_zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads a value, not null, of a column of type `kind`. Returns `None` if the bytes are missing or invalid.
#[inline]
pub(crate) fn read_value<'a>(reader: &mut Reader<'a>, kind: ColumnType) -> Option<Value<'a>> {
    let kind = if kind == ColumnType::Any { own_type(reader)? } else { kind };
    Some(match kind {
        ColumnType::Any => return None,
        ColumnType::Bool => match reader.u8()? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return None,
        },
        ColumnType::Int => Value::Int(from_zigzag(reader.varint()?)),
        ColumnType::Timestamp => Value::Timestamp(from_zigzag(reader.varint()?)),
        ColumnType::UInt => Value::UInt(reader.varint()?),
        ColumnType::Float => Value::Float(f64::from_le_bytes(reader.array()?)),
        ColumnType::Uuid => Value::Uuid(reader.array()?),
        ColumnType::Bytes => Value::Bytes(Cow::Borrowed(reader.bytes()?)),
        ColumnType::Text => Value::Text(Cow::Borrowed(read_text(reader)?)),
        ColumnType::Json => Value::Json(Cow::Borrowed(read_text(reader)?)),
    })
}

/// Reads the type of a value of an `any` column.
fn own_type(reader: &mut Reader<'_>) -> Option<ColumnType> {
    let own = *ColumnType::ALL.get(usize::from(reader.u8()?))?;
    (!matches!(own, ColumnType::Any | ColumnType::Json)).then_some(own)
}

/// Skips a value, not null, of a column of type `kind`. It does not validate the contents.
#[inline]
fn pass_over(reader: &mut Reader<'_>, kind: ColumnType) -> Option<()> {
    let kind = if kind == ColumnType::Any { own_type(reader)? } else { kind };
    match kind {
        ColumnType::Any => None,
        ColumnType::Text | ColumnType::Json | ColumnType::Bytes => reader.bytes().map(drop),
        ColumnType::Int | ColumnType::Timestamp | ColumnType::UInt => reader.varint().map(drop),
        ColumnType::Float => reader.take(8).map(drop),
        ColumnType::Bool => reader.take(1).map(drop),
        ColumnType::Uuid => reader.take(16).map(drop),
    }
}

/// Reads a length and that number of bytes of UTF-8.
pub(crate) fn read_text<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    std::str::from_utf8(reader.bytes()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(kinds: &[(ColumnType, bool)]) -> Layout {
        Layout::new(kinds.iter().enumerate().map(|(at, &(kind, nullable))| (kind, nullable, Some(at))))
    }

    proptest! {
        #[test]
        fn rows_come_back(version: u32, int: i64, uint: u64, float: f64, text: String, bytes: Vec<u8>,
                          uuid: [u8; 16], flags: [bool; 3], asked: [usize; 6]) {
            let values = [
                Value::Int(int), Value::from(flags[0].then_some(uint)), Value::Float(float),
                Value::from(flags[1].then(|| text.clone())), Value::from(bytes), Value::Uuid(uuid),
                Value::Bool(flags[2]), Value::Timestamp(int), Value::from(text),
            ];
            let columns = layout(&[
                (ColumnType::Int, false), (ColumnType::UInt, true), (ColumnType::Float, false),
                (ColumnType::Text, true), (ColumnType::Any, true), (ColumnType::Uuid, true),
                (ColumnType::Bool, false), (ColumnType::Timestamp, true), (ColumnType::Any, false),
            ]);
            let mut row = Vec::new();
            encode(&mut row, version, &columns, &values);
            prop_assert_eq!(version_of(&row), Some(version));
            let mut back = vec![None; values.len()];
            decode(&row, &columns, |place, value| back[place] = Some(value)).unwrap();
            // The columns are read one by one in any order: earlier skips must not matter.
            let mut starts = Vec::new();
            for one in asked {
                let place = one % values.len();
                let value = columns.value(&row, columns.at(place).unwrap(), &mut starts);
                prop_assert_eq!(value.as_ref(), Some(&values[place]));
                let integer = columns.integer(&row, columns.at(place).unwrap(), &mut starts);
                prop_assert_eq!(integer, (place == 0).then_some(int));
            }
            for (back, value) in back.iter().zip(&values) {
                prop_assert_eq!(back.as_ref(), Some(value));
                prop_assert_eq!(back.as_ref().unwrap().column_type(), value.column_type());
            }
            for cut in 0..row.len() {
                let short = decode(&row[..cut], &columns, |_, _| ());
                prop_assert!(short.is_none());
            }
        }

        #[test]
        fn varints_are_read_as_the_codec_does(values: Vec<u64>, noise: Vec<u8>, bits in 0..64u32) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| bytes.put_varint(value >> bits));
            bytes.extend_from_slice(&noise);
            for at in 0..=bytes.len() {
                let mut reader = Reader::new(&bytes[at..]);
                let wanted = reader.varint().map(|value| (value, bytes.len() - reader.rest().len()));
                prop_assert_eq!(varint_at(&bytes, at), wanted);
            }
        }

        #[test]
        fn no_bytes_panic(row: Vec<u8>, kinds: Vec<(u8, bool)>) {
            let kind = |&(k, n): &(u8, bool)| (ColumnType::ALL[usize::from(k) % 10], n);
            let kinds: Vec<_> = kinds.iter().map(kind).collect();
            let layout = layout(&kinds);
            decode(&row, &layout, |_, _| {});
            let mut starts = Vec::new();
            for at in (0..kinds.len()).rev().chain(0..kinds.len()) {
                layout.value(&row, at, &mut starts);
                layout.integer(&row, at, &mut starts);
            }
        }
    }
}
