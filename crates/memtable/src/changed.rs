//! Queries of validation: whether anything in a range changed after a commit.
//!
//! A table without newer changes is answered in O(1). In other tables every node has the timestamp of its newest
//! record, so that only changed parts are searched.

use crate::node::NodePtr;
use crate::search::Path;
use crate::table::Table;
use base::CommitTs;
use std::ops::Bound;

/// Returns the first key from `start` to `end` that changed after `since`, or the first key of a range delete after
/// `since` that reaches into the range.
pub(crate) fn changed_since<'m>(
    table: &'m Table,
    start: &[u8],
    end: Bound<&[u8]>,
    since: CommitTs,
) -> Option<&'m [u8]> {
    if table.newest() <= since {
        return None;
    }
    if let Some(deleted) = deleted_since(table, start, end, since) {
        return Some(deleted);
    }
    changed_key(table.root.load()?, start, end, since)
}

/// Returns the start of the first stretch that a range delete after `since` covers and that reaches into the range.
/// O(log n).
fn deleted_since<'m>(table: &'m Table, start: &[u8], end: Bound<&[u8]>, since: CommitTs) -> Option<&'m [u8]> {
    let ranges = table.ranges(CommitTs::MAX);
    let first = (!ranges.is_empty()).then(|| ranges.first_newer(start, since))??;
    let begins_in_time = first.start <= start || !is_behind(first.start, end);
    begins_in_time.then_some(first.start)
}

/// Returns true if nothing from `start` to `end` changed after `since`, and `most` looks at nodes suffice to see that.
/// False has no meaning.
pub(crate) fn is_unchanged(table: &Table, start: &[u8], end: &[u8], since: CommitTs, most: u32) -> bool {
    if table.newest() <= since {
        return true;
    }
    let end = Bound::Included(end);
    if deleted_since(table, start, end, since).is_some() {
        return false;
    }
    let Some(root) = table.root.load() else { return true };
    matches!(search(root, start, end, since, most), Search::Nothing)
}

/// Returns the first key from `start` to `end` whose own newest change came after `since`.
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

/// The result of a search for a change.
enum Search<'m> {
    Changed(&'m [u8]),
    Nothing,
    /// The search had used all its looks at nodes.
    GivenUp,
}

/// Searches for the first change, in at most about `most` looks at nodes; `u32::MAX` means without a limit.
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

/// Moves to the next leaf that is newer than `since`. Returns false if there is none before `end`, and `None` if no
/// look is left. Skips subtrees that are not newer, so that it costs O(log n).
fn next_newer_leaf(path: &mut Path<'_>, end: Bound<&[u8]>, since: CommitTs, left: &mut u32) -> Option<bool> {
    // `is_new`: whether the frame's own place was not looked at yet.
    let (mut level, mut is_new) = (1, false);
    while level <= path.root_level() {
        let frame = path.frame_mut(level);
        if !is_new {
            if frame.place + 1 >= frame.permutation.len() {
                level += 1;
                continue;
            }
            frame.place += 1;
            if is_behind(frame.node().record(frame.slot()).key(), end) {
                return Some(false);
            }
        }
        is_new = false;
        if *left < u32::MAX {
            *left = left.checked_sub(1)?;
        }
        if frame.inner().child(frame.slot()).newest() > since {
            path.enter(level);
            if level == 1 {
                return Some(true);
            }
            (level, is_new) = (level - 1, true);
        }
    }
    Some(false)
}

/// Returns the last key before `before` whose own newest change came after `since`.
pub(crate) fn changed_before<'m>(root: NodePtr<'m>, before: &[u8], since: CommitTs) -> Option<&'m [u8]> {
    let (mut path, _) = Path::to(root, before);
    loop {
        let leaf = path.leaf();
        let places = if leaf.node().newest() > since { leaf.place } else { 0 };
        let record = |place| leaf.node().record(leaf.permutation.slot(place));
        if let Some(newer) = (0..places).rev().map(record).find(|record| record.ts() > since) {
            return Some(newer.key());
        }
        if !prev_newer_leaf(&mut path, since) {
            return None;
        }
    }
}

/// Moves to the end of the previous leaf that is newer than `since`, like [`next_newer_leaf`]. Returns false if there
/// is none.
fn prev_newer_leaf(path: &mut Path<'_>, since: CommitTs) -> bool {
    let mut level = 1;
    while level <= path.root_level() {
        let frame = path.frame_mut(level);
        let Some(place) = frame.place.checked_sub(1) else {
            level += 1;
            continue;
        };
        frame.place = place;
        if frame.inner().child(frame.slot()).newest() > since {
            path.enter(level);
            level -= 1;
            let below = path.frame_mut(level);
            below.place = below.permutation.len();
            if level == 0 {
                return true;
            }
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
