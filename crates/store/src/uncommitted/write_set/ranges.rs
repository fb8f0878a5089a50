//! A transaction's own range deletes on one table: sorted, disjoint, none touching the next.
//!
//! Range deletes take effect before the puts and deletes of the same commit, so only their union counts, and a new one
//! is merged with those that it overlaps or touches. They may be many, and come in any order.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The end of a span that begins at a key; `None`: the end of the table.
type End = Option<Box<[u8]>>;

/// The memory of a span in addition to its bytes: its position in the map, which is two thirds full on average.
const SPAN_BYTES: usize = 64;

/// Range deletes; see the module.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// The spans, by their first keys.
    spans: BTreeMap<Box<[u8]>, End>,
    bytes: usize,
}

/// The data to undo one [`Ranges::insert`]: the span that begins at `start` replaced `replaced`.
#[derive(Debug)]
pub(super) struct Replaced {
    start: Box<[u8]>,
    replaced: Vec<(Box<[u8]>, End)>,
}

impl Replaced {
    /// Returns the bytes of memory that it takes besides itself.
    pub(super) fn bytes(&self) -> usize {
        self.start.len() + self.replaced.iter().map(|(start, end)| bytes(start, end)).sum::<usize>()
    }
}

/// A borrowed span.
pub(super) type Span<'a> = (&'a [u8], Option<&'a [u8]>);

fn bytes(start: &[u8], end: &End) -> usize {
    start.len() + end.as_ref().map_or(0, |end| end.len()) + SPAN_BYTES
}

impl Ranges {
    /// Returns the spans in key order.
    pub(super) fn spans(&self) -> impl ExactSizeIterator<Item = Span<'_>> {
        self.spans.iter().map(|(start, end)| (&**start, end.as_deref()))
    }

    /// Returns the number of spans.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns the span that covers `key`. O(log n).
    #[inline]
    pub(super) fn covering(&self, key: &[u8]) -> Option<Span<'_>> {
        if self.spans.is_empty() {
            return None;
        }
        let (start, end) =
            self.spans.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        end.as_ref().is_none_or(|end| key < &**end).then_some((&**start, end.as_deref()))
    }

    /// Adds `[start, end)`, which must not be empty. O(log n) for it, and for each span that it is merged with.
    pub(super) fn insert(&mut self, start: &[u8], end: Option<&[u8]>) -> Replaced {
        let mut replaced = Vec::new();
        let (mut new_start, mut new_end) = (Box::from(start), end.map(Box::from));
        while let Some(at) = self.last_touched(start, end) {
            let (old_start, old_end) = self.spans.remove_entry(&at).expect("a key of the map");
            self.bytes -= bytes(&old_start, &old_end);
            if old_start < new_start {
                new_start = old_start.clone();
            }
            new_end = new_end.zip(old_end.clone()).map(|(new, old): (Box<[u8]>, _)| new.max(old));
            replaced.push((old_start, old_end));
        }
        self.bytes += bytes(&new_start, &new_end);
        self.spans.insert(new_start.clone(), new_end);
        Replaced { start: new_start, replaced }
    }

    /// Returns the first key of the last span that `[start, end)` overlaps or touches.
    fn last_touched(&self, start: &[u8], end: Option<&[u8]>) -> Option<Box<[u8]>> {
        let until = end.map_or(Bound::Unbounded, Bound::Included);
        let (found, found_end) = self.spans.range::<[u8], _>((Bound::Unbounded, until)).next_back()?;
        found_end.as_ref().is_none_or(|end| start <= &**end).then(|| found.clone())
    }

    /// Undoes the newest [`Ranges::insert`] that was not undone yet.
    pub(super) fn undo(&mut self, change: Replaced) {
        let end = self.spans.remove(&change.start).expect("what was put and not taken back is there");
        self.bytes -= bytes(&change.start, &end);
        for (start, end) in change.replaced {
            self.bytes += bytes(&start, &end);
            self.spans.insert(start, end);
        }
    }

    /// Forgets all spans.
    pub(super) fn clear(&mut self) {
        *self = Ranges::default();
    }

    /// Returns the bytes of memory in use. O(1).
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    #[test]
    fn spans_are_the_union_of_what_was_inserted_and_undo_is_exact() {
        for seed in 0..40 {
            let mut random = Random::seeded(seed);
            let mut ranges = Ranges::default();
            let mut covered = [false; 100];
            let mut history = Vec::new();
            for _ in 0..30 {
                let start = random.below(99) as u8;
                let end = start + 1 + random.below(u64::from(99 - start).min(12)) as u8;
                let open = random.chance(1, 12);
                history.push((covered, ranges.spans.clone()));
                let change = ranges.insert(&[start], (!open).then_some(&[end]));
                covered[start as usize..if open { 100 } else { end as usize }].fill(true);
                for key in 0..100u8 {
                    assert_eq!(ranges.covering(&[key]).is_some(), covered[key as usize], "seed {seed}");
                }
                let spans: Vec<_> = ranges.spans().collect();
                assert!(spans.windows(2).all(|pair| pair[0].1.is_some_and(|end| end < pair[1].0)));
                let all: usize = ranges.spans.iter().map(|(start, end)| bytes(start, end)).sum();
                assert_eq!(ranges.bytes(), all);
                if random.chance(1, 3) {
                    ranges.undo(change);
                    let before = history.pop().unwrap();
                    covered = before.0;
                    assert_eq!(ranges.spans, before.1);
                }
            }
        }
    }
}
