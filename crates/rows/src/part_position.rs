//! The position of a column's value in a key, computed once for a table and not for each row. It is an offset if all
//! parts before it have a fixed length; otherwise the parts before it are skipped.

use crate::key::{Parts, Shape};
use crate::value::Value;

/// The position of a part in keys of one shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartPosition {
    part: usize,
    /// The offset of the part; `None`: it depends on the parts before.
    offset: Option<usize>,
    shape: Shape,
}

impl PartPosition {
    /// Returns the position of the part numbered `part` of keys that begin with `shapes`; `None` if its value cannot be
    /// decoded.
    pub fn locate(shapes: impl Iterator<Item = Shape>, part: usize) -> Option<Self> {
        let mut offset = Some(0);
        for (number, shape) in shapes.enumerate() {
            if number == part {
                return shape.is_recoverable().then_some(PartPosition { part, offset, shape });
            }
            offset = offset.zip(shape.width()).map(|(before, width)| before + width);
        }
        None
    }

    /// Returns the value of the part in `key` if it is an integer at a fixed offset. `None`: call
    /// [`PartPosition::read`].
    #[inline]
    pub fn integer(&self, key: &[u8]) -> Option<i64> {
        Parts::new(key.get(self.offset?..)?).integer(self.shape)
    }

    /// Returns the value of the part in `key`, which begins with parts of `shapes`. Returns `None` if the bytes that it
    /// reads are not such a key.
    #[inline]
    pub fn read<'a>(&self, key: &'a [u8], shapes: impl Iterator<Item = Shape>) -> Option<Value<'a>> {
        match self.offset {
            Some(offset) => Parts::new(key.get(offset..)?).next(self.shape),
            None => self.find(key, shapes),
        }
    }

    fn find<'a>(&self, key: &'a [u8], shapes: impl Iterator<Item = Shape>) -> Option<Value<'a>> {
        let mut parts = Parts::new(key);
        parts.skip(shapes.take(self.part))?;
        parts.next(self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Collation;
    use crate::key::push;
    use crate::value::ColumnType;

    #[test]
    fn every_part_is_found_whatever_lies_before_it() {
        let shape =
            |kind, nullable| Shape { kind, nullable, descending: false, collation: Collation::Binary };
        let parts = [
            (shape(ColumnType::Int, false), Value::Int(-5)),
            (shape(ColumnType::Bool, false), Value::Bool(true)),
            (shape(ColumnType::Uuid, false), Value::Uuid([9; 16])),
            (shape(ColumnType::Float, false), Value::Float(0.5)),
            (shape(ColumnType::UInt, true), Value::Null),
            (shape(ColumnType::Text, false), Value::from("a\0b")),
            (shape(ColumnType::Timestamp, false), Value::Timestamp(7)),
        ];
        let shapes = || parts.iter().map(|(shape, _)| *shape);
        let mut key = Vec::new();
        parts.iter().for_each(|(shape, value)| push(&mut key, *shape, value).unwrap());
        for (number, (_, value)) in parts.iter().enumerate() {
            let position = PartPosition::locate(shapes(), number).unwrap();
            assert_eq!(position.offset.is_some(), number <= 4);
            assert_eq!(position.read(&key, shapes()).as_ref(), Some(value));
            assert_eq!(position.integer(&key).map(Value::Int), (number == 0).then(|| value.clone()));
            for cut in 0..key.len() {
                position.read(&key[..cut], shapes());
                position.integer(&key[..cut]);
            }
        }
        let lossy = Shape { collation: Collation::NoCase, ..shape(ColumnType::Text, false) };
        assert!(
            PartPosition::locate([lossy].into_iter(), 0).is_none()
                && PartPosition::locate(shapes(), 7).is_none()
        );
    }
}
