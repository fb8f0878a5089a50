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

/// Whether nothing from `start` to `end` changed after `since`, if that is seen within `most` looks at nodes; false
/// says nothing.
pub(crate) fn is_unchanged(table: &Table, start: &[u8], end: &[u8], since: CommitTs, most: u32) -> bool {
    if table.newest() <= since {
        return true;
    }
    let newest_first = table.range_tombstones().iter().rev();
    let mut since_then = newest_first.take_while(|tombstone| since < tombstone.ts);
    let end = Bound::Included(end);
    if since_then.any(|tombstone| tombstone.overlaps(start, end)) {
        return false;
    }
    let Some(root) = table.root.load() else { return true };
    matches!(search(root, start, end, since, most), Search::Nothing)
}

/// The first key from `start` to `end` whose own newest change came after `since`.
pub(crate) fn changed_key<'m>(
    root: NodePtr<'m>,
    start: &[u8],
    end: Bound<&[u8]>,
    since: CommitTs,
) -> Option<&'m [u8]> {
    match search(root, start, end, since, u32::MAX) {
        Search::Changed(key) => Some(key),
        Search::Nothing | Search::GivenUp => None,
    }
}

/// What a search for a change came to.
enum Search<'m> {
    Changed(&'m [u8]),
    Nothing,
    /// It had taken as many looks at nodes as it might.
    GivenUp,
}

/// For the first change, in at most about `most` looks at nodes; `u32::MAX`: however many it takes.
fn search<'m>(root: NodePtr<'m>, start: &[u8], end: Bound<&[u8]>, since: CommitTs, most: u32) -> Search<'m> {
    let (mut path, _) = Path::to(root, start);
    let mut left = most;
    loop {
        let leaf = path.leaf();
        let places = if leaf.node().newest() > since { leaf.place..leaf.permutation.len() } else { 0..0 };
        for place in places {
            let record = leaf.node().record(leaf.permutation.slot(place));
            if is_behind(record.key(), end) {
                return Search::Nothing;
            }
            if record.ts() > since {
                return Search::Changed(record.key());
            }
        }
        match next_newer_leaf(&mut path, end, since, &mut left) {
            Some(true) => {}
            Some(false) => return Search::Nothing,
            None => return Search::GivenUp,
        }
    }
}

/// To the next leaf that is newer than `since`; false when there is none before `end`. `None`: no look is left.
fn next_newer_leaf(path: &mut Path<'_>, end: Bound<&[u8]>, since: CommitTs, left: &mut u32) -> Option<bool> {
    while path.next_entry(1) {
        if *left < u32::MAX {
            *left = left.checked_sub(1)?;
        }
        let parent = path.frame_mut(1);
        let node = parent.node();
        if is_behind(node.record(parent.slot()).key(), end) {
            return Some(false);
        }
        if node.newest() <= since {
            parent.place = parent.permutation.len() - 1;
        } else if parent.inner().child(parent.slot()).node().newest() > since {
            path.enter(1);
            return Some(true);
        }
    }
    Some(false)
}

fn is_behind(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Unbounded => false,
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
    }
}
