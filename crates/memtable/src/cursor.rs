//! A cursor over the keys of one table in order, each as of one timestamp.
//!
//! It keeps the path from the root to its position (see [`crate::node`] for why that stays valid while the writer
//! continues) and moves along it. It skips keys whose versions are all newer than its timestamp, and reports a key that
//! a range delete hides as deleted.

use crate::node::NodePtr;
use crate::ranges::{Fragment, Ranges};
use crate::record::Record;
use crate::search::Path;
use crate::table::Table;
use base::limits::MAX_PAGE_BYTES;
use base::{CommitTs, Span, Value};
use std::sync::Arc;

/// A cursor over the keys of one table in both directions, each as of one timestamp. It is made by
/// [`Memtable::cursor`](crate::Memtable::cursor) and has no position at first.
///
/// It sees its snapshot even if the writer adds changes meanwhile, provided that all commits at or before its timestamp
/// were applied when it was made. Moving costs no allocation and no lock.
#[derive(Clone, Debug)]
pub struct Cursor<'m> {
    table: Option<&'m Table>,
    at: CommitTs,
    path: Option<Path<'m>>,
    entry: Option<(&'m [u8], Value<'m>)>,
    /// The range deletes as of `at`, and the stretch of keys of the last look-up.
    ranges: Ranges<'m>,
    around: Fragment<'m>,
    /// The span beyond which the cursor does not search.
    span: Option<Arc<Span>>,
}

impl<'m> Cursor<'m> {
    #[inline]
    pub(crate) fn new(table: Option<&'m Table>, at: CommitTs) -> Cursor<'m> {
        let ranges = table.map_or(Ranges::default(), |table| table.ranges(at));
        let around = ranges.covering(&[]);
        Cursor { table, at, path: None, entry: None, ranges, around, span: None }
    }

    /// Returns a cursor that searches only keys within `span`. After the span it has no position, instead of skipping
    /// keys that are too new: any number of these may have been added since. `None` means all keys.
    #[inline]
    #[must_use]
    pub fn within(mut self, span: Option<Arc<Span>>) -> Cursor<'m> {
        self.span = span;
        self
    }

    /// Returns the key at the cursor and what is known about it, or `None` if the cursor has no position: before the
    /// first move, and after a move that found nothing. The result lives as long as the memtable is borrowed.
    #[inline]
    pub fn entry(&self) -> Option<(&'m [u8], Value<'m>)> {
        self.entry
    }

    /// Returns the newest version of the key at the cursor, whatever its timestamp.
    pub(crate) fn newest(&self) -> Option<Record<'m>> {
        self.entry?;
        let leaf = self.path.as_ref()?.leaf();
        Some(leaf.node().record(leaf.slot()))
    }

    /// Moves to the first key at or after `key`. O(log n).
    pub fn seek(&mut self, key: &[u8]) {
        self.start(key);
        self.settle_forward();
    }

    /// Returns the first key that begins with `prefix`, deleted ones and those after the timestamp included, and what
    /// is visible of it, range deletes left aside. O(log n).
    pub(crate) fn first_with_prefix(mut self, prefix: &[u8]) -> Option<(&'m [u8], Option<Value<'m>>)> {
        self.start(prefix);
        let path = self.path.as_mut()?;
        if path.leaf().place >= path.leaf().permutation.len() && !path.next_leaf() {
            return None;
        }
        let leaf = path.leaf();
        let newest = leaf.node().record(leaf.slot());
        let found = newest.key().starts_with(prefix).then_some(newest)?;
        Some((found.key(), found.visible(self.at).map(Record::found)))
    }

    /// Moves to the first key.
    pub fn seek_first(&mut self) {
        self.path = self.root().map(Path::first);
        self.settle_forward();
    }

    /// Moves to the last key.
    pub fn seek_last(&mut self) {
        self.path = self.root().map(Path::last);
        self.settle_backward();
    }

    /// Moves to the last key before `key`. O(log n).
    pub fn seek_before(&mut self, key: &[u8]) {
        self.start(key);
        self.step_back();
    }

    /// Moves to the next key. After the last key the cursor has no position, and stays there. Amortised O(1).
    #[inline]
    pub fn next(&mut self) {
        if self.entry.is_none() {
            return;
        }
        if let Some(path) = &mut self.path {
            path.leaf_mut().place += 1;
        }
        self.settle_forward();
    }

    /// Moves to the previous key. Before the first key the cursor has no position, and stays there. Amortised O(1).
    #[inline]
    pub fn prev(&mut self) {
        if self.entry.is_some() {
            self.step_back();
        }
    }

    /// Moves over the next keys, or the previous ones, `most` or fewer, and passes each with its value to `each`. It
    /// ends on the last one passed, and returns their number. It stops before `limit` in its direction, before a key
    /// that is deleted or whose value is elsewhere, at the end of some nodes, and before keys and values would have
    /// more than [`MAX_PAGE_BYTES`] together, as those of a page cannot; then [`Cursor::next`] or [`Cursor::prev`]
    /// moves on. In a table with range deletes it stays. A key costs a fraction of what a move costs.
    pub fn run<const FORWARD: bool>(
        &mut self,
        limit: Option<&[u8]>,
        most: u32,
        mut each: impl FnMut(&'m [u8], &'m [u8]),
    ) -> u32 {
        let (Some(_), Some(path), true) = (self.entry, &mut self.path, self.ranges.is_empty()) else {
            return 0;
        };
        let at = self.at;
        let is_within = |key| limit.is_none_or(|limit| if FORWARD { key < limit } else { key > limit });
        let (mut frame, mut is_sibling, mut shown, mut bytes) = (*path.leaf(), false, 0, 0);
        // The places that were not looked at: from this one on, or those before.
        let mut rest = if FORWARD { frame.place + 1 } else { frame.place };
        loop {
            let (node, permutation) = (frame.node(), frame.permutation);
            let record = |place| node.record(permutation.slot(place));
            let are_all_within = is_within(record(if FORWARD { permutation.len() - 1 } else { 0 }).key());
            let count = if FORWARD { permutation.len().saturating_sub(rest) } else { rest };
            for step in 0..count {
                let place = if FORWARD { rest + step } else { rest - 1 - step };
                let Some(record) = record(place).visible(at) else { continue };
                let (key, Value::Inline(value)) = (record.key(), record.found()) else { return shown };
                bytes += key.len() + value.len();
                if shown == most || bytes > MAX_PAGE_BYTES || !(are_all_within || is_within(key)) {
                    return shown;
                }
                each(key, value);
                shown += 1;
                if std::mem::take(&mut is_sibling) {
                    path.move_to_sibling::<FORWARD>(frame);
                }
                path.leaf_mut().place = place;
                self.entry = Some((key, Value::Inline(value)));
            }
            // A sibling without a visible key is left to a single move.
            match path.sibling::<FORWARD>().filter(|_| !is_sibling) {
                Some(sibling) => {
                    rest = if FORWARD { 0 } else { sibling.permutation.len() };
                    (frame, is_sibling) = (sibling, true);
                }
                None => return shown,
            }
        }
    }

    #[inline]
    fn root(&self) -> Option<NodePtr<'m>> {
        self.table.and_then(|table| table.root.load())
    }

    /// Goes to the place of `key`. The path is made where it stays: it is hundreds of bytes long.
    fn start(&mut self, key: &[u8]) {
        self.path = self.root().map(Path::at);
        if let Some(path) = &mut self.path {
            path.descend(key);
        }
    }

    /// Moves to the first entry at or after the path's place that has a version at or before the timestamp.
    #[inline]
    fn settle_forward(&mut self) {
        self.entry = None;
        let Some(path) = &mut self.path else { return };
        loop {
            let leaf = path.leaf();
            if leaf.place < leaf.permutation.len() {
                let newest = leaf.node().record(leaf.slot());
                if let Some(record) = newest.visible(self.at) {
                    self.entry = Some((record.key(), Self::found(&mut self.around, self.ranges, record)));
                    return;
                }
                if is_behind(self.span.as_deref(), newest.key()) {
                    return;
                }
                path.leaf_mut().place += 1;
            } else if !path.next_leaf() {
                return;
            }
        }
    }

    /// Moves to the last entry at or before the path's place that has a version at or before the timestamp.
    #[inline]
    fn settle_backward(&mut self) {
        self.entry = None;
        let Some(path) = &self.path else { return };
        let leaf = path.leaf();
        match leaf.node().record(leaf.slot()).visible(self.at) {
            Some(record) => {
                self.entry = Some((record.key(), Self::found(&mut self.around, self.ranges, record)))
            }
            None => self.step_back(),
        }
    }

    /// Moves to the last entry before the path's place that has a version at or before the timestamp.
    fn step_back(&mut self) {
        self.entry = None;
        let Some(path) = &mut self.path else { return };
        loop {
            if path.leaf().place > 0 {
                path.leaf_mut().place -= 1;
            } else if !path.prev_leaf() {
                return;
            }
            let leaf = path.leaf();
            let newest = leaf.node().record(leaf.slot());
            if let Some(record) = newest.visible(self.at) {
                self.entry = Some((record.key(), Self::found(&mut self.around, self.ranges, record)));
                return;
            }
            if is_before(self.span.as_deref(), newest.key()) {
                return;
            }
        }
    }

    /// Returns what `record` says, or that the key is deleted if a range delete hides it.
    #[inline]
    fn found(around: &mut Fragment<'m>, ranges: Ranges<'m>, record: Record<'m>) -> Value<'m> {
        if ranges.is_empty() {
            return record.found();
        }
        if !around.holds(record.key()) {
            *around = ranges.covering(record.key());
        }
        if around.covered > record.ts() { Value::Deleted } else { record.found() }
    }
}

/// Returns whether `key` is after the span.
fn is_behind(span: Option<&Span>, key: &[u8]) -> bool {
    span.and_then(Span::end).is_some_and(|end| key >= end)
}

/// Returns whether `key` is before the span.
fn is_before(span: Option<&Span>, key: &[u8]) -> bool {
    span.is_some_and(|span| key < span.start())
}

#[cfg(test)]
mod tests {
    use super::Cursor;
    use crate::Memtable;
    use base::env::Random;
    use base::{CommitTs, Span, TableId, Value};
    use std::sync::Arc;

    /// Runs on at random beside a cursor that takes each step, over keys of which some are deleted or too new.
    #[test]
    fn what_is_run_over_is_what_steps_show() {
        let (table, at) = (TableId(16), CommitTs(5));
        let mut run_over = 0;
        for seed in 0..50 {
            let mut random = Random::seeded(seed);
            let (memtable, mut writer) = Memtable::new();
            for ts in 1..8 {
                for _ in 0..100 {
                    let key = [random.below(4) as u8, random.below(100) as u8];
                    match random.below(12) {
                        0 => writer.delete(table, &key, CommitTs(ts)),
                        _ => writer.put(table, &key, &[ts as u8], CommitTs(ts)),
                    }
                }
            }
            for forward in [true, false] {
                let (mut runs, mut steps) = (memtable.cursor(table, at), memtable.cursor(table, at));
                let step = |cursor: &mut Cursor<'_>| if forward { cursor.next() } else { cursor.prev() };
                for cursor in [&mut runs, &mut steps] {
                    if forward { cursor.seek_first() } else { cursor.seek_last() }
                }
                while runs.entry().is_some() {
                    assert_eq!(runs.entry(), steps.entry(), "seed {seed}");
                    let limit = [random.below(5) as u8, random.below(100) as u8];
                    let limit = random.chance(1, 2).then_some(&limit[..]);
                    let (mut shown, most) = (Vec::new(), random.below(12) as u32);
                    let each = |key, value| shown.push((key, Value::Inline(value)));
                    let count = if forward {
                        runs.run::<true>(limit, most, each)
                    } else {
                        runs.run::<false>(limit, most, each)
                    };
                    assert!(count as usize == shown.len() && count <= most, "seed {seed}");
                    for &(key, value) in &shown {
                        step(&mut steps);
                        assert_eq!(steps.entry(), Some((key, value)), "seed {seed}");
                        let is_within = |limit| if forward { key < limit } else { key > limit };
                        assert!(limit.is_none_or(is_within), "seed {seed}");
                    }
                    assert_eq!(runs.entry(), steps.entry(), "seed {seed}");
                    run_over += count;
                    step(&mut runs);
                    step(&mut steps);
                }
                assert_eq!(steps.entry(), None, "seed {seed}");
            }
        }
        assert!(run_over > 50 * 200, "{run_over} keys were run over");
    }

    /// Callers look at how much memory they have taken between two runs.
    #[test]
    fn a_run_shows_no_more_bytes_than_a_page_has() {
        let (memtable, mut writer) = Memtable::new();
        let (table, at) = (TableId(16), CommitTs(1));
        for key in 0..100_u8 {
            let bytes = if key < 50 { 10_000 } else { 100_000 };
            writer.put(table, &[key], &vec![key; bytes], at);
        }
        let mut cursor = memtable.cursor(table, at);
        cursor.seek_first();
        let mut bytes = 0;
        assert_eq!(cursor.run::<true>(None, u32::MAX, |_, value| bytes += value.len()), 6);
        assert_eq!((bytes, cursor.entry().map(|(key, _)| key)), (60_000, Some(&[6][..])));
        cursor.seek_last();
        assert_eq!(cursor.run::<false>(None, u32::MAX, |_, _| ()), 0, "the next value alone is longer");
    }

    /// Checks that a cursor stops at the end of its span. Otherwise it would walk over all newer keys to the next
    /// visible one.
    #[test]
    fn too_new_keys_are_passed_over_within_the_span_alone() {
        let (memtable, mut writer) = Memtable::new();
        let (table, at) = (TableId(16), CommitTs(1));
        for key in [b"a", b"f", b"z"] {
            writer.put(table, key, b"", at);
        }
        for key in b'b'..b'z' {
            writer.put(table, &[key], b"", CommitTs(2));
        }
        let all = memtable.cursor(table, at);
        let within = |span: Span| memtable.cursor(table, at).within(Some(Arc::new(span)));
        let key = |cursor: &Cursor<'_>| cursor.entry().map(|(key, _)| key[0]);
        for (mut cursor, behind, before) in [
            (all, Some(b'z'), Some(b'a')),
            (within(Span::from("d".."k")), None, None),
            (within(Span::from("d"..)), Some(b'z'), None),
            (within(Span::from(.."k")), None, Some(b'a')),
        ] {
            cursor.seek(b"d");
            assert_eq!(key(&cursor), Some(b'f'));
            cursor.next();
            assert_eq!(key(&cursor), behind);
            cursor.seek_before(b"k");
            assert_eq!(key(&cursor), Some(b'f'));
            cursor.prev();
            assert_eq!(key(&cursor), before);
        }
    }
}
