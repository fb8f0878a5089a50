//! Records as SQLite stores them, read and written: a header of varints that give each field's type and length, then
//! the fields
//! (<https://www.sqlite.org/fileformat2.html#record_format>).

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'r> {
    /// `NULL`.
    Null,
    /// An integer.
    Integer(i64),
    /// A float.
    Real(f64),
    /// Text. SQLite does not check that it is UTF-8.
    Text(&'r [u8]),
    /// Bytes.
    Blob(&'r [u8]),
}

/// The bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Returns the fields of a record.
pub fn fields(record: &[u8]) -> Result<Fields<'_>, Malformed> {
    let (header_bytes, start) = varint(record).ok_or(Malformed)?;
    let header_bytes = usize::try_from(header_bytes).map_err(|_| Malformed)?;
    if header_bytes < start || header_bytes > record.len() {
        return Err(Malformed);
    }
    Ok(Fields { types: &record[start..header_bytes], body: &record[header_bytes..] })
}

/// The fields of a record that are still to come.
#[derive(Debug)]
pub struct Fields<'r> {
    types: &'r [u8],
    body: &'r [u8],
}

impl<'r> Iterator for Fields<'r> {
    type Item = Result<Field<'r>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.types.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_none() {
            self.types = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

impl<'r> Fields<'r> {
    fn read(&mut self) -> Option<Field<'r>> {
        let (kind, read) = varint(self.types)?;
        self.types = &self.types[read..];
        Some(match kind {
            0 => Field::Null,
            1..=4 => Field::Integer(self.integer(kind as usize)?),
            5 => Field::Integer(self.integer(6)?),
            6 => Field::Integer(self.integer(8)?),
            7 => Field::Real(f64::from_bits(self.integer(8)? as u64)),
            8 => Field::Integer(0),
            9 => Field::Integer(1),
            10 | 11 => return None,
            _ if kind % 2 == 0 => Field::Blob(self.take((kind - 12) / 2)?),
            _ => Field::Text(self.take((kind - 13) / 2)?),
        })
    }

    /// Reads a signed integer, highest byte first.
    fn integer(&mut self, bytes: usize) -> Option<i64> {
        let taken = self.take(bytes as u64)?;
        let sign = if taken[0] & 0x80 == 0 { 0 } else { -1 };
        Some(taken.iter().fold(sign, |value: i64, &byte| value << 8 | i64::from(byte)))
    }

    fn take(&mut self, bytes: u64) -> Option<&'r [u8]> {
        let (taken, rest) = self.body.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.body = rest;
        Some(taken)
    }
}

/// Appends the record of these fields, byte for byte as SQLite writes it.
///
/// ```
/// use pando_sqlite_format::record::{Field, fields, push};
/// let mut record = Vec::new();
/// push(&mut record, &[Field::Integer(300), Field::Text(b"ab")]);
/// assert_eq!(record, [3, 2, 17, 1, 44, b'a', b'b']);
/// assert_eq!(fields(&record).unwrap().count(), 2);
/// ```
pub fn push(out: &mut Vec<u8>, fields: &[Field<'_>]) {
    let types_bytes: usize = fields.iter().map(|field| varint_bytes(type_of(field))).sum();
    // The header's length counts itself, which can make it longer by a byte.
    let guess = types_bytes + varint_bytes(types_bytes as u64);
    let header_bytes = types_bytes + varint_bytes(guess as u64);
    push_varint(out, header_bytes as u64);
    fields.iter().for_each(|field| push_varint(out, type_of(field)));
    for field in fields {
        match *field {
            Field::Null => {}
            Field::Real(value) if value.is_nan() => {}
            Field::Real(value) => out.extend_from_slice(&value.to_be_bytes()),
            Field::Integer(value) => {
                let bytes = INTEGER_BYTES[type_of(field) as usize];
                out.extend_from_slice(&value.to_be_bytes()[8 - bytes..]);
            }
            Field::Text(bytes) | Field::Blob(bytes) => out.extend_from_slice(bytes),
        }
    }
}

/// The lengths of integers by their type.
const INTEGER_BYTES: [usize; 10] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];

/// Returns the type of a field: the smallest that holds it. SQLite has no NaN, and stores a null instead.
fn type_of(field: &Field<'_>) -> u64 {
    match *field {
        Field::Null => 0,
        Field::Integer(value @ (0 | 1)) => 8 + value as u64,
        Field::Integer(value) => match if value < 0 { !value } else { value } {
            ..0x80 => 1,
            0x80..0x8000 => 2,
            0x8000..0x80_0000 => 3,
            0x80_0000..0x8000_0000 => 4,
            0x8000_0000..0x8000_0000_0000 => 5,
            _ => 6,
        },
        Field::Real(value) if value.is_nan() => 0,
        Field::Real(_) => 7,
        Field::Blob(bytes) => 12 + 2 * bytes.len() as u64,
        Field::Text(bytes) => 13 + 2 * bytes.len() as u64,
    }
}

/// Returns the length of a varint. The length of what is in memory never needs the ninth byte.
fn varint_bytes(value: u64) -> usize {
    (1..=8).find(|bytes| value >> (7 * bytes) == 0).expect("it is the length of something in memory")
}

fn push_varint(out: &mut Vec<u8>, value: u64) {
    for at in (0..varint_bytes(value)).rev() {
        let more = if at > 0 { 0x80 } else { 0 };
        out.push((value >> (7 * at)) as u8 & 0x7f | more);
    }
}

/// Reads a varint, and returns it with its length: 7 bits in each of eight bytes, all 8 in the ninth.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    Some((value << 8 | u64::from(*bytes.get(8)?), 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NULL, 1, -2, 2.5, 'ab', x'00ff', 0, and 2^40, as SQLite writes them.
    const RECORD: &[u8] =
        b"\x09\x00\x09\x01\x07\x11\x10\x08\x05\xfe\x40\x04\0\0\0\0\0\0ab\x00\xff\x01\0\0\0\0\0";

    #[test]
    fn fields_are_decoded() {
        let decoded: Result<Vec<_>, _> = fields(RECORD).expect("it has a header").collect();
        let expected = [
            Field::Null,
            Field::Integer(1),
            Field::Integer(-2),
            Field::Real(2.5),
            Field::Text(b"ab"),
            Field::Blob(b"\x00\xff"),
            Field::Integer(0),
            Field::Integer(1 << 40),
        ];
        assert_eq!(decoded.expect("it is whole"), expected);
        let mut encoded = Vec::new();
        push(&mut encoded, &expected);
        assert_eq!(encoded, RECORD);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let edges = [7, 15, 23, 31, 47, 63].map(|bits| (1_u64 << bits) as i64);
        let integers: Vec<_> = edges.iter().flat_map(|&edge| [edge.wrapping_sub(1), edge, !edge]).collect();
        let texts = [0, 1, 57, 58, 8185, 8186, 1 << 20].map(|length| vec![b'x'; length]);
        // From 127 fields on, the header's length has two bytes.
        for count in [0, 1, 126, 127, 128, 16_381, 16_382, 16_383] {
            let mut written: Vec<_> = (0..count).map(|at| Field::Integer(at % 2)).collect();
            written.extend(integers.iter().map(|&value| Field::Integer(value)));
            written.extend(texts.iter().map(|text| Field::Text(text)));
            written.extend(texts.iter().map(|text| Field::Blob(text)));
            let mut record = Vec::new();
            push(&mut record, &written);
            let read: Result<Vec<_>, _> = fields(&record).expect("it has a header").collect();
            assert!(read.expect("it is whole") == written, "{count}");
        }
    }

    #[test]
    fn a_nan_is_a_null() {
        let mut record = Vec::new();
        push(&mut record, &[Field::Real(f64::NAN)]);
        assert_eq!(record, [2, 0]);
    }

    #[test]
    fn a_malformed_record_is_an_error_and_never_a_panic() {
        fn read(record: &[u8]) -> Result<Vec<Field<'_>>, Malformed> {
            fields(record)?.collect()
        }
        for len in 0..RECORD.len() {
            assert_eq!(read(&RECORD[..len]), Err(Malformed), "cut at {len}");
        }
        for at in 0..9 {
            for byte in 0..=255 {
                let mut record = RECORD.to_vec();
                record[at] = byte;
                // Most are errors, and some are other records.
                let _ = read(&record);
            }
        }
        assert_eq!(read(b"\x02\x0a"), Err(Malformed), "type 10 is reserved");
    }
}
