//! Keys: an encoding of values whose bytes have the order of the values.
//!
//! A key is a sequence of parts, each of which marks its own end. So no key is a prefix of another one of the same
//! shape, and the bytes of some first parts are a prefix of exactly the keys that begin with those values.
//!
//! | part | bytes |
//! |---|---|
//! | int, timestamp | 8, big-endian, the sign bit flipped |
//! | uint | 8, big-endian |
//! | float | 8, big-endian: positive ones with the sign bit set, negative ones inverted; -0.0 as 0.0, NaN as 0xFF... |
//! | bool | 1 |
//! | uuid | 16 |
//! | text, bytes | each 0x00 as 0x00 0xFF, then 0x00 0x00 |
//! | any | a tag: null 0, bool 1, number 2, timestamp 3, text 4, uuid 5, bytes 6; then as above |
//! | number of `any` | the nearest float as above; then the difference to it, 2 bytes, encoded as an int |
//! | nullable part | 0: null; 1: then the value as above |
//! | descending | all bytes of the part inverted |

use crate::definition::Collation;
use crate::value::{ColumnType, Number, Value, from_ordered_bits, ordered_bits};
use pando::{Error, Result};
use std::borrow::Cow;

/// The encoding of one part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub kind: ColumnType,
    /// Whether a byte marks a null. Parts of type `any` have their tag for that.
    pub nullable: bool,
    pub descending: bool,
    pub collation: Collation,
}

impl Shape {
    /// Returns whether the value can be decoded from its part.
    pub fn is_recoverable(self) -> bool {
        self.kind != ColumnType::Any && self.collation == Collation::Binary
    }

    /// Returns the length of every part of this shape in bytes, if it is fixed.
    pub fn width(self) -> Option<usize> {
        match self.kind {
            _ if self.nullable => None,
            ColumnType::Int | ColumnType::Timestamp | ColumnType::UInt | ColumnType::Float => Some(8),
            ColumnType::Bool => Some(1),
            ColumnType::Uuid => Some(16),
            ColumnType::Any | ColumnType::Text | ColumnType::Bytes | ColumnType::Json => None,
        }
    }
}

mod tag {
    pub const NULL: u8 = 0;
    pub const BOOL: u8 = 1;
    pub const NUMBER: u8 = 2;
    pub const TIMESTAMP: u8 = 3;
    pub const TEXT: u8 = 4;
    pub const UUID: u8 = 5;
    pub const BYTES: u8 = 6;
    /// The mark of a part with one type that is not null.
    pub const PRESENT: u8 = 1;
}

/// Appends `value` as a part of `shape`.
///
/// # Errors
/// `Invalid` if the part cannot hold the value.
#[inline]
pub(crate) fn push(out: &mut Vec<u8>, shape: Shape, value: &Value<'_>) -> Result<()> {
    // Most keys take this path.
    if let (Value::Int(value), ColumnType::Int, false, false) =
        (value, shape.kind, shape.nullable, shape.descending)
    {
        out.extend_from_slice(&pando::keys::i64_key(*value));
        return Ok(());
    }
    push_any(out, shape, value)
}

fn push_any(out: &mut Vec<u8>, shape: Shape, value: &Value<'_>) -> Result<()> {
    let start = out.len();
    match value {
        Value::Null if shape.nullable || shape.kind == ColumnType::Any => out.push(tag::NULL),
        Value::Null => return Err(Error::invalid("a value of a key cannot be null")),
        _ if !shape.kind.holds(value) => {
            let (kind, value_kind) = (shape.kind, value.column_type().expect("not null"));
            return Err(Error::invalid(format!("{value} has type {value_kind}, not {kind}")));
        }
        _ if shape.kind == ColumnType::Any => push_tagged(out, value, shape.collation),
        _ => {
            if shape.nullable {
                out.push(tag::PRESENT);
            }
            push_bare(out, value, shape.collation)?;
        }
    }
    if shape.descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

fn push_tagged(out: &mut Vec<u8>, value: &Value<'_>, collation: Collation) {
    let number = |out: &mut Vec<u8>, number: Number| {
        out.push(tag::NUMBER);
        out.extend_from_slice(&number.float_bits.to_be_bytes());
        out.extend_from_slice(&(number.rest as u16 ^ 1 << 15).to_be_bytes());
    };
    let tag = match *value {
        Value::Int(value) => return number(out, Number::from_integer(value.into())),
        Value::UInt(value) => return number(out, Number::from_integer(value.into())),
        Value::Float(value) => return number(out, Number::from_float(value)),
        Value::Null => tag::NULL,
        Value::Bool(_) => tag::BOOL,
        Value::Timestamp(_) => tag::TIMESTAMP,
        Value::Text(_) => tag::TEXT,
        Value::Uuid(_) => tag::UUID,
        Value::Bytes(_) | Value::Json(_) => tag::BYTES,
    };
    out.push(tag);
    push_bare(out, value, collation).expect("documents were refused");
}

fn push_bare(out: &mut Vec<u8>, value: &Value<'_>, collation: Collation) -> Result<()> {
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Int(value) | Value::Timestamp(value) => {
            out.extend_from_slice(&pando::keys::i64_key(*value));
        }
        Value::UInt(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Float(value) => out.extend_from_slice(&ordered_bits(*value).to_be_bytes()),
        Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::Text(text) => pando::keys::push_part(out, collation.apply(text).as_bytes()),
        Value::Bytes(bytes) => pando::keys::push_part(out, bytes),
        Value::Json(_) => {
            return Err(Error::invalid("a JSON document cannot be part of a key; use a path within it"));
        }
    }
    Ok(())
}

/// A decoder of parts from the front of a key. It accepts any bytes, and returns `None` for what is not a part.
pub(crate) struct Parts<'a> {
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    pub fn new(key: &'a [u8]) -> Self {
        Parts { rest: key }
    }

    /// Returns the bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next part, as far as it can be decoded: see [`Shape::is_recoverable`].
    #[inline]
    pub fn next(&mut self, shape: Shape) -> Option<Value<'a>> {
        let mask = if shape.descending { 0xff } else { 0 };
        let tagged = shape.nullable || shape.kind == ColumnType::Any;
        let tag = if tagged { Some(self.array::<1>(mask)?[0]) } else { None };
        let kind = match (shape.kind, tag) {
            (_, Some(tag::NULL)) => return Some(Value::Null),
            (ColumnType::Any, Some(tag)) => match tag {
                tag::BOOL => ColumnType::Bool,
                tag::NUMBER => return self.number(mask),
                tag::TIMESTAMP => ColumnType::Timestamp,
                tag::TEXT => ColumnType::Text,
                tag::UUID => ColumnType::Uuid,
                tag::BYTES => ColumnType::Bytes,
                _ => return None,
            },
            (kind, None | Some(tag::PRESENT)) => kind,
            _ => return None,
        };
        self.bare(kind, mask)
    }

    /// Reads the next part if it is an integer, ascending and not null. `None`: call [`Parts::next`].
    #[inline]
    pub fn integer(&mut self, shape: Shape) -> Option<i64> {
        if shape.kind != ColumnType::Int || shape.descending {
            return None;
        }
        if shape.nullable && self.array::<1>(0)? != [tag::PRESENT] {
            return None;
        }
        self.i64(0)
    }

    /// Skips parts. It reads their contents only as far as needed to find their ends.
    pub fn skip(&mut self, shapes: impl IntoIterator<Item = Shape>) -> Option<()> {
        shapes.into_iter().try_for_each(|shape| self.pass(shape))
    }

    fn pass(&mut self, shape: Shape) -> Option<()> {
        let mask = if shape.descending { 0xff } else { 0 };
        if shape.kind == ColumnType::Any {
            return self.next(shape).map(drop);
        }
        if shape.nullable {
            match self.array::<1>(mask)? {
                [tag::NULL] => return Some(()),
                [tag::PRESENT] => {}
                _ => return None,
            }
        }
        let width = match shape.kind {
            ColumnType::Text | ColumnType::Bytes => return self.pass_escaped(mask),
            ColumnType::Bool => 1,
            ColumnType::Uuid => 16,
            ColumnType::Int | ColumnType::Timestamp | ColumnType::UInt | ColumnType::Float => 8,
            ColumnType::Any | ColumnType::Json => return None,
        };
        self.rest = self.rest.get(width..)?;
        Some(())
    }

    /// Skips what [`Parts::escaped`] reads.
    fn pass_escaped(&mut self, mask: u8) -> Option<()> {
        let (zero, escape) = (mask, !mask);
        let mut at = 0;
        loop {
            at += self.rest.get(at..)?.iter().position(|&byte| byte == zero)? + 1;
            match *self.rest.get(at)? {
                next if next == zero => break,
                next if next == escape => at += 1,
                _ => return None,
            }
        }
        self.rest = &self.rest[at + 1..];
        Some(())
    }

    #[inline]
    fn bare(&mut self, kind: ColumnType, mask: u8) -> Option<Value<'a>> {
        Some(match kind {
            ColumnType::Bool => match self.array::<1>(mask)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return None,
            },
            ColumnType::Int => Value::Int(self.i64(mask)?),
            ColumnType::Timestamp => Value::Timestamp(self.i64(mask)?),
            ColumnType::UInt => Value::UInt(u64::from_be_bytes(self.array(mask)?)),
            ColumnType::Float => Value::Float(from_ordered_bits(u64::from_be_bytes(self.array(mask)?))),
            ColumnType::Uuid => Value::Uuid(self.array(mask)?),
            ColumnType::Bytes => Value::Bytes(self.escaped(mask)?),
            ColumnType::Text => Value::Text(match self.escaped(mask)? {
                Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
                Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
            }),
            ColumnType::Any | ColumnType::Json => return None,
        })
    }

    fn number(&mut self, mask: u8) -> Option<Value<'a>> {
        let float = from_ordered_bits(u64::from_be_bytes(self.array(mask)?));
        let rest = (u16::from_be_bytes(self.array(mask)?) ^ 1 << 15) as i16;
        // An integer that no float equals must be decoded as an integer; otherwise its original type is unknown.
        match rest {
            0 => Some(Value::Float(float)),
            _ => {
                let integer = (float as i128).checked_add(i128::from(rest))?;
                let signed = i64::try_from(integer).map(Value::Int);
                signed.or_else(|_| u64::try_from(integer).map(Value::UInt)).ok()
            }
        }
    }

    #[inline]
    fn i64(&mut self, mask: u8) -> Option<i64> {
        Some((u64::from_be_bytes(self.array(mask)?) ^ 1 << 63) as i64)
    }

    #[inline]
    fn array<const N: usize>(&mut self, mask: u8) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(head.map(|byte| byte ^ mask))
    }

    /// Reads what [`pando::keys::push_part`] wrote; borrowed if nothing in it is escaped or inverted.
    fn escaped(&mut self, mask: u8) -> Option<Cow<'a, [u8]>> {
        let (zero, escape) = (mask, !mask);
        let end_of_plain = self.rest.iter().position(|&byte| byte == zero)?;
        if mask == 0 && self.rest.get(end_of_plain + 1) == Some(&0) {
            let (plain, tail) = self.rest.split_at(end_of_plain);
            self.rest = &tail[2..];
            return Some(Cow::Borrowed(plain));
        }
        let (mut out, mut at) = (Vec::new(), 0);
        loop {
            let byte = *self.rest.get(at)?;
            at += 1;
            if byte == zero {
                let next = *self.rest.get(at)?;
                at += 1;
                if next == zero {
                    self.rest = &self.rest[at..];
                    return Some(Cow::Owned(out));
                }
                if next != escape {
                    return None;
                }
            }
            out.push(byte ^ mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = Value<'static>> {
        let near_floats = (any::<i64>(), -3i64..3).prop_map(|(n, d)| ((n as f64) as i64).saturating_add(d));
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            near_floats.prop_map(Value::Int),
            (-3i64..3).prop_map(Value::Int),
            any::<u64>().prop_map(Value::UInt),
            any::<f64>().prop_map(Value::Float),
            any::<i64>().prop_map(|n| Value::Float(n as f64)),
            prop_oneof![Just(-0.0), Just(0.0), Just(f64::NAN), Just(f64::INFINITY)].prop_map(Value::Float),
            any::<i64>().prop_map(Value::Timestamp),
            "[a\0\u{ff}b]{0,3}".prop_map(|text| Value::Text(text.into())),
            any::<[u8; 16]>().prop_map(Value::Uuid),
            proptest::collection::vec(prop_oneof![Just(0), Just(1), Just(0xff)], 0..4)
                .prop_map(|bytes| Value::Bytes(bytes.into())),
        ]
    }

    fn shape(kind: ColumnType, nullable: bool, descending: bool) -> Shape {
        Shape { kind, nullable, descending, collation: Collation::Binary }
    }

    fn encode(shapes: &[Shape], values: &[Value<'_>]) -> Vec<u8> {
        let mut key = Vec::new();
        shapes.iter().zip(values).for_each(|(shape, value)| push(&mut key, *shape, value).unwrap());
        key
    }

    /// Returns the order that two tuples must have under `shapes`.
    fn expected(shapes: &[Shape], a: &[Value<'_>], b: &[Value<'_>]) -> std::cmp::Ordering {
        let by_part = shapes.iter().zip(a.iter().zip(b)).map(|(shape, (a, b))| {
            let order = a.cmp(b);
            if shape.descending { order.reverse() } else { order }
        });
        by_part.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    }

    proptest! {
        #[test]
        fn any_keeps_order(a in [any_value(), any_value()], b in [any_value(), any_value()],
                           directions: [bool; 2]) {
            let shapes = directions.map(|descending| shape(ColumnType::Any, false, descending));
            let (left, right) = (encode(&shapes, &a), encode(&shapes, &b));
            prop_assert_eq!(left.cmp(&right), expected(&shapes, &a, &b));
            let mut parts = Parts::new(&left);
            for (shape, value) in shapes.iter().zip(&a) {
                prop_assert_eq!(&parts.next(*shape).unwrap(), value);
            }
            prop_assert!(parts.rest().is_empty());
        }

        #[test]
        fn one_type_keeps_order_and_comes_back(a in any_value(), b in any_value(), c in any_value(),
                                               descending: bool) {
            let (Some(kind), false) = (a.column_type(), a.is_null()) else { return Ok(()) };
            let b = if b.column_type() == Some(kind) { b } else { a.clone() };
            let shapes = [shape(kind, true, descending), shape(ColumnType::Any, false, false)];
            for (x, y) in [([a.clone(), c.clone()], [b.clone(), Value::Null]), ([Value::Null, c], [a, b])] {
                let (left, right) = (encode(&shapes, &x), encode(&shapes, &y));
                prop_assert_eq!(left.cmp(&right), expected(&shapes, &x, &y));
                let mut parts = Parts::new(&left);
                let back = parts.next(shapes[0]).unwrap();
                prop_assert_eq!(&back, &x[0]);
                prop_assert_eq!(back.column_type(), x[0].column_type());
                let mut passing = Parts::new(&left);
                prop_assert_eq!(passing.skip([shapes[0]]), Some(()));
                prop_assert_eq!(passing.rest(), parts.rest());
                let integer = Parts::new(&left).integer(shapes[0]).map(Value::Int);
                let is_plain = matches!(x[0], Value::Int(_)) && !descending;
                prop_assert_eq!(integer, is_plain.then(|| x[0].clone()));
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, kind in 0usize..10, nullable: bool, descending: bool) {
            let shape = shape(ColumnType::ALL[kind], nullable, descending);
            let mut parts = Parts::new(&bytes);
            while !parts.rest().is_empty() {
                let mut passing = Parts::new(parts.rest());
                let passed = passing.skip([shape]);
                if parts.next(shape).is_none() {
                    break;
                }
                prop_assert_eq!((passed, passing.rest()), (Some(()), parts.rest()));
            }
        }
    }

    #[test]
    fn what_no_key_holds_is_refused() {
        let mut key = Vec::new();
        let int = shape(ColumnType::Int, false, false);
        for (value, says) in [(Value::Null, "cannot be null"), (Value::from("x"), "type text, not int")] {
            assert!(push(&mut key, int, &value).unwrap_err().to_string().contains(says));
        }
        let json = shape(ColumnType::Json, true, false);
        let document = Value::json(&serde_json::json!({}));
        assert!(push(&mut key, json, &document).unwrap_err().to_string().contains("path"));
    }

    #[test]
    fn collations_make_texts_one() {
        let part = |collation, text: &'static str| {
            let shape = Shape { collation, ..shape(ColumnType::Text, false, false) };
            encode(&[shape], &[Value::from(text)])
        };
        assert_eq!(part(Collation::NoCase, "aBÜ"), part(Collation::NoCase, "AbÜ"));
        assert_ne!(part(Collation::NoCase, "ü"), part(Collation::NoCase, "Ü"));
        assert_eq!(part(Collation::RTrim, "a  "), part(Collation::RTrim, "a"));
        assert_ne!(part(Collation::Binary, "a "), part(Collation::Binary, "a"));
    }
}
