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
    use crate::Memtable;
    use base::{CommitTs, Span, TableId};
    use std::sync::Arc;

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
        let key = |cursor: &crate::Cursor<'_>| cursor.entry().map(|(key, _)| key[0]);
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
