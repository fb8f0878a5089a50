//! A stack of deltas, some of them damaged, as one tree.
//!
//! For each key the newest delta's record counts, unless a newer one's range delete hides it. If part of a newer delta
//! cannot be read, the older ones' records there are not certain, and are left out: the scan exports them.

use super::report::Lost;
use super::start::Start;
use super::walk::{Steps, Visit};
use base::{Result, TableId};
use io::File;
use page::Value;
use run::{Ranges, Run};

/// One delta.
struct Source<'a> {
    steps: Steps<'a>,
    is_on: bool,
    ranges: Ranges,
    /// The range deletes that cannot be read, in key order; none of them has an end.
    lost: Vec<Lost>,
    /// The number of the records' losses that end before the last key that was asked for.
    passed: usize,
}

/// Passes on the contents of a stack of (records, range deletes), newest first; returns what is not certain.
///
/// # Errors
/// Those of `visit`.
pub fn walk(
    data: Option<&dyn File>,
    start: &Start,
    table: TableId,
    stack: &[(Run, Run)],
    visit: &mut Visit<'_>,
) -> Result<Vec<Lost>> {
    let mut sources: Vec<Source<'_>> =
        stack.iter().map(|(records, ranges)| Source::open(data, start, table, records, ranges)).collect();
    let mut key = Vec::new();
    loop {
        let on = sources.iter().enumerate().filter(|(_, source)| source.is_on);
        let least = on.filter_map(|(at, source)| Some((source.steps.entry()?.0, at))).min();
        let Some((least, newest)) = least else { break };
        key.clear();
        key.extend_from_slice(least);
        let (newer, rest) = sources.split_at_mut(newest);
        let is_hidden = newer.iter().any(|source| source.ranges.covering(&key).is_some());
        let is_certain = !newer.iter_mut().any(|source| source.may_have_lost(&key));
        if let Some((_, value)) = rest[0].steps.entry()
            && is_certain
            && !is_hidden
            && value != Value::Deleted
        {
            visit(&key, value)?;
        }
        for source in &mut sources[newest..] {
            if source.is_on && source.steps.entry().is_some_and(|(found, _)| found == key) {
                source.is_on = source.steps.advance();
            }
        }
    }
    let lost = sources.into_iter().flat_map(|source| source.lost.into_iter().chain(source.steps.into_lost()));
    Ok(joined(lost.collect()))
}

impl<'a> Source<'a> {
    fn open(
        data: Option<&'a dyn File>,
        start: &'a Start,
        table: TableId,
        records: &Run,
        ranges: &Run,
    ) -> Self {
        let mut spans = Vec::new();
        let mut steps = Steps::new(data, start, table, ranges);
        while steps.advance() {
            if let Some((first, Value::Inline(end))) = steps.entry() {
                spans.push((first.to_vec(), (!end.is_empty()).then(|| end.to_vec())));
            }
        }
        // A range that begins in a loss may end anywhere.
        let mut lost = steps.into_lost();
        lost.iter_mut().for_each(|lost| lost.high = None);
        let ranges = Ranges::joined(spans.iter().map(|(first, end)| (&first[..], end.as_deref())));
        let mut steps = Steps::new(data, start, table, records);
        let is_on = steps.advance();
        Source { steps, is_on, ranges, lost, passed: 0 }
    }

    /// Returns whether `key` may be lost. It must be called with ascending keys: each loss is then passed once.
    fn may_have_lost(&mut self, key: &[u8]) -> bool {
        let lost = self.steps.lost();
        let ends = |lost: &Lost| lost.high.as_deref().is_some_and(|high| high <= key);
        self.passed += lost[self.passed..].iter().take_while(|lost| ends(lost)).count();
        self.lost.first().is_some_and(|lost| lost.covers(key))
            || lost[self.passed..].iter().any(|lost| lost.covers(key))
    }
}

/// Joins overlapping spans, in key order.
fn joined(mut lost: Vec<Lost>) -> Vec<Lost> {
    lost.sort_by(|a, b| a.low.cmp(&b.low));
    lost.dedup_by(|next, last| {
        let joins = last.high.as_ref().is_none_or(|high| next.low < *high);
        if joins {
            last.high = last.high.take().zip(next.high.take()).map(|(a, b)| a.max(b));
        }
        joins
    });
    lost
}
