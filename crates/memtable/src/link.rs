//! Inserting the changes of a commit, whose keys ascend.
//!
//! 1. The search for each key begins in the leaf of the one before ([`Finger`]). If the key does not belong there, its
//!    [`Hint`] is followed, or it is searched from the root.
//! 2. Keys that belong after the last one of a leaf are put there together, and become visible with one permutation.
//! 3. Those that belong after a full leaf that grew at its end go into the next leaf together, which readers see when
//!    it is complete.

use crate::hint::Hint;
use crate::insert::{Change, HALF, Tree, entry_of};
use crate::node::{Entry, Node, NodePtr};
use crate::permutation::SLOTS;
use crate::record::{Draft, Record};
use crate::search::{Fences, Path};
use base::CommitTs;
use base::keys::head8;

/// The number of records that are written before they are linked, where nothing wrote them earlier.
const AHEAD: usize = 2 * SLOTS;

/// The leaf of the last insert. The next key is inserted there without a search from the root, if it is before the
/// separator after the leaf. It is not before the separator in front of it, because keys ascend.
#[derive(Debug)]
pub(crate) struct Finger<'m> {
    path: Path<'m>,
    /// Whether the path leads to a leaf. If not, the next key is searched from the root.
    is_there: bool,
    /// Whether it leads there from the root. If not, only the leaf is known.
    has_path: bool,
    high: Option<Record<'m>>,
    /// The number of new keys in the leaf so far, each in the place after the one before, and the place after the last.
    streak: usize,
    next_place: usize,
}

impl<'m> Finger<'m> {
    /// Returns a finger that is nowhere in the tree under `root` yet.
    pub fn new(root: NodePtr<'m>) -> Finger<'m> {
        Finger {
            path: Path::at(root),
            is_there: false,
            has_path: false,
            high: None,
            streak: 0,
            next_place: 0,
        }
    }

    /// Goes from `root` to the leaf that covers `key`, where a record of `ts` is about to be inserted. Returns whether
    /// the key is there.
    fn seek(&mut self, root: NodePtr<'m>, key: &[u8], ts: CommitTs) -> bool {
        let found = self.find_path(root, key);
        self.streak = 0;
        self.path.stamp(ts);
        found
    }

    /// Goes from `root` to the leaf that covers `key`, without stamping the nodes above it. Returns whether the key is
    /// there.
    fn find_path(&mut self, root: NodePtr<'m>, key: &[u8]) -> bool {
        let found = self.path.restart(root, key);
        (self.high, self.has_path) = (self.path.fences(0).high, true);
        found
    }

    /// Goes by `hint` to the leaf that covers `key`, where a record of `ts` is about to be inserted. Returns whether
    /// the key is there; `None` if the hint no longer leads to the leaf. Otherwise the path has only the leaf.
    #[inline]
    fn follow(&mut self, hint: &Hint<'m>, root: NodePtr<'m>, key: &[u8], ts: CommitTs) -> Option<bool> {
        let found = hint.follow(root, key, ts, &mut self.path)?;
        (self.high, self.has_path, self.streak) = (hint.high, false, 0);
        Some(found)
    }

    /// Returns whether `key`, which is after the last one, belongs into the leaf.
    #[inline]
    fn holds(&self, key: &[u8]) -> bool {
        is_before(key, self.high)
    }

    /// Returns how many of `drafts`, the first of which belongs into the leaf or right after it, do so: `most` at most.
    #[inline]
    fn run(&self, drafts: &[Draft<'m>], most: usize) -> usize {
        let drafts = &drafts[..most.min(drafts.len())];
        match self.holds(drafts[drafts.len() - 1].key()) {
            true => drafts.len(),
            false => 1 + drafts[1..].iter().take_while(|draft| self.holds(draft.key())).count(),
        }
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

/// Calls `hint` with hints for those of `drafts`, whose keys strictly ascend, that are not in the leaf of the one
/// before, for `most` at most. Any thread may search.
pub(crate) fn search_ahead<'m>(
    root: NodePtr<'m>,
    drafts: &[Draft<'m>],
    mut most: usize,
    mut hint: impl FnMut(Hint<'m>),
) {
    let (mut path, mut high) = (Path::at(root), None);
    for (number, draft) in drafts.iter().enumerate() {
        if number > 0 && is_before(draft.key(), high) {
            continue;
        }
        if most == 0 {
            return;
        }
        most -= 1;
        let found = path.restart(root, draft.key());
        high = path.fences(0).high;
        Hint::of(&path, found, number, high).into_iter().for_each(&mut hint);
    }
}

/// Returns whether `key` is before the separator `high`; there is none at the tree's end.
#[inline]
fn is_before(key: &[u8], high: Option<Record<'_>>) -> bool {
    high.is_none_or(|high| key < high.key())
}

impl<'m> Tree<'m, '_> {
    /// Inserts `changes`, whose keys strictly ascend and which share the timestamp `ts`, into a tree that is not empty.
    /// Returns how many there were.
    pub fn extend<'a>(&mut self, ts: CommitTs, changes: &mut impl Iterator<Item = Change<'a>>) -> u64 {
        let Some(mut finger) = self.root.load().map(Finger::new) else { return 0 };
        let (mut ahead, mut records) = ([const { Draft::none() }; AHEAD], 0);
        loop {
            let mut count = 0;
            while count < AHEAD
                && let Some(change) = changes.next()
            {
                ahead[count] = self.draft(change);
                count += 1;
            }
            if count == 0 {
                return records;
            }
            self.link(&mut finger, ts, &ahead[..count], &[]);
            records += count as u64;
        }
    }

    /// Inserts `drafts`, whose keys strictly ascend, as changes of `ts`. The keys that `finger` was used for are before
    /// them. Of `hints`, which ascend, those for the drafts say where they belong.
    pub fn link(&mut self, finger: &mut Finger<'m>, ts: CommitTs, drafts: &[Draft<'m>], hints: &[Hint<'m>]) {
        let (mut hints, mut done) = (hints.iter().peekable(), 0);
        while let Some(first) = drafts.get(done) {
            let key = first.key();
            let mut found = if finger.is_there && finger.holds(key) {
                finger.path.search_end_of_leaf(key)
            } else {
                let root = self.root.load().expect("the tree has a root");
                while hints.next_if(|hint| hint.draft < done).is_some() {}
                let hint = hints.next_if(|hint| hint.draft == done);
                let found = hint.and_then(|hint| finger.follow(hint, root, key, ts));
                found.unwrap_or_else(|| finger.seek(root, key, ts))
            };
            if !found && !finger.has_path && finger.path.leaf().permutation.len() == SLOTS {
                found = finger.find_path(self.root.load().expect("the tree has a root"), key);
            }
            done += self.link_here(finger, found, ts, &drafts[done..]);
        }
    }

    /// Inserts the first of `drafts` where `finger` is, and as many more as belong there, too. Returns how many.
    #[inline]
    fn link_here(
        &mut self,
        finger: &mut Finger<'m>,
        found: bool,
        ts: CommitTs,
        drafts: &[Draft<'m>],
    ) -> usize {
        let (place, permutation) = (finger.path.leaf().place, finger.path.leaf().permutation);
        let len = permutation.len();
        if !found && place == len && len < SLOTS {
            return self.append_in_leaf(finger, ts, drafts);
        }
        if found || len < SLOTS {
            self.insert_in_leaf(&mut finger.path, found, &drafts[0], ts);
            finger.is_there = true;
            if !found {
                finger.note(place);
            }
        } else if place == SLOTS && permutation.grew_at_its_end() {
            return self.append_leaf(finger, ts, drafts);
        } else {
            let entry = entry_of(finger.path.leaf(), drafts[0].finish(ts, None));
            let middle = finger.middle(place);
            self.split_leaf(&mut finger.path, &entry, middle);
            finger.is_there = false;
        }
        1
    }

    /// Puts as many of `drafts` as belong there and fit at the end of `finger`'s leaf (step 2). Returns how many.
    fn append_in_leaf(&mut self, finger: &mut Finger<'m>, ts: CommitTs, drafts: &[Draft<'m>]) -> usize {
        let leaf = *finger.path.leaf();
        let (node, len) = (leaf.node(), leaf.permutation.len());
        let count = finger.run(drafts, SLOTS - len);
        node.stamp(ts);
        let (skip, mut permutation) = (node.skip(), leaf.permutation);
        for (slot, draft) in (len..).zip(&drafts[..count]) {
            node.fill_with(slot, draft.head(skip), draft.finish(ts, None));
            permutation = permutation.insert(slot, slot);
            finger.note(slot);
        }
        node.publish(permutation);
        finger.path.leaf_mut().permutation = permutation;
        finger.is_there = true;
        count
    }

    /// Puts as many of `drafts` as belong after `finger`'s leaf, which is full, and fit into a new leaf after it (step
    /// 3). Returns how many.
    fn append_leaf(&mut self, finger: &mut Finger<'m>, ts: CommitTs, drafts: &[Draft<'m>]) -> usize {
        let skip = finger.path.leaf().node().skip();
        let count = finger.run(drafts, SLOTS);
        let (head, ends) = (drafts[0].head(skip), (drafts[0].head(skip), drafts[count - 1].head(skip)));
        let first = drafts[0].finish(ts, None);
        let leaf_skip = match ends.0 == ends.1 {
            true => Fences { low: Some(first), ..finger.path.fences(0) }.skip_of(ends, skip),
            false => skip,
        };
        let rest = drafts[1..count].iter().map(|draft| (draft.head(leaf_skip), draft.finish(ts, None)));
        let first_head = head8(&first.key()[leaf_skip..]);
        let leaf = Node::of_records(std::iter::once((first_head, first)).chain(rest), ts, leaf_skip);
        let child = Some(NodePtr::leaf(self.bump.place(self.arena, leaf)));
        finger.streak = 0;
        let right = Entry { head, skip, record: first, child };
        finger.is_there = self.add_after(&mut finger.path, right);
        count
    }
}
