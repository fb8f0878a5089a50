//! What validation asks: did anything in this range change since then?
//!
//! A table that has nothing newer answers in O(1); below that, parents of leaves and leaves say how new they
//! are, so that only what changed is looked into.

use crate::node::NodePtr;
use crate::search::Path;
use crate::table::Table;
use base::CommitTs;
use std::ops::Bound;

/// The first key from `start` to `end` that changed after `since`, or the start of the first range tombstone
/// since then that reaches into the range.
pub(crate) fn changed_since<'m>(
    table: &'m Table,
    start: &[u8],
    end: Bound<&[u8]>,
    since: CommitTs,
) -> Option<&'m [u8]> {
    if table.newest() <= since {
        return None;
    }
    let newest_first = table.range_tombstones().iter().rev();
    let mut since_then = newest_first.take_while(|tombstone| since < tombstone.ts);
    if let Some(tombstone) = since_then.find(|tombstone| tombstone.overlaps(start, end)) {
        return Some(tombstone.start);
    }
    changed_key(table.root.load()?, start, end, since)
}

/// The first key from `start` to `end` whose own newest change came after `since`.
pub(crate) fn changed_key<'m>(
    root: NodePtr<'m>,
    start: &[u8],
    end: Bound<&[u8]>,
    since: CommitTs,
) -> Option<&'m [u8]> {
    let (mut path, _) = Path::to(root, start);
    loop {
        let leaf = path.leaf();
        let places = if leaf.node().newest() > since { leaf.place..leaf.permutation.len() } else { 0..0 };
        for place in places {
            let record = leaf.node().record(leaf.permutation.slot(place));
            if is_behind(record.key(), end) {
                return None;
            }
            if record.ts() > since {
                return Some(record.key());
            }
        }
        if !next_newer_leaf(&mut path, end, since) {
            return None;
        }
    }
}

/// To the next leaf that is newer than `since`; false when there is none before `end`.
fn next_newer_leaf(path: &mut Path<'_>, end: Bound<&[u8]>, since: CommitTs) -> bool {
    while path.next_entry(1) {
        let parent = path.frame_mut(1);
        let node = parent.node();
        if is_behind(node.record(parent.slot()).key(), end) {
            return false;
        }
        if node.newest() <= since {
            parent.place = parent.permutation.len() - 1;
        } else if parent.inner().child(parent.slot()).node().newest() > since {
            path.enter(1);
            return true;
        }
    }
    false
}

fn is_behind(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Unbounded => false,
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
    }
}
