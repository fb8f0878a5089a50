//! The range tombstones of a run: sorted, disjoint spans of deleted keys.
//!
//! They take effect before the records of the same run, and hide records of older runs. They are few. They are in
//! memory as long as the run is in use, and on disk in a small run of their own, whose keys are the starts of spans and
//! whose values are their ends (empty: at the end of the table).

use crate::allocate::Allocate;
use crate::build::Builder;
use crate::cursor::Cursor;
use crate::descriptor::Run;
use base::limits::max_key_bytes;
use base::slots::Reader;
use base::{CheckpointNo, Error, ErrorKind, Result};
use page::Value;
use pool::Pool;
use std::ops::Bound;

/// The most memory that a run's spans may take: more would be a table of its own.
const MAX_BYTES: usize = 32 << 20;
/// The most memory that the spans of a run that is read may take. A version of Pando with other limits may have written
/// it.
pub(crate) const MAX_READ_BYTES: usize = 2 * MAX_BYTES;

/// A range `[start, end)`; without `end`, it reaches to the end of the table.
pub type Span = (Box<[u8]>, Option<Box<[u8]>>);
/// A borrowed [`Span`].
pub type SpanRef<'a> = (&'a [u8], Option<&'a [u8]>);

/// The range tombstones of a run; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    spans: Vec<Span>,
}

impl Ranges {
    /// Returns the union of spans in any order. Returns [`ErrorKind::Full`] if they take more than 32 MiB.
    ///
    /// ```
    /// let ranges = pando_run::Ranges::union([(&b"m"[..], None), (b"a", Some(&b"c"[..])), (b"b", Some(b"d"))])?;
    /// assert_eq!(ranges.covering(b"c"), Some((&b"a"[..], Some(&b"d"[..]))));
    /// assert_eq!(ranges.covering(b"d"), None);
    /// # Ok::<(), base::Error>(())
    /// ```
    pub fn union<'s>(spans: impl IntoIterator<Item = SpanRef<'s>>) -> Result<Ranges> {
        let ranges = Ranges::joined(spans);
        if ranges.bytes() > MAX_BYTES {
            let message = format!("the range deletes of one transaction take more than {MAX_BYTES} bytes");
            return Err(Error::new(ErrorKind::Full, message));
        }
        Ok(ranges)
    }

    /// Returns the union of any number of spans in any order.
    pub fn joined<'s>(spans: impl IntoIterator<Item = SpanRef<'s>>) -> Ranges {
        let mut sorted: Vec<SpanRef<'s>> = spans.into_iter().collect();
        sorted.sort_unstable_by_key(|&(start, _)| start);
        sorted.dedup_by(|next, last| {
            let joins = last.1.is_none_or(|end| next.0 <= end);
            if joins {
                last.1 = last.1.zip(next.1).map(|(a, b)| a.max(b));
            }
            joins
        });
        Ranges { spans: sorted.into_iter().map(|(start, end)| (start.into(), end.map(Into::into))).collect() }
    }

    /// Returns the memory that they take in bytes.
    pub fn bytes(&self) -> usize {
        let bytes = |(start, end): SpanRef<'_>| start.len() + end.map_or(0, <[u8]>::len) + size_of::<Span>();
        self.iter().map(bytes).sum()
    }

    /// Returns whether one span covers every key.
    pub fn covers_all(&self) -> bool {
        matches!(self.spans.first(), Some((start, None)) if start.is_empty())
    }

    /// Returns the parts of the spans before `key`; `None` stands for the end of the table.
    pub fn before<'r>(&'r self, key: Option<&'r [u8]>) -> impl Iterator<Item = SpanRef<'r>> {
        let clipped = move |(start, end): SpanRef<'r>| match key {
            Some(key) if start >= key => None,
            Some(key) => Some((start, Some(end.map_or(key, |end| end.min(key))))),
            None => Some((start, end)),
        };
        self.iter().filter_map(clipped)
    }

    /// Returns the parts of the spans at or after `key`.
    pub fn from<'r>(&'r self, key: &'r [u8]) -> impl Iterator<Item = SpanRef<'r>> {
        let is_behind = move |end: Option<&[u8]>| end.is_none_or(|end| end > key);
        self.iter().filter(move |(_, end)| is_behind(*end)).map(move |(start, end)| (start.max(key), end))
    }

    /// Returns whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the spans in key order.
    pub fn iter(&self) -> impl Iterator<Item = SpanRef<'_>> {
        self.spans.iter().map(|(start, end)| (&**start, end.as_deref()))
    }

    /// Returns the span with index `at` in key order.
    pub fn get(&self, at: usize) -> Option<SpanRef<'_>> {
        self.spans.get(at).map(|(start, end)| (&**start, end.as_deref()))
    }

    /// Returns the span that covers `key`. O(log n).
    #[inline]
    pub fn covering(&self, key: &[u8]) -> Option<SpanRef<'_>> {
        let behind = self.spans.partition_point(|(start, _)| &**start <= key);
        let (start, end) = self.spans[..behind].last()?;
        end.as_ref().is_none_or(|end| key < &**end).then_some((&**start, end.as_deref()))
    }

    /// Returns a span that reaches into `start..end`. O(log n).
    pub fn overlapping(&self, start: &[u8], end: Bound<&[u8]>) -> Option<SpanRef<'_>> {
        let first = self.spans.partition_point(|(_, end)| end.as_ref().is_some_and(|end| &**end <= start));
        let (span_start, span_end) = self.spans.get(first)?;
        let reaches = match end {
            Bound::Unbounded => true,
            Bound::Included(end) => &**span_start <= end,
            Bound::Excluded(end) => &**span_start < end && start < end,
        };
        reaches.then_some((&**span_start, span_end.as_deref()))
    }

    /// Writes the spans to a run of their own. Errors as [`Builder::add`].
    pub fn write(&self, pool: &Pool, space: impl Allocate, birth: CheckpointNo) -> Result<Run> {
        let longest = max_key_bytes(pool.page_bytes());
        let mut builder = Builder::new(pool, space, birth, pool.page_bytes());
        for (start, end) in self.iter() {
            // A bound one byte longer than any key lies right after a longest key. The key itself, increased to the
            // next key of its length, bounds the same keys.
            let (start, end) = (shortened(start, longest), end.map(|end| shortened(end, longest)));
            let Some(start) = start else { continue };
            let end = end.flatten().unwrap_or_default();
            if end.is_empty() || start < end {
                builder.add(&start, Value::Inline(&end))?;
            }
        }
        builder.finish()
    }

    /// Reads what [`Ranges::write`] wrote. Returns [`ErrorKind::Corruption`] if the spans take more than `most_bytes`,
    /// before more memory than that is allocated.
    pub fn read(run: Run, most_bytes: usize, pool: &Pool, reader: &Reader) -> Result<Ranges> {
        let mut spans: Vec<Span> = Vec::new();
        let mut bytes = 0;
        let mut cursor = Cursor::new(run);
        cursor.seek_first(pool, reader)?;
        while let Some((start, value)) = cursor.entry() {
            let Value::Inline(end) = value else { return Err(no_span(start)) };
            let follows = spans.last().is_none_or(|(_, end)| end.as_ref().is_some_and(|end| **end <= *start));
            if !follows || !(end.is_empty() || start < end) {
                return Err(no_span(start));
            }
            bytes += start.len() + end.len() + size_of::<Span>();
            if bytes > most_bytes {
                return Err(Error::corruption(format!(
                    "the range deletes of a run take more than {most_bytes} bytes"
                )));
            }
            spans.push((start.into(), (!end.is_empty()).then(|| end.into())));
            cursor.next(pool, reader)?;
        }
        Ok(Ranges { spans })
    }
}

/// Returns the bound itself, or one of `longest` bytes that has the same keys of at most that length before it. Returns
/// `None` if all such keys are before it.
fn shortened(bound: &[u8], longest: usize) -> Option<Vec<u8>> {
    match bound.get(..longest) {
        Some(first) if bound.len() > longest => {
            // The least byte string of `longest` bytes after `first`.
            let last = first.iter().rposition(|&byte| byte != 0xff)?;
            let mut next = first[..=last].to_vec();
            next[last] += 1;
            Some(next)
        }
        _ => Some(bound.to_vec()),
    }
}

#[cold]
fn no_span(start: &[u8]) -> Error {
    Error::corruption(format!(
        "range deletes of a run: the entry that starts at \"{}\" is not a valid range",
        start.escape_ascii()
    ))
}
