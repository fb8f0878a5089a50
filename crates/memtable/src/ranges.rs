//! The range deletes of a table: for every key, the commit of the newest range delete over it.
//!
//! 1. At one commit this is a step function over the keys. An *edge* is a key from which on, up to the next edge, one
//!    commit's range delete is the newest ([`NEVER`]: none covers these keys). A range delete adds an edge at its start
//!    and one at its end, which restores what held there, and removes the edges between. A table has at most two edges
//!    for each range delete, however these overlap.
//! 2. The edges of one commit form a treap (Seidel, Aragon 1996): a binary tree in key order and a heap by priorities.
//!    So its shape depends on its edges alone, and its depth is logarithmic for any keys. Priorities are made of
//!    addresses, which are unknown to anyone who chooses keys.
//! 3. Nodes never change. A range delete copies the O(log n) nodes on two ways down and shares the rest with the
//!    previous tree, which stays unchanged. A snapshot reads the tree of the newest commit that it sees. So readers
//!    need no lock, and later range deletes cost old snapshots nothing.
//! 4. Each node has the newest commit below it, so that changes since a commit are found without reading the rest.
//!
//! A range delete hides only puts of older commits. A put of its own commit stays, in whichever order the two are
//! applied.

use crate::arena::{Arena, Bump};
use crate::record::{Draft, Record};
use base::CommitTs;
use base::Value;
use std::cmp::Ordering;

/// The commit of keys that no range delete covers.
pub(crate) const NEVER: CommitTs = CommitTs(0);

/// A tree of edges; `None` if there is no range delete.
pub(crate) type Edges<'m> = Option<&'m Edge<'m>>;

/// A range `[start, end)`; without an end, it reaches to the end of the table.
pub type Span<'a> = (&'a [u8], Option<&'a [u8]>);

/// An edge: from its key on, up to the next edge, `covered` is the commit of the newest range delete. 40 bytes.
#[derive(Debug)]
pub(crate) struct Edge<'m> {
    key: Record<'m>,
    covered: CommitTs,
    /// The newest `covered` in this node and below.
    newest: CommitTs,
    left: Edges<'m>,
    right: Edges<'m>,
}

/// The memory for new nodes.
struct Nursery<'m, 'w> {
    arena: &'m Arena,
    bump: &'w mut Bump,
}

/// A stretch of keys that one range delete, or none, covers as the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'m> {
    /// The first key of the stretch.
    pub start: &'m [u8],
    /// The first key after the stretch, or `None` if it reaches to the end of the table.
    pub end: Option<&'m [u8]>,
    /// The commit of the newest range delete that covers the stretch; 0 if none does.
    pub covered: CommitTs,
}

impl Fragment<'_> {
    /// Returns whether `key` lies in the stretch.
    #[inline]
    pub fn holds(&self, key: &[u8]) -> bool {
        self.start <= key && self.end.is_none_or(|end| key < end)
    }
}

/// The range deletes of a table as of one timestamp, made by [`Memtable::ranges`](crate::Memtable::ranges). It is cheap
/// to copy.
///
/// ```
/// # use base::{CommitTs, TableId};
/// # use pando_memtable::Memtable;
/// let (memtable, mut writer) = Memtable::new();
/// let table = TableId(16);
/// writer.delete_range(table, b"c", Some(b"m"), CommitTs(1));
/// writer.delete_range(table, b"a", Some(b"e"), CommitTs(2));
/// let spans = |at| memtable.ranges(table, CommitTs(at)).spans(CommitTs(0)).collect::<Vec<_>>();
/// assert_eq!(spans(1), [(&b"c"[..], Some(&b"m"[..]))]);
/// assert_eq!(spans(2), [(&b"a"[..], Some(&b"e"[..])), (b"e", Some(b"m"))]);
/// assert_eq!(memtable.ranges(table, CommitTs(2)).covering(b"d").covered, CommitTs(2));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ranges<'m>(pub(crate) Edges<'m>);

impl<'m> Ranges<'m> {
    /// Returns whether no range of the table was deleted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the stretch of keys around `key`. O(log n).
    pub fn covering(&self, key: &[u8]) -> Fragment<'m> {
        let mut fragment = Fragment { start: &[], end: None, covered: NEVER };
        let mut at = self.0;
        while let Some(edge) = at {
            let own = edge.key.key();
            if own <= key {
                (fragment.start, fragment.covered) = (own, edge.covered);
                at = edge.right;
            } else {
                fragment.end = Some(own);
                at = edge.left;
            }
        }
        fragment
    }

    /// Returns the first stretch that contains `from` or a later key and was deleted after `since`. O(log n).
    pub fn first_newer(&self, from: &[u8], since: CommitTs) -> Option<Fragment<'m>> {
        let here = self.covering(from);
        if here.covered > since {
            return Some(here);
        }
        let key = first_newer(self.0, from, since)?.key.key();
        Some(self.covering(key))
    }

    /// Returns the ranges that were deleted after `since`, in key order, each key once. O(log n) a step.
    pub fn spans(self, since: CommitTs) -> impl Iterator<Item = Span<'m>> {
        let mut from = Some(&[][..]);
        std::iter::from_fn(move || {
            let fragment = self.first_newer(from?, since)?;
            from = fragment.end;
            Some((fragment.start, fragment.end))
        })
    }
}

/// Returns the first edge at or after `from` that is newer than `since`.
fn first_newer<'m>(edges: Edges<'m>, from: &[u8], since: CommitTs) -> Edges<'m> {
    let edge = edges.filter(|edge| edge.newest > since)?;
    if edge.key.key() < from {
        return first_newer(edge.right, from, since);
    }
    let here = || (edge.covered > since).then_some(edge);
    // The left part may have keys on both sides of `from`, so that one way down may be in vain. The right part lies
    // after it as a whole, and has the result if anything in it is newer.
    first_newer(edge.left, from, since).or_else(here).or_else(|| first_newer(edge.right, from, since))
}

/// Returns the tree in which `[start, end)` was deleted at `ts`, which is not older than anything in `edges`. The range
/// is not empty. Places O(log n) nodes.
pub(crate) fn delete<'m>(
    arena: &'m Arena,
    bump: &mut Bump,
    edges: Edges<'m>,
    (start, end): Span<'_>,
    ts: CommitTs,
) -> Edges<'m> {
    let mut nursery = Nursery { arena, bump };
    let (before, rest) = nursery.split(edges, start);
    let (gone, behind) = match end {
        Some(end) => nursery.split(rest, end),
        None => (rest, None),
    };
    let old_at_start = last(before);
    let mut tree = before;
    if old_at_start != ts {
        let edge = nursery.edge(start, ts);
        tree = nursery.join(tree, edge);
    }
    if let Some(end) = end {
        let old_at_end = gone.map_or(old_at_start, |gone| last(Some(gone)));
        let has_edge = first(behind).is_some_and(|edge| edge.key.key() == end);
        if !has_edge && old_at_end != ts {
            let edge = nursery.edge(end, old_at_end);
            tree = nursery.join(tree, edge);
        }
    }
    nursery.join(tree, behind)
}

/// Returns the tree in which each of `spans`, which ascend and do not overlap, was deleted at `ts`. Takes one pass over
/// the spans and over all edges, and places two nodes for each span and one for each edge that stays. For `ts` see
/// [`delete`].
pub(crate) fn delete_all<'m>(
    arena: &'m Arena,
    bump: &mut Bump,
    edges: Edges<'m>,
    spans: &[Span<'_>],
    ts: CommitTs,
) -> Edges<'m> {
    let mut nursery = Nursery { arena, bump };
    let mut old = Vec::new();
    in_order(edges, &mut old);
    let mut old = old.into_iter().peekable();
    let (mut new, mut covered) = (Vec::with_capacity(old.len() + 2 * spans.len()), NEVER);
    for &(start, end) in spans {
        while let Some(edge) = old.next_if(|edge| edge.key.key() < start) {
            covered = edge.covered;
            new.push(edge.alone());
        }
        // Removes the end of the previous span, if this span starts there.
        new.pop_if(|last| last.key.key() == start);
        if new.last().is_none_or(|last| last.covered != ts) {
            new.push(nursery.fresh(start, ts));
        }
        while let Some(edge) = old.next_if(|edge| end.is_none_or(|end| edge.key.key() < end)) {
            covered = edge.covered;
        }
        if let Some(end) = end.filter(|end| old.peek().is_none_or(|edge| edge.key.key() != *end)) {
            new.push(nursery.fresh(end, covered));
        }
    }
    new.extend(old.map(Edge::alone));
    nursery.build(new)
}

fn in_order<'m>(edges: Edges<'m>, into: &mut Vec<&'m Edge<'m>>) {
    if let Some(edge) = edges {
        in_order(edge.left, into);
        into.push(edge);
        in_order(edge.right, into);
    }
}

/// Returns the commit that holds from the last edge on.
fn last(edges: Edges<'_>) -> CommitTs {
    let mut at = edges;
    let mut covered = NEVER;
    while let Some(edge) = at {
        covered = edge.covered;
        at = edge.right;
    }
    covered
}

fn first<'m>(edges: Edges<'m>) -> Edges<'m> {
    let mut at = edges?;
    while let Some(left) = at.left {
        at = left;
    }
    Some(at)
}

impl<'m> Edge<'m> {
    /// Returns a copy of the edge with other subtrees.
    fn with(&self, left: Edges<'m>, right: Edges<'m>) -> Edge<'m> {
        let newest = |edges: Edges<'m>| edges.map_or(NEVER, |edge| edge.newest);
        let below = newest(left).max(newest(right));
        Edge { key: self.key, covered: self.covered, newest: self.covered.max(below), left, right }
    }

    /// Returns a copy of the edge without subtrees.
    fn alone(&self) -> Edge<'m> {
        self.with(None, None)
    }

    /// Returns the priority, which is larger above smaller: the key's address, mixed (Steele, Lea, Flood 2014:
    /// SplitMix64's finish).
    fn priority(&self) -> u64 {
        let mut mixed = self.key.as_ptr().addr() as u64;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl<'m> Nursery<'m, '_> {
    fn place(&mut self, edge: Edge<'m>) -> Edges<'m> {
        Some(self.bump.place(self.arena, edge))
    }

    /// Returns an edge that is not placed yet. A record serves as the copy of the key.
    fn fresh(&mut self, key: &[u8], covered: CommitTs) -> Edge<'m> {
        let key = Draft::write(self.bump, self.arena, key, Value::Deleted).finish(covered, None);
        Edge { key, covered, newest: covered, left: None, right: None }
    }

    /// Returns a tree of one edge.
    fn edge(&mut self, key: &[u8], covered: CommitTs) -> Edges<'m> {
        let edge = self.fresh(key, covered);
        self.place(edge)
    }

    /// Builds the tree of `edges`, which ascend. Edges on the stack wait for their right subtrees, and descend in
    /// priority.
    fn build(&mut self, edges: Vec<Edge<'m>>) -> Edges<'m> {
        let mut waiting: Vec<Edge<'m>> = Vec::new();
        for edge in edges {
            let mut left = None;
            while let Some(done) = waiting.pop_if(|last| last.priority() < edge.priority()) {
                left = self.place(done.with(done.left, left));
            }
            waiting.push(edge.with(left, None));
        }
        let mut tree = None;
        while let Some(done) = waiting.pop() {
            tree = self.place(done.with(done.left, tree));
        }
        tree
    }

    /// Splits the tree into the edges before `key`, and the rest.
    fn split(&mut self, edges: Edges<'m>, key: &[u8]) -> (Edges<'m>, Edges<'m>) {
        let Some(edge) = edges else { return (None, None) };
        if edge.key.key() < key {
            let (left, right) = self.split(edge.right, key);
            (self.replaced(edge, edge.left, left), right)
        } else {
            let (left, right) = self.split(edge.left, key);
            (left, self.replaced(edge, right, edge.right))
        }
    }

    /// Joins `left`, all of which is before `right`, and `right`.
    fn join(&mut self, left: Edges<'m>, right: Edges<'m>) -> Edges<'m> {
        let (Some(one), Some(other)) = (left, right) else { return left.or(right) };
        // Priorities are practically distinct; if two are equal, the left edge is above.
        if one.priority().cmp(&other.priority()) == Ordering::Less {
            let below = self.join(left, other.left);
            self.replaced(other, below, other.right)
        } else {
            let below = self.join(one.right, right);
            self.replaced(one, one.left, below)
        }
    }

    /// Returns `edge` with these subtrees: the same node, if it already has them.
    fn replaced(&mut self, edge: &'m Edge<'m>, left: Edges<'m>, right: Edges<'m>) -> Edges<'m> {
        let same = |one: Edges<'m>, other: Edges<'m>| match (one, other) {
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        if same(edge.left, left) && same(edge.right, right) {
            return Some(edge);
        }
        self.place(edge.with(left, right))
    }
}
