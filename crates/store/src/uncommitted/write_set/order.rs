//! The live entries of one table in key order, made when first needed and maintained from then on.
//!
//! 1. A [`Ranked`] entry has the key's first eight bytes and its length up to nine. These order two keys without a look
//!    at either, unless both are longer than eight bytes and have the same first eight.
//! 2. The order is a list of sorted blocks. It is built as *one* block, which is all that a commit needs. The first
//!    change after that cuts it into blocks of [`CUT`]; a change then moves at most [`MAX_BLOCK`] neighbours.
//! 3. Sorting compares words, not keys: ties on one word are sorted again by the next eight bytes. Keys that share a
//!    long prefix then cost one look at each key per eight bytes, not two for each of n log n comparisons.

use super::arena::Arena;
use super::table::Entry;
use base::keys::head8;
use std::cmp::Ordering;

/// The length above which a block is cut before it is changed: moving half of it costs about as much as finding it.
const MAX_BLOCK: usize = 512;
/// The length of the pieces.
const CUT: usize = 256;
/// The length below which runs of ties are sorted by whole keys.
const SHORT_RUN: usize = 12;
/// The depth from which ties are sorted by whole keys; it bounds the recursion.
const MAX_DEPTH_BYTES: usize = 128;

/// The data that determine a key's position in the order, and its entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    head: u64,
    /// The key's length, or 9 if it is longer than eight bytes.
    class: u32,
    entry: u32,
}

/// The position of a cursor; after the end, the block is the number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    block: usize,
    index: usize,
}

/// The data that the order needs to look at keys.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) arena: &'a Arena,
}

impl<'a> Keys<'a> {
    #[inline]
    fn key(self, entry: u32) -> &'a [u8] {
        self.entries[entry as usize].key(self.arena)
    }
}

#[inline]
fn class(key: &[u8]) -> u32 {
    key.len().min(9) as u32
}

impl Ranked {
    /// Returns the number of the entry.
    #[inline]
    pub(super) fn entry(&self) -> u32 {
        self.entry
    }

    #[inline]
    fn compare(&self, key: &[u8], head: u64, keys: Keys<'_>) -> Ordering {
        let by_word = (self.head, self.class).cmp(&(head, class(key)));
        match by_word {
            Ordering::Equal if self.class > 8 => keys.key(self.entry)[8..].cmp(&key[8..]),
            decided => decided,
        }
    }
}

/// An order; see the module. No block is empty.
#[derive(Debug)]
pub(super) struct Order {
    blocks: Vec<Vec<Ranked>>,
}

impl Order {
    /// Builds the order of the `count` entries numbered `live`. O(n log n).
    pub(super) fn build(count: usize, live: impl Iterator<Item = u32>, keys: Keys<'_>) -> Self {
        let rank = |entry: u32| {
            let found = &keys.entries[entry as usize];
            Ranked { head: found.head(), class: found.key_len().min(9) as u32, entry }
        };
        let mut ranked = Vec::with_capacity(count);
        ranked.extend(live.map(rank));
        sort(&mut ranked, 0, keys);
        Order { blocks: if ranked.is_empty() { Vec::new() } else { vec![ranked] } }
    }

    /// Returns the first position whose key is not before `key`, and whether it is `key`. O(log n).
    pub(super) fn seek(&self, key: &[u8], keys: Keys<'_>) -> (Position, bool) {
        let head = head8(key);
        // Keys that ascend are sought here as well, before each is written.
        if self.is_after_last(key, head, keys) {
            return (self.end(), false);
        }
        let after = self.blocks.partition_point(|block| block[0].compare(key, head, keys).is_le());
        let Some(block) = after.checked_sub(1) else {
            return (Position { block: 0, index: 0 }, false);
        };
        match self.blocks[block].binary_search_by(|ranked| ranked.compare(key, head, keys)) {
            Ok(index) => (Position { block, index }, true),
            Err(index) if index < self.blocks[block].len() => (Position { block, index }, false),
            Err(_) => (Position { block: after, index: 0 }, false),
        }
    }

    /// Adds an entry that does not exist yet.
    pub(super) fn insert(&mut self, entry: u32, keys: Keys<'_>) {
        let key = keys.key(entry);
        let ranked = Ranked { head: head8(key), class: class(key), entry };
        let mut at = self.insert_position(key, keys);
        if self.blocks.is_empty() {
            self.blocks.push(Vec::new());
        } else if self.blocks[at.block].len() >= MAX_BLOCK {
            self.cut(at.block);
            at = self.insert_position(key, keys);
        }
        self.blocks[at.block].insert(at.index, ranked);
    }

    /// Returns whether `key` comes after all entries, of which there are some.
    fn is_after_last(&self, key: &[u8], head: u64, keys: Keys<'_>) -> bool {
        let last = self.blocks.last().and_then(|block| block.last());
        last.is_some_and(|last| last.compare(key, head, keys).is_lt())
    }

    /// Returns where `key` belongs: at the end of a block rather than before the next.
    fn insert_position(&self, key: &[u8], keys: Keys<'_>) -> Position {
        let (at, found) = self.seek(key, keys);
        debug_assert!(!found, "an entry was inserted twice");
        if at.index == 0 && at.block > 0 {
            return Position { block: at.block - 1, index: self.blocks[at.block - 1].len() };
        }
        at
    }

    /// Removes an existing entry.
    pub(super) fn remove(&mut self, entry: u32, keys: Keys<'_>) {
        let key = keys.key(entry);
        let (mut at, mut found) = self.seek(key, keys);
        if found && self.blocks[at.block].len() > MAX_BLOCK {
            self.cut(at.block);
            (at, found) = self.seek(key, keys);
        }
        assert!(found, "a live entry is missing from the order");
        self.blocks[at.block].remove(at.index);
        if self.blocks[at.block].is_empty() {
            self.blocks.remove(at.block);
        }
    }

    fn cut(&mut self, block: usize) {
        let long = std::mem::take(&mut self.blocks[block]);
        let piece = |piece: &[Ranked]| {
            let mut roomy = Vec::with_capacity(MAX_BLOCK);
            roomy.extend_from_slice(piece);
            roomy
        };
        self.blocks.splice(block..=block, long.chunks(CUT).map(piece));
    }

    /// Returns the entry at `at`, unless that is after the end.
    #[inline]
    pub(super) fn entry(&self, at: Position) -> Option<u32> {
        Some(self.blocks.get(at.block)?[at.index].entry)
    }

    /// Returns the entries after `at`, or before it, within its block: a position that is not after the end.
    #[inline]
    pub(super) fn rest_of_block<const FORWARD: bool>(&self, at: Position) -> &[Ranked] {
        let block = &self.blocks[at.block];
        if FORWARD { &block[at.index + 1..] } else { &block[..at.index] }
    }

    /// Returns the position `steps` entries after `at`, or before it, within its block.
    #[inline]
    pub(super) fn moved<const FORWARD: bool>(at: Position, steps: usize) -> Position {
        Position { index: if FORWARD { at.index + steps } else { at.index - steps }, ..at }
    }

    /// Returns the first position; after the end if there is none.
    pub(super) fn first(&self) -> Position {
        Position { block: 0, index: 0 }
    }

    /// Returns the last position; after the end if there is none.
    pub(super) fn last(&self) -> Position {
        let block = self.blocks.len().saturating_sub(1);
        Position { block, index: self.blocks.last().map_or(0, |block| block.len() - 1) }
    }

    /// Returns the position after the end.
    pub(super) fn end(&self) -> Position {
        Position { block: self.blocks.len(), index: 0 }
    }

    /// Returns the position after `at`, which is not after the end.
    #[inline]
    pub(super) fn after(&self, at: Position) -> Position {
        if at.index + 1 < self.blocks[at.block].len() {
            return Position { index: at.index + 1, ..at };
        }
        Position { block: at.block + 1, index: 0 }
    }

    /// Returns the position before `at`, if there is one.
    #[inline]
    pub(super) fn before(&self, at: Position) -> Option<Position> {
        if let Some(index) = at.index.checked_sub(1) {
            return Some(Position { index, ..at });
        }
        let block = at.block.checked_sub(1)?;
        Some(Position { block, index: self.blocks[block].len() - 1 })
    }

    /// Returns all entries in key order, block by block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[Ranked]> {
        self.blocks.iter().map(Vec::as_slice)
    }
}

/// Sorts entries whose keys agree in their first `depth` bytes and whose `head` and `class` are those at depth 0.
fn sort(ranked: &mut [Ranked], depth: usize, keys: Keys<'_>) {
    if depth > 0 {
        for item in &mut *ranked {
            let rest = &keys.key(item.entry)[depth..];
            (item.head, item.class) = (head8(rest), class(rest));
        }
    }
    ranked.sort_unstable_by_key(|item| (item.head, item.class));
    let next = depth + 8;
    for run in ranked.chunk_by_mut(|a, b| a.class > 8 && b.class > 8 && a.head == b.head) {
        if run.len() == 1 {
            continue;
        }
        if run.len() < SHORT_RUN || next >= MAX_DEPTH_BYTES {
            run.sort_unstable_by(|a, b| keys.key(a.entry)[next..].cmp(&keys.key(b.entry)[next..]));
            continue;
        }
        let (head, class) = (run[0].head, run[0].class);
        sort(run, next, keys);
        run.iter_mut().for_each(|item| (item.head, item.class) = (head, class));
    }
}
