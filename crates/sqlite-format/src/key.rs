//! Keys of indexes: bytes whose order is the order that SQLite gives to records.
//!
//! A key is the concatenation of its fields, and each field tells by itself where it ends. So the key of some first
//! fields is a prefix of the keys of exactly those records that have the same values there.
//!
//! | value | bytes |
//! |---|---|
//! | `NULL` | 1 |
//! | number | 2, the nearest float with its bits in ascending order, and from 2^53 on the distance to the integer |
//! | text | 3, its bytes as the collation compares them, an end |
//! | blob | 4, its bytes, an end |
//!
//! A descending field has all its bits inverted. The original record is kept beside the key, because the key forgets
//! what does not matter in comparisons: whether a number is an integer, letters' case, spaces at the end.
//!
//! *Numbers*: an integer is rounded to the nearest float. Rounding keeps the order, and of the integers that round to
//! the same float, the distance (at most 1,024 in either direction) decides. A float has distance 0. SQLite compares
//! integers with floats exactly, too.
//!
//! *Ends*: in text and blobs a zero byte becomes 0 255, and the end is 0 0, so that "a" comes before "a\0".
//!
//! *Long keys* are cut: stored are their first [`CUT_BYTES`], and the SHA-256 of the whole key. So stored keys have the
//! order of whole keys, except among those that are cut and begin in the same way: a group, which is read as a whole
//! and sorted by what its records say. The digest keeps the keys of a group apart; it has no order. A key that is not
//! cut is shorter than one that is.

use crate::record::{self, Field};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// The length of a key that is cut: the longest that the smallest pages take, so that the keys of a database do not
/// depend on its pages.
const MOST_BYTES: usize = base::limits::max_key_bytes(base::limits::MIN_PAGE_BYTES);
/// The longest key that is not cut.
pub const CUT_BYTES: usize = MOST_BYTES - 32;
const _: () = assert!(CUT_BYTES == 896, "a change of it makes the long keys of old databases unreadable");

/// Returns the key by which an entry is stored.
#[inline]
pub fn stored(key: &[u8]) -> Cow<'_, [u8]> {
    if key.len() <= CUT_BYTES { Cow::Borrowed(key) } else { Cow::Owned(cut(key)) }
}

#[cold]
fn cut(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(MOST_BYTES);
    stored.extend_from_slice(&key[..CUT_BYTES]);
    stored.extend_from_slice(&Sha256::digest(key));
    stored
}

/// Returns whether a stored key of this length is cut.
#[inline]
pub fn is_cut(stored_bytes: usize) -> bool {
    stored_bytes > CUT_BYTES
}

/// How SQLite compares texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// By their bytes: `BINARY`.
    Binary,
    /// With A to Z equal to a to z: `NOCASE`.
    NoCase,
    /// Without spaces at the end: `RTRIM`.
    RTrim,
}

impl Collation {
    /// Returns the collation of this name, regardless of case. `None`: it is one of a program's own.
    pub fn of_name(name: &str) -> Option<Collation> {
        let known =
            [("BINARY", Collation::Binary), ("NOCASE", Collation::NoCase), ("RTRIM", Collation::RTrim)];
        known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, collation)| collation)
    }
}

/// The order of one field of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// How texts are compared.
    pub collation: Collation,
    /// Whether the largest value comes first.
    pub descending: bool,
}

impl Order {
    /// Ascending, with texts compared by their bytes.
    pub const ASCENDING: Order = Order { collation: Collation::Binary, descending: false };
}

/// The order of an index.
#[derive(Clone, Debug)]
pub struct Shape {
    orders: Vec<Order>,
    /// How many fields the key has. `None`: all of the record, and those without an order are ascending. The columns
    /// of a `WITHOUT ROWID` table outside of its primary key are not part of the key.
    key_fields: Option<usize>,
}

impl Shape {
    /// Creates the order of records whose first fields have these orders. `key_fields` is how many fields belong to
    /// the key; `None`: all.
    pub fn new(orders: impl IntoIterator<Item = Order>, key_fields: Option<usize>) -> Shape {
        Shape { orders: orders.into_iter().collect(), key_fields }
    }

    /// Returns whether this is the order that [`Shape::new`] makes of these.
    ///
    /// ```
    /// use pando_sqlite_format::key::{Order, Shape};
    /// let descending = Order { descending: true, ..Order::ASCENDING };
    /// let shape = Shape::new([Order::ASCENDING, descending], Some(1));
    /// assert!(shape.is_of([Order::ASCENDING, descending], Some(1)));
    /// assert!(!shape.is_of([Order::ASCENDING, descending], None));
    /// assert!(!shape.is_of([descending, Order::ASCENDING], Some(1)));
    /// assert!(!shape.is_of([Order::ASCENDING], Some(1)));
    /// ```
    pub fn is_of(&self, orders: impl IntoIterator<Item = Order>, key_fields: Option<usize>) -> bool {
        self.key_fields == key_fields && orders.into_iter().eq(self.orders.iter().copied())
    }

    /// Returns whether the key has a field `at`.
    pub fn has(&self, at: usize) -> bool {
        self.key_fields.is_none_or(|count| at < count)
    }

    /// Returns whether no two records have the same first `count` fields. All columns of an index contain the rowid or
    /// the primary key.
    pub fn is_whole(&self, count: usize) -> bool {
        count >= self.key_fields.unwrap_or(self.orders.len())
    }

    /// Appends field `at` in its order.
    pub fn push(&self, key: &mut Vec<u8>, at: usize, field: &Field<'_>) {
        let order = self.orders.get(at).copied().unwrap_or(Order::ASCENDING);
        let start = key.len();
        push_field(key, field, order.collation);
        if order.descending {
            key[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Writes the fields of a record that are not part of the key, in their order.
    pub fn rest_of(&self, record: &[u8], rest: &mut Vec<u8>) -> Result<(), record::Malformed> {
        for (at, field) in record::fields(record)?.enumerate().skip_while(|&(at, _)| self.has(at)) {
            self.push(rest, at, &field?);
        }
        Ok(())
    }

    /// Writes the key of a record.
    pub fn key_of(&self, record: &[u8], key: &mut Vec<u8>) -> Result<(), record::Malformed> {
        key.clear();
        for (at, field) in record::fields(record)?.enumerate().take_while(|&(at, _)| self.has(at)) {
            self.push(key, at, &field?);
        }
        Ok(())
    }
}

const NULL: u8 = 1;
const NUMBER: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// The magnitude from which on not every integer is a float: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn push_field(key: &mut Vec<u8>, field: &Field<'_>, collation: Collation) {
    match *field {
        Field::Null => key.push(NULL),
        Field::Integer(value) => push_number(key, value as f64, i128::from(value)),
        Field::Real(value) if value.is_nan() => key.push(NULL),
        Field::Real(value) => push_number(key, value, value as i128),
        Field::Blob(bytes) => {
            key.push(BLOB);
            push_escaped(key, bytes);
        }
        Field::Text(text) => {
            key.push(TEXT);
            match collation {
                Collation::Binary => push_escaped(key, text),
                Collation::RTrim => push_escaped(key, text.trim_ascii_end_spaces()),
                Collation::NoCase => push_folded(key, text),
            }
        }
    }
}

/// Appends a number: the nearest float, and from 2^53 on how far `whole`, its integer, is from it.
fn push_number(key: &mut Vec<u8>, nearest: f64, whole: i128) {
    // 0.0 and -0.0 are equal.
    let nearest = if nearest == 0.0 { 0.0 } else { nearest };
    let bits = nearest.to_bits();
    // Negative floats are in descending order of their bits.
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    key.push(NUMBER);
    key.extend_from_slice(&ordered.to_be_bytes());
    if nearest.abs() >= EXACT {
        // Beyond the range of integers of 64 bits there are only floats.
        let distance = if nearest.abs() > 9.3e18 { 0 } else { whole - nearest as i128 };
        let distance = i16::try_from(distance).expect("a float of 64 bits is within 1,024 of its integer");
        key.extend_from_slice(&(distance as u16 ^ 0x8000).to_be_bytes());
    }
}

fn push_escaped(key: &mut Vec<u8>, bytes: &[u8]) {
    key.reserve(bytes.len() + 2);
    for piece in bytes.split_inclusive(|&byte| byte == 0) {
        key.extend_from_slice(piece);
        if piece.last() == Some(&0) {
            key.push(255);
        }
    }
    key.extend_from_slice(&[0, 0]);
}

/// Appends text as `NOCASE` compares it: letters of ASCII in lower case up to the first zero byte, then the length.
/// Without a zero byte the length decides nothing, and 0 stands for it.
fn push_folded(key: &mut Vec<u8>, text: &[u8]) {
    let end = text.iter().position(|&byte| byte == 0);
    let start = key.len();
    key.extend_from_slice(&text[..end.unwrap_or(text.len())]);
    key[start..].make_ascii_lowercase();
    key.push(0);
    match end {
        None => key.push(0),
        Some(_) => {
            key.push(1);
            key.extend_from_slice(&(text.len() as u64).to_be_bytes());
        }
    }
}

/// The end of a text without the spaces there.
trait TrimSpaces {
    fn trim_ascii_end_spaces(&self) -> &[u8];
}

impl TrimSpaces for [u8] {
    fn trim_ascii_end_spaces(&self) -> &[u8] {
        let end = self.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
        &self[..end]
    }
}

/// The most bytes of a text or a blob that a message shows.
const SHOWN_BYTES: usize = 48;

/// Returns the values of a key for a message, as far as the key alone tells them: `('a', 5)`.
pub fn shown(key: &[u8]) -> String {
    let mut values = Vec::new();
    let mut rest = key;
    while let Some((value, after)) = next_shown(rest) {
        values.push(value);
        rest = after;
    }
    let more = if rest.is_empty() { "" } else { ", ..." };
    format!("({}{more})", values.join(", "))
}

/// Returns the first value of a key, and what comes after it. A descending field has its tag inverted, too.
fn next_shown(key: &[u8]) -> Option<(String, &[u8])> {
    let mask = if *key.first()? > 127 { 255 } else { 0 };
    let body = &key[1..];
    match key[0] ^ mask {
        NULL => Some(("NULL".into(), body)),
        NUMBER => {
            let (bytes, rest) = body.split_at_checked(8)?;
            let ordered = u64::from_be_bytes(bytes.try_into().ok()?) ^ if mask == 0 { 0 } else { u64::MAX };
            let number = f64::from_bits(if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered });
            if number.abs() < EXACT {
                return Some((number.to_string(), rest));
            }
            let (bytes, rest) = rest.split_at_checked(2)?;
            let distance = u16::from_be_bytes(bytes.try_into().ok()?) ^ if mask == 0 { 0 } else { u16::MAX };
            Some(((number as i128 + i128::from((distance ^ 0x8000) as i16)).to_string(), rest))
        }
        tag @ (TEXT | BLOB) => {
            let end = body.iter().position(|byte| byte ^ mask == 0)?;
            // A zero byte within the value is rare, and nothing after it is shown.
            let rest = body.get(end + 1).filter(|&&byte| byte ^ mask == 0).map(|_| &body[end + 2..])?;
            let bytes: Vec<u8> = body[..end.min(SHOWN_BYTES)].iter().map(|byte| byte ^ mask).collect();
            let dots = if end > SHOWN_BYTES { "..." } else { "" };
            let value = match tag {
                TEXT => format!("'{}{dots}'", String::from_utf8_lossy(&bytes)),
                _ => {
                    format!("x'{}{dots}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
                }
            };
            Some((value, rest))
        }
        _ => None,
    }
}

/// Returns the key of a rowid: its bytes with the sign inverted, in ascending order.
#[inline]
pub fn of_rowid(rowid: i64) -> [u8; 8] {
    ((rowid as u64) ^ (1 << 63)).to_be_bytes()
}

/// Returns the rowid of a key in two pieces, or `None` if the key does not have 8 bytes.
#[inline]
pub fn rowid_of(front: &[u8], rest: &[u8]) -> Option<i64> {
    if front.is_empty() {
        return rest.try_into().ok().map(to_rowid);
    }
    let mut key = [0; 8];
    if front.len() + rest.len() != key.len() {
        return None;
    }
    // Byte by byte takes less time than two calls of `memcpy`.
    for (into, byte) in key.iter_mut().zip(front.iter().chain(rest)) {
        *into = *byte;
    }
    Some(to_rowid(key))
}

/// Returns the rowid of a key of 8 bytes, of which the last `N` are in `rest`, and the others in `front`. `None`:
/// `rest` has another length.
#[inline]
pub fn rowid_with<const N: usize>(front: [u8; 8], rest: &[u8]) -> Option<i64> {
    let rest = rest.first_chunk::<N>().filter(|_| rest.len() == N)?;
    let mut key = front;
    key[8 - N..].copy_from_slice(rest);
    Some(to_rowid(key))
}

/// Returns the rowid of a key.
#[inline]
pub fn to_rowid(key: [u8; 8]) -> i64 {
    (u64::from_be_bytes(key) ^ (1 << 63)) as i64
}
