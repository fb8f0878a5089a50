//! Inserting into a tree, by its one writer. [`crate::node`] says what may be done to a node that is published.
//!
//! 1. If the key exists, its slot gets the new record, which leads to the old ones.
//! 2. If the leaf has a free slot, the slot is filled and the permutation published.
//! 3. If the leaf is full, its entries and the new one are copied into two new leaves, which take its place in the
//!    parent by one permutation. A leaf that grew at its end stays, and only the new entry goes into a leaf of its own
//!    after it. So ascending keys fill nodes to the last slot and copy nothing, unless the heads of the full node are
//!    all the same and a copy between two separators can skip the bytes that make them so. Keys of one commit that
//!    ascend inside a leaf are cut off from the larger ones after them by a split, and then grow at a leaf's end, too.
//! 4. If the parent has no free slots and few live entries, it is copied into a node that has free slots, which takes
//!    its place in a slot of the grandparent. If it has many, it is split as in (3), and so on up to a new root.

use crate::arena::{Arena, Bump};
use crate::node::{Entry, Inner, Node, NodePtr, NodeSlot};
use crate::permutation::{Permutation, SLOTS};
use crate::record::{Draft, Record};
use crate::search::{Fences, Frame, Path};
use base::CommitTs;
use base::Value;
use base::keys::head8;
use std::ops::Range;

/// The number of entries up to which an inner node whose slots are used up is copied rather than split: three quarters,
/// so that the copy has slots for two splits below it.
const COPY_AT_MOST: usize = SLOTS * 3 / 4;
/// The number of entries of a split leaf, one more than before, that go into the first half.
pub(crate) const HALF: usize = SLOTS.div_ceil(2);

/// A change of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub ts: CommitTs,
    pub key: &'a [u8],
    pub value: Value<'a>,
}

/// The writer's access to one tree.
#[derive(Debug)]
pub(crate) struct Tree<'m, 'w> {
    pub arena: &'m Arena,
    pub bump: &'w mut Bump,
    pub root: &'m NodeSlot,
}

impl<'m> Tree<'m, '_> {
    /// Inserts one version of one key.
    #[inline]
    pub fn insert(&mut self, change: Change<'_>) {
        let Some(root) = self.root.load() else {
            return self.plant(change);
        };
        let (mut path, found) = Path::to(root, change.key);
        self.insert_at(&mut path, found, change);
    }

    /// Makes the first record of the tree.
    #[cold]
    fn plant(&mut self, change: Change<'_>) {
        let record = self.draft(change).finish(change.ts, None);
        let entry = Entry { head: head8(change.key), skip: 0, record, child: None };
        let leaf = self.leaf(&[entry], change.ts, 0);
        self.root.store(leaf);
    }

    /// Inserts at the end of `path`.
    #[inline]
    fn insert_at(&mut self, path: &mut Path<'m>, found: bool, change: Change<'_>) {
        path.stamp(change.ts);
        let (leaf, draft) = (*path.leaf(), self.draft(change));
        if found || leaf.permutation.len() < SLOTS {
            return self.insert_in_leaf(path, found, &draft, change.ts);
        }
        let entry = entry_of(&leaf, draft.finish(change.ts, None));
        if leaf.place == SLOTS && leaf.permutation.grew_at_its_end() {
            let skip = Fences { low: Some(entry.record), ..path.fences(0) }.skip(&[entry]);
            let child = Some(self.leaf(&[entry], change.ts, skip));
            self.add_after(path, Entry { child, ..entry });
        } else {
            self.split_leaf(path, &entry, HALF);
        }
    }

    /// Gives the key's slot the new record if the key was `found`, else fills a free slot, which the leaf has (steps 1
    /// and 2). The nodes above have their stamp.
    #[inline]
    pub fn insert_in_leaf(&mut self, path: &mut Path<'m>, found: bool, draft: &Draft<'m>, ts: CommitTs) {
        let leaf = *path.leaf();
        let node = leaf.node();
        node.stamp(ts);
        if found {
            let older = node.record(leaf.slot());
            return node.set_record(leaf.slot(), draft.finish(ts, Some(older)));
        }
        let slot = leaf.permutation.len();
        node.fill(slot, &entry_of(&leaf, draft.finish(ts, None)));
        let permutation = leaf.permutation.insert(leaf.place, slot);
        node.publish(permutation);
        path.leaf_mut().permutation = permutation;
    }

    /// Replaces the full leaf of `path` by two, the first of which has `middle` of its entries and `added`.
    pub fn split_leaf(&mut self, path: &mut Path<'m>, added: &Entry<'m>, middle: usize) {
        let full = *path.leaf();
        let (node, skip) = (full.node(), full.node().skip());
        let pair = |place: usize| {
            if place == full.place {
                return (added.head, added.record);
            }
            let slot = full.permutation.slot(place - usize::from(place > full.place));
            (node.head(slot), node.record(slot))
        };
        let (ts, before) = (added.record.ts(), node.newest());
        let separator = Some(pair(middle).1);
        let mut half = |places: Range<usize>, low: bool| {
            let (ends, inserted) = ((pair(places.start), pair(places.end - 1)), places.contains(&full.place));
            let newest = if inserted { ts.max(before) } else { before };
            let mut own_skip = skip;
            if ends.0.0 == ends.1.0 {
                let fences = path.fences(0);
                let fences = match low {
                    true => Fences { high: separator, ..fences },
                    false => Fences { low: separator, ..fences },
                };
                own_skip = fences.skip_of((ends.0.0, ends.1.0), skip);
            }
            let leaf = match own_skip == skip {
                true => Node::of_records(places.map(pair), newest, skip),
                false => {
                    let again = |(_, record): (u64, Record<'m>)| (head8(&record.key()[own_skip..]), record);
                    Node::of_records(places.map(pair).map(again), newest, own_skip)
                }
            };
            let child = Some(NodePtr::leaf(self.bump.place(self.arena, leaf)));
            Entry { head: ends.0.0, skip, record: ends.0.1, child }
        };
        let (left, right) = (half(0..middle, true), half(middle..SLOTS + 1, false));
        self.add_child(path, Some(left), right, false);
    }

    /// Adds `right` after the full leaf of `path`, which grew at its end. The leaf stays, unless a copy can skip more.
    /// Returns whether the path leads to `right` now.
    pub fn add_after(&mut self, path: &mut Path<'m>, right: Entry<'m>) -> bool {
        let full = *path.leaf();
        let (node, first, last) = (full.node(), full.permutation.slot(0), full.permutation.slot(SLOTS - 1));
        let ends = (node.head(first), node.head(last));
        let skip = match ends.0 == ends.1 {
            true => Fences { high: Some(right.record), ..path.fences(0) }.skip_of(ends, node.skip()),
            false => node.skip(),
        };
        let left = (skip != node.skip()).then(|| {
            let entries: [Entry<'m>; SLOTS] = std::array::from_fn(|place| entry(&full, place));
            let leaf = self.leaf(&entries, node.newest(), skip);
            Entry { child: Some(leaf), ..entries[0] }
        });
        self.add_child(path, left, right, true)
    }

    /// Enters a split in the levels above the leaf (steps 3 and 4), after the node below `path`'s frame at level 1 was
    /// split. `left` takes its place (`None`: the node stays), and `right` comes after it. `at_end` says that all old
    /// entries are in the left one. Returns whether the path leads to `right` now; otherwise it is not valid any
    /// longer.
    fn add_child(
        &mut self,
        path: &mut Path<'m>,
        mut left: Option<Entry<'m>>,
        mut right: Entry<'m>,
        mut at_end: bool,
    ) -> bool {
        for level in 1..=path.root_level() {
            let frame = path.frame(level);
            let halved = left.map(|left| with_separator(frame, left));
            if let Some(permutation) = add_in_place(frame, halved.as_ref(), &right) {
                if level == 1 {
                    path.move_to_next(permutation);
                }
                return level == 1;
            }
            let (newest, skip) = (frame.at.newest(), frame.node().skip());
            let mut entries = crowd(frame, frame.place + 1, &right);
            if let Some(halved) = halved {
                entries[frame.place] = halved.behind(skip);
            }
            let count = frame.permutation.len() + 1;
            if count <= COPY_AT_MOST {
                frame.inner().retire();
                let copy = self.inner(&entries[..count], level, newest, skip);
                self.exchange(path, level, copy);
                return false;
            }
            at_end &= frame.place + 2 == count;
            let (lower, upper) = entries[..count].split_at(if at_end { count - 1 } else { count / 2 });
            let (lower_skip, upper_skip) = skips(path.fences(level), lower, upper);
            let stays = at_end && left.is_none() && lower_skip == skip;
            if !stays {
                frame.inner().retire();
            }
            let mut half = |entries: &[Entry<'m>], skip: usize| {
                let child = self.inner(entries, level, newest, skip);
                Entry { child: Some(child), ..entries[0] }
            };
            left = (!stays).then(|| half(lower, lower_skip));
            right = half(upper, upper_skip);
        }
        let old = path.frame(path.root_level());
        let whole = Entry { child: Some(old.at), ..entry(old, 0) };
        let first = left.unwrap_or(whole);
        let newest = old.at.newest().max(right.record.ts());
        let root = self.inner(&[first, right], path.root_level() + 1, newest, 0);
        self.root.store(root);
        false
    }

    /// Publishes `copy` in the place of `path`'s node at `level`, whose entries it has.
    fn exchange(&self, path: &Path<'m>, level: usize, copy: NodePtr<'m>) {
        if level == path.root_level() {
            self.root.store(copy);
        } else {
            let parent = path.frame(level + 1);
            parent.inner().set_child(parent.slot(), copy);
        }
    }

    /// Writes the draft of `change`.
    #[inline]
    pub fn draft(&mut self, change: Change<'_>) -> Draft<'m> {
        Draft::write(self.bump, self.arena, change.key, change.value)
    }

    pub fn leaf(&mut self, entries: &[Entry<'m>], newest: CommitTs, skip: usize) -> NodePtr<'m> {
        NodePtr::leaf(self.bump.place(self.arena, Node::with(entries, newest, skip)))
    }

    pub fn inner(
        &mut self,
        entries: &[Entry<'m>],
        level: usize,
        newest: CommitTs,
        skip: usize,
    ) -> NodePtr<'m> {
        NodePtr::inner(self.bump.place(self.arena, Inner::with(entries, newest, skip)), level)
    }
}

/// Returns how many bytes each half of a node between `fences` skips.
fn skips<'m>(fences: Fences<'m>, left: &[Entry<'m>], right: &[Entry<'m>]) -> (usize, usize) {
    let middle = Some(right[0].record);
    (Fences { high: middle, ..fences }.skip(left), Fences { low: middle, ..fences }.skip(right))
}

/// Returns the entry that replaces `frame`'s: `left`, below the same separator. A first child has keys below its
/// separator, so its right half may begin below it; then `left`'s own first key is the separator.
fn with_separator<'m>(frame: &Frame<'m>, left: Entry<'m>) -> Entry<'m> {
    if frame.place == 0 {
        return left;
    }
    Entry { child: left.child, ..entry(frame, frame.place) }
}

/// Puts the halves of a split node into a parent that has slots for them, and returns its new permutation; `None` if it
/// lacks slots (step 3).
fn add_in_place<'m>(frame: &Frame<'m>, left: Option<&Entry<'m>>, right: &Entry<'m>) -> Option<Permutation> {
    let inner = frame.inner();
    if inner.room() < 1 + usize::from(left.is_some()) {
        return None;
    }
    let mut permutation = frame.permutation;
    if let Some(left) = left {
        permutation = permutation.replace(frame.place, inner.append(left));
    }
    permutation = permutation.insert(frame.place + 1, inner.append(right));
    frame.node().publish(permutation);
    Some(permutation)
}

/// Returns the entry of `record`, a new one, for `leaf`.
#[inline]
pub(crate) fn entry_of<'m>(leaf: &Frame<'m>, record: Record<'m>) -> Entry<'m> {
    let skip = leaf.node().skip();
    Entry { head: head8(&record.key()[skip..]), skip, record, child: None }
}

/// Returns the entry of `frame`'s node at `place`.
fn entry<'m>(frame: &Frame<'m>, place: usize) -> Entry<'m> {
    let (node, slot) = (frame.node(), frame.permutation.slot(place));
    Entry {
        head: node.head(slot),
        skip: node.skip(),
        record: node.record(slot),
        child: frame.at.as_inner().map(|inner| inner.child(slot)),
    }
}

/// Returns the entries of `frame`'s node, with `added` at `place`. A copy of `added` fills the rest, after the count.
fn crowd<'m>(frame: &Frame<'m>, place: usize, added: &Entry<'m>) -> [Entry<'m>; SLOTS + 1] {
    let mut entries = [added.behind(frame.node().skip()); SLOTS + 1];
    for from in 0..frame.permutation.len() {
        entries[from + usize::from(from >= place)] = entry(frame, from);
    }
    entries
}
