//! A transaction's own range deletes on one table: sorted, disjoint, none touching the next.
//!
//! Range deletes take effect before the puts and deletes of the same commit, so only their union counts, and a new
//! one is merged with those that it overlaps or touches. They are few: each owns its bytes.

use std::ops::Range as Indexes;

/// `[start, end)`; no `end` means to the end of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: Vec<u8>,
    pub(super) end: Option<Vec<u8>>,
}

impl Span {
    fn bytes(&self) -> usize {
        self.start.len() + self.end.as_ref().map_or(0, Vec::len) + size_of::<Span>()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    spans: Vec<Span>,
    bytes: usize,
}

/// How to take back one [`Ranges::insert`]: the span at `at` was put in the place of `replaced`.
#[derive(Debug)]
pub(super) struct Replaced {
    at: usize,
    replaced: Vec<Span>,
}

impl Ranges {
    /// The spans in key order.
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The span that covers `key`. O(log n).
    #[inline]
    pub(super) fn covering(&self, key: &[u8]) -> Option<&Span> {
        let behind = self.spans.partition_point(|span| &span.start[..] <= key);
        let span = self.spans[..behind].last()?;
        span.end.as_ref().is_none_or(|end| key < &end[..]).then_some(span)
    }

    /// Adds `[start, end)`, which must not be empty. O(log n + spans merged + spans behind).
    pub(super) fn insert(&mut self, start: &[u8], end: Option<&[u8]>) -> Replaced {
        let touched = self.touched(start, end);
        let mut span = Span { start: start.to_vec(), end: end.map(<[u8]>::to_vec) };
        if let Some(first) = self.spans[touched.clone()].first() {
            span.start = span.start.min(first.start.clone());
        }
        if let Some(last) = self.spans[touched.clone()].last() {
            span.end = match (span.end, &last.end) {
                (Some(new), Some(old)) => Some(new.max(old.clone())),
                _ => None,
            };
        }
        let at = touched.start;
        self.bytes += span.bytes();
        let replaced: Vec<Span> = self.spans.splice(touched, [span]).collect();
        self.bytes -= replaced.iter().map(Span::bytes).sum::<usize>();
        Replaced { at, replaced }
    }

    /// The spans that `[start, end)` overlaps or touches.
    fn touched(&self, start: &[u8], end: Option<&[u8]>) -> Indexes<usize> {
        let first = self.spans.partition_point(|span| span.end.as_ref().is_some_and(|end| &end[..] < start));
        let last = match end {
            Some(end) => self.spans.partition_point(|span| &span.start[..] <= end),
            None => self.spans.len(),
        };
        first..last
    }

    /// Takes back the newest [`Ranges::insert`] that was not taken back yet.
    pub(super) fn undo(&mut self, change: Replaced) {
        self.bytes += change.replaced.iter().map(Span::bytes).sum::<usize>();
        let taken_back = self.spans.splice(change.at..=change.at, change.replaced);
        self.bytes -= taken_back.map(|span| span.bytes()).sum::<usize>();
    }

    /// Forgets all spans.
    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.spans.shrink_to(64);
        self.bytes = 0;
    }

    /// Bytes of memory in use. O(1).
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::seams::Random;

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
                let apart = |pair: &[Span]| pair[0].end.as_ref().is_some_and(|end| *end < pair[1].start);
                assert!(ranges.spans.windows(2).all(apart));
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
