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
//! 5. The keys of a commit ascend. The search for each begins in the leaf of the one before, and those that belong
//!    after a full leaf that grew at its end go into the next leaf together, which readers see when it is complete.

use crate::arena::{Arena, Bump};
use crate::node::{Entry, Inner, Node, NodePtr, NodeSlot};
use crate::permutation::{Permutation, SLOTS};
use crate::record::Record;
use crate::search::{Fences, Frame, Path};
use base::CommitTs;
use base::Value;
use base::keys::head8;

/// The number of entries up to which an inner node whose slots are used up is copied rather than split: three quarters,
/// so that the copy has slots for two splits below it.
const COPY_AT_MOST: usize = SLOTS * 3 / 4;
/// The number of entries of a split leaf, one more than before, that go into the first half.
const HALF: usize = SLOTS.div_ceil(2);

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

/// The leaf of the last insert. The next key is inserted there without a search from the root, if it is before the
/// separator after the leaf. It is not before the separator in front of it, because keys ascend.
#[derive(Debug)]
struct Finger<'m> {
    path: Path<'m>,
    high: Option<Record<'m>>,
    /// The number of new keys in the leaf so far, each in the place after the one before, and the place after the last.
    streak: usize,
    next_place: usize,
}

impl<'m> Finger<'m> {
    /// Goes from `root` to the leaf that covers `key`, where a record of `ts` is about to be inserted. Returns whether
    /// the key is there.
    fn seek(&mut self, root: NodePtr<'m>, key: &[u8], ts: CommitTs) -> bool {
        let found = self.path.restart(root, key);
        self.high = self.path.fences(0).high;
        self.streak = 0;
        self.path.stamp(ts);
        found
    }

    /// Returns whether `key`, which is after the last one, belongs into the leaf.
    #[inline]
    fn holds(&self, key: &[u8]) -> bool {
        is_before(key, self.high)
    }

    /// Notes a new key at `place` of the leaf.
    #[inline]
    fn note(&mut self, place: usize) {
        self.streak = if self.streak > 0 && place == self.next_place { self.streak + 1 } else { 1 };
        self.next_place = place + 1;
    }

    /// Returns how many entries of the full leaf, with the new one at `place`, go into the first half of a split. A
    /// streak of ascending keys is cut off from the entries after it. Short ones do not pay for two leaves: the upper
    /// bound of what a record costs (`RECORD_COST`) assumes that a leaf took half its entries since it was made.
    fn middle(&self, place: usize) -> usize {
        if self.streak + 1 >= HALF && place == self.next_place { (place + 1).min(SLOTS) } else { HALF }
    }
}

/// Returns whether `key` is before the separator `high`; there is none at the tree's end.
#[inline]
fn is_before(key: &[u8], high: Option<Record<'_>>) -> bool {
    high.is_none_or(|high| key < high.key())
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

    /// Inserts `changes`, whose keys strictly ascend and which share the timestamp `ts`, into a tree that is not empty.
    /// Returns how many there were.
    pub fn extend<'a>(&mut self, ts: CommitTs, changes: &mut impl Iterator<Item = Change<'a>>) -> u64 {
        let mut ahead = changes.next();
        let Some(root) = self.root.load().filter(|_| ahead.is_some()) else { return 0 };
        let mut finger = Finger { path: Path::at(root), high: None, streak: 0, next_place: 0 };
        let (mut records, mut is_there) = (0, false);
        while let Some(change) = ahead.take() {
            let found = if is_there && finger.holds(change.key) {
                finger.path.search_end_of_leaf(change.key)
            } else {
                finger.seek(self.root.load().expect("trees keep their roots"), change.key, ts)
            };
            let leaf = *finger.path.leaf();
            records += 1;
            if found || leaf.permutation.len() < SLOTS {
                self.insert_in_leaf(&mut finger.path, found, change);
                is_there = true;
                if !found {
                    finger.note(leaf.place);
                }
            } else if leaf.place == SLOTS && leaf.permutation.grew_at_its_end() {
                let more;
                (is_there, more, ahead) = self.append_leaf(&mut finger, change, changes);
                records += more;
                continue;
            } else {
                let entry = self.entry(&leaf, change);
                let middle = finger.middle(leaf.place);
                self.split_leaf(&mut finger.path, &entry, middle);
                is_there = false;
            }
            ahead = changes.next();
        }
        records
    }

    /// Does step 5 after `finger`'s leaf, which is full: puts `first`, and as many of `changes` as belong after it and
    /// fit, into a new leaf. Returns whether the finger is at that leaf, how many of `changes` were taken, and the one
    /// that was not.
    fn append_leaf<'a>(
        &mut self,
        finger: &mut Finger<'m>,
        first: Change<'_>,
        changes: &mut impl Iterator<Item = Change<'a>>,
    ) -> (bool, u64, Option<Change<'a>>) {
        let full = *finger.path.leaf();
        let mut entries = [self.entry(&full, first); SLOTS];
        let (mut count, mut ahead) = (1, changes.next());
        while count < SLOTS
            && let Some(change) = ahead.filter(|change| is_before(change.key, finger.high))
        {
            entries[count] = self.entry(&full, change);
            (count, ahead) = (count + 1, changes.next());
        }
        finger.streak = 0;
        let right = self.leaf_after(&finger.path, &entries[..count], first.ts);
        (self.add_after(&mut finger.path, right), count as u64 - 1, ahead)
    }

    /// Makes the first record of the tree.
    #[cold]
    fn plant(&mut self, change: Change<'_>) {
        let record = self.record(change, None);
        let entry = Entry { head: head8(change.key), skip: 0, record, child: None };
        let leaf = self.leaf(&[entry], change.ts, 0);
        self.root.store(leaf);
    }

    /// Inserts at the end of `path`.
    #[inline]
    fn insert_at(&mut self, path: &mut Path<'m>, found: bool, change: Change<'_>) {
        path.stamp(change.ts);
        let leaf = *path.leaf();
        if found || leaf.permutation.len() < SLOTS {
            return self.insert_in_leaf(path, found, change);
        }
        let entry = self.entry(&leaf, change);
        if leaf.place == SLOTS && leaf.permutation.grew_at_its_end() {
            let right = self.leaf_after(path, &[entry], change.ts);
            self.add_after(path, right);
        } else {
            self.split_leaf(path, &entry, HALF);
        }
    }

    /// Does step 1 if the key was `found`, else step 2: the leaf has a free slot. The nodes above have their stamp.
    #[inline]
    fn insert_in_leaf(&mut self, path: &mut Path<'m>, found: bool, change: Change<'_>) {
        let leaf = *path.leaf();
        let node = leaf.node();
        node.stamp(change.ts);
        if found {
            let older = node.record(leaf.slot());
            return node.set_record(leaf.slot(), self.record(change, Some(older)));
        }
        let slot = leaf.permutation.len();
        node.fill(slot, &self.entry(&leaf, change));
        let permutation = leaf.permutation.insert(leaf.place, slot);
        node.publish(permutation);
        path.leaf_mut().permutation = permutation;
    }

    /// Writes the record of `change`, and returns its entry for `leaf`.
    #[inline]
    fn entry(&mut self, leaf: &Frame<'m>, change: Change<'_>) -> Entry<'m> {
        let (skip, record) = (leaf.node().skip(), self.record(change, None));
        Entry { head: head8(&change.key[skip..]), skip, record, child: None }
    }

    /// Replaces the full leaf of `path` by two, the first of which has `middle` of its entries and `entry`.
    fn split_leaf(&mut self, path: &mut Path<'m>, entry: &Entry<'m>, middle: usize) {
        let full = path.leaf();
        let (ts, before) = (entry.record.ts(), full.node().newest());
        let entries = crowd(full, full.place, entry);
        let (left, right) = entries.split_at(middle);
        let (left_skip, right_skip) = skips(path.fences(0), left, right);
        let newest = |inserted: bool| if inserted { ts.max(before) } else { before };
        let inserted_left = full.place < left.len();
        let left_leaf = self.leaf(left, newest(inserted_left), left_skip);
        let right_leaf = self.leaf(right, newest(!inserted_left), right_skip);
        let left = Entry { child: Some(left_leaf), ..left[0] };
        self.add_child(path, Some(left), Entry { child: Some(right_leaf), ..right[0] }, false);
    }

    /// Makes a leaf of `entries`, new ones of `ts` that belong after the full leaf of `path`. Returns its entry for the
    /// parent.
    fn leaf_after(&mut self, path: &Path<'m>, entries: &[Entry<'m>], ts: CommitTs) -> Entry<'m> {
        let skip = Fences { low: Some(entries[0].record), ..path.fences(0) }.skip(entries);
        Entry { child: Some(self.leaf(entries, ts, skip)), ..entries[0] }
    }

    /// Adds `right` after the full leaf of `path`, which grew at its end. The leaf stays, unless a copy can skip more.
    /// Returns whether the path leads to `right` now.
    fn add_after(&mut self, path: &mut Path<'m>, right: Entry<'m>) -> bool {
        let full = *path.leaf();
        let ends = [entry(&full, 0), entry(&full, SLOTS - 1)];
        let skip = Fences { high: Some(right.record), ..path.fences(0) }.skip(&ends);
        let left = (skip != full.node().skip()).then(|| {
            let entries: [Entry<'m>; SLOTS] = std::array::from_fn(|place| entry(&full, place));
            let leaf = self.leaf(&entries, full.node().newest(), skip);
            Entry { child: Some(leaf), ..entries[0] }
        });
        self.add_child(path, left, right, true)
    }

    /// Does steps 3 and 4 for the levels above the leaf, after the node below `path`'s frame at level 1 was split.
    /// `left` takes its place (`None`: the node stays), and `right` comes after it. `at_end` says that all old entries
    /// are in the left one. Returns whether the path leads to `right` now; otherwise it is not valid any longer.
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
                let copy = self.inner(&entries[..count], level, newest, skip);
                self.exchange(path, level, copy);
                return false;
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

/// Does step 3 for a parent that has slots for it, and returns its new permutation.
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
