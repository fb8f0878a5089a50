//! Inserting into a tree, by its one writer. [`crate::node`] says what may be done to a node that is published.
//!
//! 1. If the key exists, its slot gets the new record, which leads to the old ones.
//! 2. If the leaf has a free slot, the slot is filled and the permutation published.
//! 3. If the leaf is full, its entries and the new one are copied into two new leaves, which take its place in the
//!    parent by one permutation. A leaf that grew at its end stays, and only the new entry goes into a leaf of its own
//!    after it. So ascending keys fill nodes to the last slot and copy nothing, unless the heads of the full node are
//!    all the same and a copy between two separators can skip the bytes that make them so.
//! 4. If the parent has no free slots and few live entries, it is copied into a node that has free slots, which takes
//!    its place in a slot of the grandparent. If it has many, it is split as in (3), and so on up to a new root.

use crate::arena::{Arena, Bump};
use crate::node::{Entry, Inner, Node, NodePtr, NodeSlot};
use crate::permutation::SLOTS;
use crate::record::{Found, Record};
use crate::search::{Fences, Frame, Path};
use base::CommitTs;
use base::keys::head8;

/// The number of entries up to which an inner node whose slots are used up is copied rather than split: three quarters,
/// so that the copy has slots for two splits below it.
const COPY_AT_MOST: usize = SLOTS * 3 / 4;

/// A change of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub ts: CommitTs,
    pub key: &'a [u8],
    pub value: Found<'a>,
}

/// The writer's access to one tree.
#[derive(Debug)]
pub(crate) struct Tree<'m, 'w> {
    pub arena: &'m Arena,
    pub bump: &'w mut Bump,
    pub root: &'m NodeSlot,
}

/// The leaf of the last insert. The next key is inserted there without a search from the root, if it is between the
/// leaf's separators.
#[derive(Debug)]
pub(crate) struct Finger<'m> {
    path: Path<'m>,
    fences: Fences<'m>,
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

    /// Does what [`Tree::insert`] does, for keys that come in order: looks in the leaf of the last insert first.
    pub fn insert_near(&mut self, finger: &mut Option<Finger<'m>>, change: Change<'_>) {
        let Some(root) = self.root.load() else {
            return self.plant(change);
        };
        let near = finger.take().filter(|finger| finger.fences.hold(change.key));
        let (mut near, found) = match near {
            Some(mut near) => {
                let found = near.path.search_end_of_leaf(change.key);
                (near, found)
            }
            None => {
                let (path, found) = Path::to(root, change.key);
                let fences = path.fences(0);
                (Finger { path, fences }, found)
            }
        };
        if self.insert_at(&mut near.path, found, change) {
            *finger = Some(near);
        }
    }

    /// Makes the first record of the tree.
    #[cold]
    fn plant(&mut self, change: Change<'_>) {
        let record = self.record(change, None);
        let entry = Entry { head: head8(change.key), skip: 0, record, child: None };
        let leaf = self.leaf(&[entry], change.ts, 0);
        self.root.store(leaf);
    }

    /// Inserts at the end of `path`. Returns false when nodes were replaced, so that the path is no longer valid for
    /// the writer.
    #[inline]
    fn insert_at(&mut self, path: &mut Path<'m>, found: bool, change: Change<'_>) -> bool {
        for level in 1..=path.root_level() {
            path.frame(level).at.stamp(change.ts);
        }
        let leaf = *path.leaf();
        let node = leaf.node();
        if found {
            node.stamp(change.ts);
            let older = node.record(leaf.slot());
            node.set_record(leaf.slot(), self.record(change, Some(older)));
            return true;
        }
        let (skip, record) = (node.skip(), self.record(change, None));
        let entry = Entry { head: head8(&change.key[skip..]), skip, record, child: None };
        let slot = leaf.permutation.len();
        if slot == SLOTS {
            self.split_leaf(path, &entry);
            return false;
        }
        node.stamp(change.ts);
        node.fill(slot, &entry);
        let permutation = leaf.permutation.insert(leaf.place, slot);
        node.publish(permutation);
        path.leaf_mut().permutation = permutation;
        true
    }

    fn split_leaf(&mut self, path: &Path<'m>, entry: &Entry<'m>) {
        let full = path.leaf();
        let (ts, before) = (entry.record.ts(), full.node().newest());
        let at_end = full.place == SLOTS && full.permutation.grew_at_its_end();
        let entries = crowd(full, full.place, entry);
        let (left, right) = entries.split_at(if at_end { SLOTS } else { entries.len() / 2 });
        let (left_skip, right_skip) = skips(path.fences(0), left, right);
        let newest = |inserted: bool| if inserted { ts.max(before) } else { before };
        let inserted_left = full.place < left.len();
        let stays = at_end && left_skip == full.node().skip();
        let left = (!stays).then(|| {
            let leaf = self.leaf(left, newest(inserted_left), left_skip);
            Entry { child: Some(leaf), ..left[0] }
        });
        let right_leaf = self.leaf(right, newest(!inserted_left), right_skip);
        self.add_child(path, left, Entry { child: Some(right_leaf), ..right[0] }, at_end);
    }

    /// Does steps 3 and 4 for the levels above the leaf, after the node below `path`'s frame at level 1 was split.
    /// `left` takes its place (`None`: the node stays), and `right` comes after it. `at_end` says that all old entries
    /// are in the left one.
    fn add_child(
        &mut self,
        path: &Path<'m>,
        mut left: Option<Entry<'m>>,
        mut right: Entry<'m>,
        mut at_end: bool,
    ) {
        for level in 1..=path.root_level() {
            let frame = path.frame(level);
            let halved = left.map(|left| with_separator(frame, left));
            if add_in_place(frame, halved.as_ref(), &right) {
                return;
            }
            let (newest, skip) = (frame.at.newest(), frame.node().skip());
            let mut entries = crowd(frame, frame.place + 1, &right);
            if let Some(halved) = halved {
                entries[frame.place] = halved.behind(skip);
            }
            let count = frame.permutation.len() + 1;
            if count <= COPY_AT_MOST {
                let copy = self.inner(&entries[..count], level, newest, skip);
                return self.exchange(path, level, copy);
            }
            at_end &= frame.place + 2 == count;
            let (lower, upper) = entries[..count].split_at(if at_end { count - 1 } else { count / 2 });
            let (lower_skip, upper_skip) = skips(path.fences(level), lower, upper);
            let stays = at_end && left.is_none() && lower_skip == skip;
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

    #[inline]
    pub fn record(&mut self, change: Change<'_>, older: Option<Record<'m>>) -> Record<'m> {
        Record::create(self.bump, self.arena, change.ts, change.key, change.value, older)
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

/// Does step 3 for a parent that has slots for it.
fn add_in_place<'m>(frame: &Frame<'m>, left: Option<&Entry<'m>>, right: &Entry<'m>) -> bool {
    let inner = frame.inner();
    if inner.room() < 1 + usize::from(left.is_some()) {
        return false;
    }
    let mut permutation = frame.permutation;
    if let Some(left) = left {
        permutation = permutation.replace(frame.place, inner.append(left));
    }
    frame.node().publish(permutation.insert(frame.place + 1, inner.append(right)));
    true
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
