//! Ranges of keys, made from bounds or from a prefix.

use crate::keys;
use std::ops::{Bound, RangeBounds};

/// A range of keys, from `start` on and before `end`. It is made from any range of byte strings, or from a prefix.
///
/// ```
/// use pando_base::Span;
/// assert_eq!(Span::from("a".."b").start(), b"a");
/// assert_eq!(Span::prefix(b"ab").end(), Some(&b"ac"[..]));
/// assert_eq!(Span::from(..).end(), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl Span {
    /// Returns the range of every key.
    pub fn all() -> Self {
        Span::default()
    }

    /// Returns the range of the keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Span { start: prefix.to_vec(), end: keys::prefix_end(prefix) }
    }

    /// Returns the range of the keys between two bounds.
    pub fn between(start: Bound<&[u8]>, end: Bound<&[u8]>) -> Self {
        // The next key after `key` in byte order is `key` followed by a zero.
        let after = |key: &[u8]| [key, &[0]].concat();
        let start = match start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => after(key),
        };
        let end = match end {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
        };
        Span { start, end }
    }

    /// Returns the first key that can be in the range.
    #[inline]
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Returns the first key after the range, or `None` if the range extends to the end of the table.
    #[inline]
    pub fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// Returns the part of the range from `start` on.
    #[must_use]
    pub fn starting(&self, start: Bound<&[u8]>) -> Span {
        let Span { start, .. } = Span::between(start, Bound::Unbounded);
        Span { start: start.max(self.start.clone()), end: self.end.clone() }
    }

    /// Returns the part of the range before `end`.
    #[must_use]
    pub fn until(&self, end: &[u8]) -> Span {
        let earlier = self.end.as_deref().map_or(end, |own| own.min(end));
        Span { start: self.start.clone(), end: Some(earlier.to_vec()) }
    }
}

macro_rules! span_from_ranges {
    ($($range:ty),* $(,)?) => {$(
        impl<K: AsRef<[u8]>> From<$range> for Span {
            fn from(range: $range) -> Self {
                Span::between(bytes(range.start_bound()), bytes(range.end_bound()))
            }
        }
    )*};
}

fn bytes<K: AsRef<[u8]>>(bound: Bound<&K>) -> Bound<&[u8]> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(key.as_ref()),
        Bound::Excluded(key) => Bound::Excluded(key.as_ref()),
    }
}

span_from_ranges!(
    std::ops::Range<K>,
    std::ops::RangeInclusive<K>,
    std::ops::RangeFrom<K>,
    std::ops::RangeTo<K>,
    std::ops::RangeToInclusive<K>,
    (Bound<K>, Bound<K>),
);

impl From<std::ops::RangeFull> for Span {
    fn from(_: std::ops::RangeFull) -> Self {
        Span::all()
    }
}
