//! The way down a tree: without a record for a look-up, with a [`Path`] for code that moves or inserts from there.

use crate::node::{Entry, Inner, MAX_LEVELS, MAX_SKIP, Node, NodePtr};
use crate::permutation::Permutation;
use crate::record::Record;
use base::CommitTs;
use base::keys::head8;

/// Returns the newest record of `key` in the tree under `root`.
#[inline]
pub(crate) fn find<'m>(root: NodePtr<'m>, key: &[u8]) -> Option<Record<'m>> {
    let mut at = root;
    while let Some(inner) = at.as_inner() {
        let node = inner.node();
        let permutation = node.permutation();
        at = inner.child(permutation.slot(node.covering(permutation, key)));
        at.prefetch();
    }
    let leaf = at.node();
    let permutation = leaf.permutation();
    let place = leaf.search(permutation, key).ok()?;
    Some(leaf.record(permutation.slot(place)))
}

/// A node as the path read it, and a place in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'m> {
    pub at: NodePtr<'m>,
    pub permutation: Permutation,
    pub place: usize,
}

impl<'m> Frame<'m> {
    #[inline]
    fn new(at: NodePtr<'m>) -> Frame<'m> {
        Frame { at, permutation: at.node().permutation(), place: 0 }
    }

    #[inline]
    pub fn node(&self) -> &'m Node {
        self.at.node()
    }

    #[inline]
    pub fn inner(&self) -> &'m Inner {
        self.at.as_inner().expect("frames above the leaf are inner nodes")
    }

    #[inline]
    pub fn slot(&self) -> usize {
        self.permutation.slot(self.place)
    }
}

/// The separators around a node; `None` at the tree's edges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fences<'m> {
    pub low: Option<Record<'m>>,
    pub high: Option<Record<'m>>,
}

impl Fences<'_> {
    /// Returns how many bytes a node of these entries between the separators skips. If its heads are all equal, that is
    /// all that the separators have in common, because every key between them begins with it; otherwise it is what the
    /// entries skip so far.
    pub fn skip(&self, entries: &[Entry<'_>]) -> usize {
        let (first, last) = (&entries[0], &entries[entries.len() - 1]);
        debug_assert_eq!(first.skip, last.skip);
        self.skip_of((first.head, last.head), first.skip)
    }

    /// Returns how many bytes a node between the separators skips, given its first and last heads and the number of
    /// bytes, `skip`, that it skips so far. For the rule see [`Fences::skip`].
    #[inline]
    pub fn skip_of(&self, (first, last): (u64, u64), skip: usize) -> usize {
        match (self.low, self.high) {
            (Some(low), Some(high)) if first == last => {
                let same = low.key().iter().zip(high.key()).take(MAX_SKIP);
                same.take_while(|(low, high)| low == high).count()
            }
            _ => skip,
        }
    }
}

/// One (node, permutation, place) for each level, from the leaf at 0 to the root. See [`crate::node`] for why it stays
/// valid for readers while the writer continues.
#[derive(Clone, Debug)]
pub(crate) struct Path<'m> {
    frames: [Frame<'m>; MAX_LEVELS],
    root_level: usize,
}

impl<'m> Path<'m> {
    /// Returns the path that ends in the root.
    #[inline]
    pub fn at(root: NodePtr<'m>) -> Path<'m> {
        Path { frames: [Frame::new(root); MAX_LEVELS], root_level: root.level() }
    }

    /// Returns the path to the leaf that covers `key`, and whether the key is there. The leaf's place is that of the
    /// key, or where the key belongs (which may be after the last entry).
    #[inline]
    pub fn to(root: NodePtr<'m>, key: &[u8]) -> (Path<'m>, bool) {
        let mut path = Path::at(root);
        let found = path.descend(key);
        (path, found)
    }

    /// Replaces this path with the one to the leaf that covers `key`. Returns whether the key is there. For the leaf's
    /// place see [`Path::to`].
    pub fn restart(&mut self, root: NodePtr<'m>, key: &[u8]) -> bool {
        self.root_level = root.level();
        self.frames[self.root_level] = Frame::new(root);
        self.descend(key)
    }

    /// Records in the nodes above the leaf that a record of `ts` is about to be published below.
    #[inline]
    pub fn stamp(&self, ts: CommitTs) {
        self.frames[..=self.root_level].iter().skip(1).for_each(|frame| frame.at.stamp(ts));
    }

    /// Moves to the next entry of the leaf's parent, whose permutation is now `permutation`, and to the end of the leaf
    /// there.
    pub fn move_to_next(&mut self, permutation: Permutation) {
        let parent = &mut self.frames[1];
        (parent.permutation, parent.place) = (permutation, parent.place + 1);
        self.enter(1);
        self.frames[0].place = self.frames[0].permutation.len();
    }

    /// Goes from the root to the leaf that covers `key`. Returns whether the key is there.
    #[inline]
    pub fn descend(&mut self, key: &[u8]) -> bool {
        for level in (1..=self.root_level).rev() {
            let frame = &mut self.frames[level];
            frame.place = frame.node().covering(frame.permutation, key);
            self.enter(level);
        }
        self.search_leaf(key)
    }

    /// Sets the leaf that the path ends in, and the place there. The frames above stay what they were.
    #[inline]
    pub fn set_leaf(&mut self, at: NodePtr<'m>, permutation: Permutation, place: usize) {
        self.frames[0] = Frame { at, permutation, place };
    }

    /// Searches the leaf that the path ends in, with the permutation that the path holds. Returns whether the key is
    /// there.
    #[inline]
    pub fn search_leaf(&mut self, key: &[u8]) -> bool {
        let leaf = &mut self.frames[0];
        let found = leaf.node().search(leaf.permutation, key);
        leaf.place = found.unwrap_or_else(|place| place);
        found.is_ok()
    }

    /// Searches the leaf that the path ends in for a key that is probably after all its keys: compares it with the last
    /// one first. Returns whether the key is there.
    #[inline]
    pub fn search_end_of_leaf(&mut self, key: &[u8]) -> bool {
        let leaf = &mut self.frames[0];
        let (node, count) = (leaf.node(), leaf.permutation.len());
        let last = count.checked_sub(1).map(|place| node.head(leaf.permutation.slot(place)));
        if last.is_none_or(|last| last >= head8(&key[node.skip()..])) {
            return self.search_leaf(key);
        }
        leaf.place = count;
        false
    }

    /// Returns the path to the first entry.
    pub fn first(root: NodePtr<'m>) -> Path<'m> {
        let mut path = Path::at(root);
        path.descend_first(path.root_level);
        path
    }

    /// Returns the path to the last entry.
    pub fn last(root: NodePtr<'m>) -> Path<'m> {
        let mut path = Path::at(root);
        path.descend_last(path.root_level);
        path
    }

    /// Returns the separators around the node at `level`: its keys lie from the first up to the second.
    pub fn fences(&self, level: usize) -> Fences<'m> {
        let separator = |frame: &Frame<'m>, place| frame.node().record(frame.permutation.slot(place));
        let above = &self.frames[level + 1..=self.root_level.max(level)];
        let low = above.iter().find(|frame| frame.place > 0);
        let high = above.iter().find(|frame| frame.place + 1 < frame.permutation.len());
        Fences {
            low: low.map(|frame| separator(frame, frame.place)),
            high: high.map(|frame| separator(frame, frame.place + 1)),
        }
    }

    #[inline]
    pub fn leaf(&self) -> &Frame<'m> {
        &self.frames[0]
    }

    #[inline]
    pub fn leaf_mut(&mut self) -> &mut Frame<'m> {
        &mut self.frames[0]
    }

    pub fn frame_mut(&mut self, level: usize) -> &mut Frame<'m> {
        &mut self.frames[level]
    }

    pub fn frame(&self, level: usize) -> &Frame<'m> {
        &self.frames[level]
    }

    pub fn root_level(&self) -> usize {
        self.root_level
    }

    /// Reads the child at the place of the frame at `level` into the frame below, at its first place.
    #[inline]
    pub fn enter(&mut self, level: usize) {
        let frame = &self.frames[level];
        let child = frame.inner().child(frame.slot());
        child.prefetch();
        self.frames[level - 1] = Frame::new(child);
    }

    fn descend_first(&mut self, from: usize) {
        for level in (0..=from).rev() {
            self.frames[level].place = 0;
            if level > 0 {
                self.enter(level);
            }
        }
        self.prefetch_around();
    }

    fn descend_last(&mut self, from: usize) {
        for level in (0..=from).rev() {
            self.frames[level].place = self.frames[level].permutation.len() - 1;
            if level > 0 {
                self.enter(level);
            }
        }
        self.prefetch_around();
    }

    /// Prefetches the records of a leaf that will be walked through, and the leaf after it.
    fn prefetch_around(&self) {
        let leaf = &self.frames[0];
        leaf.node().prefetch_records(leaf.permutation);
        let parent = &self.frames[1.min(self.root_level)];
        if let Some(inner) = parent.at.as_inner()
            && parent.place + 1 < parent.permutation.len()
        {
            inner.child(parent.permutation.slot(parent.place + 1)).prefetch();
        }
    }

    /// Moves to the first entry of the next leaf. Returns false, without moving, if this is the last.
    pub fn next_leaf(&mut self) -> bool {
        let moved = self.next_entry(1);
        if moved {
            self.enter(1);
            self.descend_first(0);
        }
        moved
    }

    /// Returns the next leaf, at its first entry, or the previous one, at its last, if it has the same parent.
    /// [`Path::move_to_sibling`] moves there.
    #[inline]
    pub fn sibling<const FORWARD: bool>(&self) -> Option<Frame<'m>> {
        let parent = &self.frames[1.min(self.root_level)];
        let inner = parent.at.as_inner()?;
        let place = if FORWARD { parent.place.checked_add(1) } else { parent.place.checked_sub(1) };
        let place = place.filter(|&place| place < parent.permutation.len())?;
        let mut sibling = Frame::new(inner.child(parent.permutation.slot(place)));
        sibling.place = if FORWARD { 0 } else { sibling.permutation.len() - 1 };
        Some(sibling)
    }

    /// Moves to what [`Path::sibling`] has just returned.
    pub fn move_to_sibling<const FORWARD: bool>(&mut self, sibling: Frame<'m>) {
        let place = &mut self.frames[1].place;
        *place = if FORWARD { *place + 1 } else { *place - 1 };
        self.frames[0] = sibling;
        self.prefetch_around();
    }

    /// Moves to the next entry of the frame at `level`, or to the first of the next node at that level. Returns false,
    /// without moving, if there is none. The frames below stay where they were: call [`Path::enter`] next, or move
    /// again.
    pub fn next_entry(&mut self, level: usize) -> bool {
        let behind = |frame: &Frame<'_>| frame.place + 1 < frame.permutation.len();
        let Some(from) = (level..=self.root_level).find(|&from| behind(&self.frames[from])) else {
            return false;
        };
        self.frames[from].place += 1;
        for above in (level + 1..=from).rev() {
            self.enter(above);
        }
        true
    }

    /// Moves to the last entry of the previous leaf. Returns false, without moving, if this is the first.
    pub fn prev_leaf(&mut self) -> bool {
        let Some(level) = (1..=self.root_level).find(|&level| self.frames[level].place > 0) else {
            return false;
        };
        self.frames[level].place -= 1;
        self.enter(level);
        self.descend_last(level - 1);
        true
    }
}
