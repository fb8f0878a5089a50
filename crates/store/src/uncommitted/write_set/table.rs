//! One table's share of a write set.
//!
//! 1. Each key that was ever written has one entry as long as the write set lives; a write that was taken back (by a
//!    range delete, or by a rollback) leaves a *gone* entry, which has no effect on the key.
//! 2. An entry is found by a scan while there are few, and through the index from then on. The index contains a prefix
//!    of the entries; a look-up in it adds those that it lacks. While each new key comes after all before it, it is
//!    recognized as new by comparing it with the last: then there is no index until an older key is looked for.
//! 3. The order, once made, holds exactly the entries that are not gone. [`TableSet::set`] is the only place where an
//!    entry's content changes, and maintains that. A commit needs no order if the keys were written in order.

use super::arena::{Arena, Offset};
use super::index::{self, Index};
use super::large_values::LargeValues;
use super::order::{Keys, Order};
use super::ranges::Ranges;
use base::keys::head8;
use base::prefetch::prefetch;
use base::{TableId, Value};
use std::cell::{OnceCell, RefCell};

/// The number of entries up to which a scan over their heads is faster than hashing.
const SCANNED: usize = 16;
/// The number of entries by which a key is prefetched before its use; an entry twice as many. From 8 on it makes no
/// difference.
const FETCHED_AHEAD: usize = 12;
/// The number of entries for which an emptied table keeps room: 256 KiB.
const KEPT_ENTRIES: usize = 8192;

/// The memory of an entry besides the arena: itself, two index slots, its position in the order.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>() + 16 + 16;

/// The state of a key in a transaction's own writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Value,
    /// A large value: the offset is an index into the set's large values.
    Large,
    Deleted,
    Gone,
}

/// The part of an entry that a write changes, and that undoing restores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    value: Offset,
    value_len: u32,
    state: State,
}

impl Content {
    /// Returns whether the key has a value with it.
    #[inline]
    pub(super) fn is_put(&self) -> bool {
        matches!(self.state, State::Value | State::Large)
    }

    /// Returns the index of the large value that it holds.
    #[inline]
    pub(super) fn large(&self) -> Option<usize> {
        (self.state == State::Large).then(|| self.value.as_index())
    }
}

/// A key and what was last written to it. It has 32 bytes: two fit a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    head: u64,
    key: Offset,
    value: Offset,
    value_len: u32,
    key_len: u16,
    state: State,
    /// Whether the key was looked up in the snapshot before it was written. It stays when a write is rolled back.
    read: bool,
}

impl Entry {
    #[inline]
    pub(super) fn key<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get(self.key, self.key_len())
    }
    #[inline]
    pub(super) fn key_len(&self) -> usize {
        usize::from(self.key_len)
    }
    #[inline]
    pub(super) fn head(&self) -> u64 {
        self.head
    }
    #[inline]
    pub(super) fn state(&self) -> State {
        self.state
    }
    pub(super) fn read(&self) -> bool {
        self.read
    }
    /// Returns what was written, for an entry that is not gone.
    #[inline]
    pub(super) fn own<'a>(&self, arena: &'a Arena, large: &'a LargeValues) -> Value<'a> {
        match self.state {
            State::Value => Value::Inline(arena.get(self.value, self.value_len as usize)),
            State::Large => Value::Large(large.get(self.value.as_index()).large()),
            State::Deleted | State::Gone => Value::Deleted,
        }
    }
    /// Returns the index of its large value.
    pub(super) fn large(&self) -> Option<usize> {
        (self.state == State::Large).then(|| self.value.as_index())
    }
    /// Returns whether this is the entry of `key`. Keys of up to eight bytes are their heads and lengths.
    #[inline]
    fn is(&self, key: &[u8], head: u64, arena: &Arena) -> bool {
        self.head == head
            && self.key_len() == key.len()
            && (key.len() <= 8 || self.key(arena)[8..] == key[8..])
    }
    /// Returns whether its key is before `key`.
    #[inline]
    fn is_before(&self, key: &[u8], head: u64, arena: &Arena) -> bool {
        self.head < head || (self.head == head && self.key(arena) < key)
    }
}

/// One table's writes; see the module.
#[derive(Debug)]
pub(super) struct TableSet {
    pub(super) table: TableId,
    entries: Vec<Entry>,
    /// Whether each key is after those of the entries before.
    ascends: bool,
    /// The index. It is in a cell, because a look-up adds to it.
    index: RefCell<Index>,
    order: OnceCell<Order>,
    pub(super) ranges: Ranges,
    /// The number of entries that are not gone.
    live: usize,
    seed: u64,
}

impl TableSet {
    pub(super) fn new(table: TableId) -> Self {
        let (entries, index, ranges) = (Vec::new(), RefCell::default(), Ranges::default());
        TableSet {
            table,
            entries,
            ascends: true,
            index,
            order: OnceCell::new(),
            ranges,
            live: 0,
            seed: index::process_seed(),
        }
    }

    /// Returns the number of entries, including gone ones.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of `key`'s entry.
    #[inline]
    pub(super) fn find(&self, key: &[u8], arena: &Arena) -> Option<u32> {
        let head = head8(key);
        if self.ascends && self.is_behind_all(key, head, arena) {
            return None;
        }
        if self.entries.len() <= SCANNED {
            return self.entries.iter().position(|entry| entry.is(key, head, arena)).map(|at| at as u32);
        }
        let hash = index::hash(self.seed, head, key);
        let mut index = self.index.borrow_mut();
        if index.len() < self.entries.len() {
            self.catch_up(&mut index, arena);
        }
        index.find(hash, |entry| self.entries[entry as usize].is(key, head, arena))
    }

    /// Returns whether `key` is after the last entry's key, if there is one.
    #[inline]
    fn is_behind_all(&self, key: &[u8], head: u64, arena: &Arena) -> bool {
        self.entries.last().is_none_or(|last| last.is_before(key, head, arena))
    }

    /// Adds the entries that the index lacks.
    fn catch_up(&self, index: &mut Index, arena: &Arena) {
        for (number, entry) in self.entries.iter().enumerate().skip(index.len()) {
            index.insert(index::hash(self.seed, entry.head, entry.key(arena)), number as u32);
        }
    }

    /// Adds a gone entry for `key`, which has none, with its bytes already followed by those of `value`.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], value: &[u8], arena: &mut Arena) -> u32 {
        let number = u32::try_from(self.entries.len()).expect("fewer than 2^32 keys in a transaction");
        let key_len = u16::try_from(key.len()).expect("keys are shorter than 64 KiB");
        let head = head8(key);
        self.ascends = self.ascends && self.is_behind_all(key, head, arena);
        let offset = arena.append(key, value);
        self.entries.push(Entry {
            head,
            key: offset,
            value: offset.plus(key.len()),
            value_len: 0,
            key_len,
            state: State::Gone,
            read: false,
        });
        number
    }

    #[inline]
    pub(super) fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize]
    }

    #[inline]
    pub(super) fn mark_read(&mut self, number: u32) {
        self.entries[number as usize].read = true;
    }

    /// Returns an entry's content after a put of `value`, whose bytes are at `offset`.
    #[inline]
    pub(super) fn put_content(offset: Offset, value: &[u8]) -> Content {
        let value_len = u32::try_from(value.len()).expect("values are shorter than 4 GiB");
        Content { value: offset, value_len, state: State::Value }
    }

    /// Returns an entry's content after a put of the large value with this index.
    pub(super) fn large_content(index: usize) -> Content {
        Content { value: Offset::of_index(index), value_len: 0, state: State::Large }
    }

    /// Returns the offset of an entry's value if there is room for `bytes`.
    #[inline]
    pub(super) fn value_offset(&self, number: u32, bytes: usize) -> Option<Offset> {
        let entry = self.entry(number);
        (entry.state == State::Value && bytes <= entry.value_len as usize).then_some(entry.value)
    }

    /// Returns the offset of the value of an entry that was just added.
    #[inline]
    pub(super) fn added_offset(&self, number: u32) -> Offset {
        self.entry(number).value
    }

    /// Returns the entry's content with another state.
    pub(super) fn content_as(&self, number: u32, state: State) -> Content {
        let entry = self.entry(number);
        Content { value: entry.value, value_len: entry.value_len, state }
    }

    /// Changes an entry's content and returns the previous one.
    #[inline]
    pub(super) fn set(&mut self, number: u32, content: Content, arena: &Arena) -> Content {
        let entry = &mut self.entries[number as usize];
        let old = Content { value: entry.value, value_len: entry.value_len, state: entry.state };
        (entry.value, entry.value_len, entry.state) = (content.value, content.value_len, content.state);
        let (was_live, is_live) = (old.state != State::Gone, content.state != State::Gone);
        if was_live != is_live {
            self.live = if is_live { self.live + 1 } else { self.live - 1 };
            if let Some(order) = self.order.get_mut() {
                let keys = Keys { entries: &self.entries, arena };
                if is_live { order.insert(number, keys) } else { order.remove(number, keys) }
            }
        }
        old
    }

    /// Makes the order, unless it exists. O(n log n) once.
    pub(super) fn ensure_order(&self, arena: &Arena) -> &Order {
        let keys = Keys { entries: &self.entries, arena };
        self.order.get_or_init(|| {
            let is_live = |&number: &u32| keys.entries[number as usize].state() != State::Gone;
            Order::build(self.live, (0..keys.entries.len() as u32).filter(is_live), keys)
        })
    }

    /// Makes the order unless the entries are in it, in which case a commit does not need it.
    pub(super) fn ensure_records(&self, arena: &Arena) {
        if !self.ascends {
            self.ensure_order(arena);
        }
    }

    /// Returns the live entries in key order; the order was made, or the entries are in it.
    #[inline]
    pub(super) fn in_order<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = &'a Entry> {
        let order = self.order.get();
        assert!(order.is_some() || self.ascends, "records are asked for after sorting");
        let as_written = if order.is_none() { &self.entries[..] } else { &[] };
        let as_written = as_written.iter().filter(|entry| entry.state() != State::Gone);
        as_written.chain(self.ordered(order, arena))
    }

    /// Returns the first and the last key of all entries, if their order is known and there are no range deletes.
    pub(super) fn ends<'a>(&'a self, arena: &'a Arena) -> Option<(&'a [u8], &'a [u8])> {
        let are_all_ordered = self.ascends || (self.order.get().is_some() && self.live == self.entries.len());
        if !are_all_ordered || self.ranges.len() > 0 {
            return None;
        }
        let (first, last) = match self.order.get().filter(|_| !self.ascends) {
            Some(order) => (order.entry(order.first())?, order.entry(order.last())?),
            None => (0, self.entries.len().checked_sub(1)? as u32),
        };
        Some((self.entry(first).key(arena), self.entry(last).key(arena)))
    }

    /// Returns the entries in the order that was made, if it was. Entries and keys are in memory in the order of
    /// writing, so each of the two would be a cache miss, one waiting for the other: both are prefetched, the entry
    /// first.
    fn ordered<'a>(&'a self, order: Option<&'a Order>, arena: &'a Arena) -> impl Iterator<Item = &'a Entry> {
        order.into_iter().flat_map(Order::blocks).flat_map(move |block| {
            (0..block.len()).map(move |at| {
                if let Some(later) = block.get(at + 2 * FETCHED_AHEAD) {
                    prefetch(self.entry(later.entry()));
                }
                if let Some(soon) = block.get(at + FETCHED_AHEAD) {
                    prefetch(self.entry(soon.entry()).key(arena).as_ptr());
                }
                self.entry(block[at].entry())
            })
        })
    }

    /// Returns the order, if it was made.
    #[inline]
    pub(super) fn order(&self) -> Option<&Order> {
        self.order.get()
    }

    /// Returns the data that the order needs to look at keys.
    #[inline]
    pub(super) fn keys<'a>(&'a self, arena: &'a Arena) -> Keys<'a> {
        Keys { entries: &self.entries, arena }
    }

    /// Returns the live entries in `[start, end)`, in key order.
    pub(super) fn live_in(&mut self, start: &[u8], end: Option<&[u8]>, arena: &Arena) -> Vec<u32> {
        if self.live == 0 {
            return Vec::new();
        }
        self.ensure_order(arena);
        let (keys, order) = (self.keys(arena), self.order.get().expect("just made"));
        let past = end.map_or(order.end(), |end| order.seek(end, keys).0);
        let mut found = Vec::new();
        let mut at = order.seek(start, keys).0;
        while at != past {
            found.extend(order.entry(at));
            at = order.after(at);
        }
        found
    }

    /// Returns the entries that validation needs: in key order if that is known, then those that are gone but were
    /// read.
    pub(super) fn to_validate<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = &'a Entry> {
        let ordered = self.ordered(self.order.get(), arena);
        let rest = if self.order.get().is_none() || self.live < self.entries.len() {
            &self.entries[..]
        } else {
            &[]
        };
        let is_known = |entry: &&Entry| self.order.get().is_some() && entry.state() != State::Gone;
        let matters = |entry: &&Entry| entry.read || entry.state() != State::Gone;
        ordered.chain(rest.iter().filter(move |entry| !is_known(entry)).filter(matters))
    }

    /// Returns the number of entries, including gone ones.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets the entries from number `len` on, which must be gone.
    pub(super) fn truncate(&mut self, len: usize) {
        if len == self.entries.len() {
            self.entries.shrink_to_fit();
            return;
        }
        self.entries.truncate(len);
        self.entries.shrink_to_fit();
        self.index = RefCell::default();
        self.order = OnceCell::new();
    }

    /// Returns all entries, including gone ones.
    pub(super) fn all(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the number of puts, deletes and range deletes.
    pub(super) fn operations(&self) -> usize {
        self.live + self.ranges.len()
    }

    /// Returns the memory of what is to be committed. O(entries).
    pub(super) fn live_bytes(&self) -> usize {
        let live = self.entries.iter().filter(|entry| entry.state() != State::Gone);
        let bytes = live.map(|entry| ENTRY_BYTES + entry.key_len() + entry.value_len as usize);
        self.ranges.bytes() + bytes.sum::<usize>()
    }

    /// Forgets everything, and keeps small buffers.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(KEPT_ENTRIES);
        self.ascends = true;
        self.index.get_mut().clear();
        self.order = OnceCell::new();
        self.ranges.clear();
        self.live = 0;
    }
}

const _: () = assert!(size_of::<Entry>() == 32);
