//! Hints: where a key belongs, searched before its commit has its turn.
//!
//! The writer spends most of its time on the way down to a leaf, and waits there for memory that another processor
//! wrote. A thread that stages changes goes down first, as a reader. Its *hint* holds the nodes that it met. The writer
//! follows the hint, without a search above the leaf, if it still leads there:
//!
//! 1. The root is the same.
//! 2. Each inner node is *live*: it was not replaced by a copy or by two nodes ([`Inner::retire`]). A live node is
//!    still the child of the node above it, if that is live: a slot loses its child only to copies or halves of the
//!    child.
//! 3. The leaf is not full. Only a full leaf is split, replaced, or given a neighbor for keys of its range. So the
//!    separators around a leaf that is not full are those between which it was made.
//!
//! Otherwise the writer searches from the root. Only the writer follows hints, so nothing changes between this check
//! and the insert.
//!
//! [`Inner::retire`]: crate::node::Inner::retire

use crate::node::NodePtr;
use crate::permutation::{Permutation, SLOTS};
use crate::record::Record;
use crate::search::Path;
use base::CommitTs;
use std::array;

/// The most levels of a tree for which there are hints: ten million records of random keys.
const MOST_LEVELS: usize = 8;

/// The place of one key in a leaf, and the way to the leaf.
#[derive(Debug)]
pub(crate) struct Hint<'m> {
    /// The number of the draft that it is for.
    pub draft: usize,
    /// The separator after the leaf.
    pub high: Option<Record<'m>>,
    /// The leaf's entries when it was searched, the key's place among them, and whether it was there.
    permutation: Permutation,
    place: usize,
    found: bool,
    /// The nodes from the leaf up to the root, and the root again up to the end.
    nodes: [NodePtr<'m>; MOST_LEVELS],
    root_level: usize,
}

impl<'m> Hint<'m> {
    /// Returns the hint for the draft `draft`, whose key `path` leads to, before the separator `high`. Returns `None`
    /// for a leaf that is full, which the writer would not go to, and for a tree of many levels.
    #[inline]
    pub fn of(path: &Path<'m>, found: bool, draft: usize, high: Option<Record<'m>>) -> Option<Hint<'m>> {
        let (leaf, root_level) = (path.leaf(), path.root_level());
        if leaf.permutation.len() == SLOTS || root_level >= MOST_LEVELS {
            return None;
        }
        let nodes = array::from_fn(|level| path.frame(level.min(root_level)).at);
        let (permutation, place) = (leaf.permutation, leaf.place);
        Some(Hint { draft, high, permutation, place, found, nodes, root_level })
    }

    /// Goes to the leaf below `root` for `key`, where a record of `ts` is about to be inserted: sets the leaf of
    /// `path`, and records `ts` in the nodes above. Returns whether the key is there; `None`, without an effect, if the
    /// hint does not lead there any longer.
    #[inline]
    pub fn follow(&self, root: NodePtr<'m>, key: &[u8], ts: CommitTs, path: &mut Path<'m>) -> Option<bool> {
        let (leaf, above) = (self.nodes[0], &self.nodes[1..=self.root_level]);
        let permutation = leaf.node().permutation();
        if self.nodes[self.root_level] != root || permutation.len() == SLOTS {
            return None;
        }
        for node in above {
            if !node.as_inner()?.is_live() {
                return None;
            }
        }
        above.iter().for_each(|node| node.stamp(ts));
        path.set_leaf(leaf, permutation, self.place);
        Some(if permutation == self.permutation { self.found } else { path.search_leaf(key) })
    }
}
