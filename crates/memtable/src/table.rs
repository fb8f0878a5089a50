//! Tables: their trees, their range deletes, and the directory that finds them by id.
//!
//! 1. The directory is an open-addressed hash table of pointers, at most half full. The writer adds a table
//!    with one store; when it grows, it fills a directory of twice the size first and publishes that with one
//!    store. A reader in an old directory misses only tables that were first written after it began.
//! 2. Range deletes are kept as a tree for each commit ([`crate::ranges`]), in the order of the commits, in an array
//!    that is appended to in place: readers use the part before the length that they read. A full array is copied into
//!    one of twice the size.
//! 3. What a reader has passed in either stays valid: old directories and arrays remain in the arena.

use crate::arena::{Arena, Bump};
use crate::node::NodeSlot;
use crate::ranges::{self, Edges, NEVER, Ranges, Span};
use base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use base::{CommitTs, TableId};
use std::{ptr, slice};

/// The changes of one table.
#[derive(Debug)]
pub(crate) struct Table {
    pub id: TableId,
    pub root: NodeSlot,
    /// A timestamp at or after that of every record and range delete.
    newest: AtomicU64,
    records: AtomicU64,
    has_large: AtomicBool,
    ranges: AtomicPtr<Versions>,
}

/// The range deletes as of one commit.
#[derive(Clone, Copy, Debug)]
struct Version<'m> {
    ts: CommitTs,
    edges: Edges<'m>,
    /// An upper bound of the number of edges.
    most: usize,
}

/// The array of all versions, oldest first. The arena lends its items for as long as the memtable is borrowed.
#[derive(Debug)]
struct Versions {
    items: *mut Version<'static>,
    capacity: usize,
    len: AtomicUsize,
}

impl Table {
    pub fn new(id: TableId) -> Table {
        Table {
            id,
            root: NodeSlot::new(None),
            newest: AtomicU64::new(0),
            records: AtomicU64::new(0),
            has_large: AtomicBool::new(false),
            ranges: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[inline]
    pub fn newest(&self) -> CommitTs {
        // Relaxed: stored before the change is published, which orders it for all readers that must see it.
        CommitTs(self.newest.load(Ordering::Relaxed))
    }

    /// Records that a change of `ts` is about to be published.
    #[inline]
    pub fn stamp(&self, ts: CommitTs) {
        if self.newest() < ts {
            // Relaxed: the Release that publishes the change comes after, and publishes this too.
            self.newest.store(ts.0, Ordering::Relaxed);
        }
    }

    /// Returns how many changes the table holds.
    #[inline]
    pub fn records(&self) -> u64 {
        // Relaxed: a count, which orders nothing.
        self.records.load(Ordering::Relaxed)
    }

    /// Counts changes. Relaxed, in two steps: the writer alone changes the count.
    #[inline]
    pub fn count(&self, records: u64) {
        self.records.store(self.records() + records, Ordering::Relaxed);
    }

    /// Returns whether a large reference was ever put.
    pub fn has_large(&self) -> bool {
        self.has_large.load(Ordering::SeqCst)
    }

    /// Records that a large reference is about to be put.
    pub fn note_large(&self) {
        self.has_large.store(true, Ordering::SeqCst);
    }

    /// Returns all versions of the range deletes so far, oldest first.
    #[inline]
    fn versions(&self) -> &[Version<'_>] {
        // Acquire meets the Release in `delete_range`, of the array and below of its length.
        let list = self.ranges.load(Ordering::Acquire);
        // SAFETY: null or published by `push_version` after it was written (Acquire meets its Release), in
        // the arena that the borrow of this table borrows. The items in front of the length read with Acquire
        // were written before it was stored and are never written again; what they borrow lies in the same
        // arena.
        unsafe {
            let Some(list) = list.as_ref() else { return &[] };
            slice::from_raw_parts(list.items, list.len.load(Ordering::Acquire))
        }
    }

    /// Returns the range deletes as of `at`. One load if there are none, else O(log n).
    #[inline]
    pub fn ranges(&self, at: CommitTs) -> Ranges<'_> {
        let versions = self.versions();
        // Most tables have none, and most readers see the newest.
        match versions.last() {
            None => Ranges(None),
            Some(newest) if newest.ts <= at => Ranges(newest.edges),
            Some(_) => {
                let seen = versions.partition_point(|version| version.ts <= at);
                Ranges(versions[..seen].last().and_then(|version| version.edges))
            }
        }
    }

    /// Returns the newest range delete over `key` that is newer than `above` (if any) and not newer than `at`. O(log
    /// n).
    #[inline]
    pub fn hidden_since(&self, key: &[u8], above: Option<CommitTs>, at: CommitTs) -> Option<CommitTs> {
        let ranges = self.ranges(at);
        if ranges.is_empty() {
            return None;
        }
        let covered = ranges.covering(key).covered;
        (covered > above.unwrap_or(NEVER)).then_some(covered)
    }

    /// Deletes a range, which is not empty, at `ts`, which is not older than the table's changes.
    pub fn delete_range<'m>(&'m self, arena: &'m Arena, bump: &mut Bump, span: Span<'_>, ts: CommitTs) {
        let (edges, most) = self.newest_ranges();
        let edges = ranges::delete(arena, bump, edges, span, ts);
        self.push_version(arena, bump, Version { ts, edges, most: most + 2 });
    }

    /// Deletes ranges that ascend and do not overlap. Does it in one pass if they are many compared with the present
    /// ones.
    pub fn delete_ranges<'m>(&'m self, arena: &'m Arena, bump: &mut Bump, spans: &[Span<'_>], ts: CommitTs) {
        // The number of nodes that a delete by itself copies.
        const COPIES: usize = 32;
        let (edges, most) = self.newest_ranges();
        if spans.len() * COPIES < most || spans.len() == 1 {
            return spans.iter().for_each(|&span| self.delete_range(arena, bump, span, ts));
        }
        let edges = ranges::delete_all(arena, bump, edges, spans, ts);
        self.push_version(arena, bump, Version { ts, edges, most: most + 2 * spans.len() });
    }

    fn newest_ranges(&self) -> (Edges<'_>, usize) {
        self.versions().last().map_or((None, 0), |newest| (newest.edges, newest.most))
    }

    fn push_version(&self, arena: &Arena, bump: &mut Bump, version: Version<'_>) {
        let len = self.versions().len();
        // SAFETY: as in `versions`, whose Acquire this repeats (the writer meets its own stores).
        let list = unsafe { self.ranges.load(Ordering::Acquire).as_ref() };
        if let Some(list) = list.filter(|list| len < list.capacity) {
            // SAFETY: inside the capacity, after the length, so that no reader looks at it until the length
            // is stored; the lifetime is widened to the arena's, which readers narrow to their borrow of it.
            unsafe { list.items.add(len).cast::<Version<'_>>().write(version) };
            // Release, for the Acquire of the length in `versions`: after the item.
            list.len.store(len + 1, Ordering::Release);
            return;
        }
        let capacity = (2 * len).max(4);
        let items = bump.room_for::<Version<'static>>(arena, capacity);
        // SAFETY: fresh memory for more items than are written; the lifetimes as above.
        unsafe {
            ptr::copy_nonoverlapping(self.versions().as_ptr().cast(), items, len);
            items.add(len).cast::<Version<'_>>().write(version);
        }
        let list = bump.place(arena, Versions { items, capacity, len: AtomicUsize::new(len + 1) });
        // Release, for the Acquire in `versions`: after the array and its items.
        self.ranges.store(ptr::from_ref(list).cast_mut(), Ordering::Release);
    }
}

/// Finds tables by id.
#[derive(Debug)]
pub(crate) struct Directory {
    slots: AtomicPtr<Slots>,
    /// The number of tables, which the writer alone reads and changes.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Slots {
    /// The shift of Fibonacci hashing, which uses the topmost bits, as many as the number of slots has.
    shift: u32,
    tables: *const AtomicPtr<Table>,
}

const FIRST_SLOTS_LOG2: u32 = 3;

impl Slots {
    #[inline]
    fn tables(&self) -> &[AtomicPtr<Table>] {
        // SAFETY: `Directory::grow` placed that many in the arena, before it published this.
        unsafe { slice::from_raw_parts(self.tables, 1 << (32 - self.shift)) }
    }

    /// Returns the slots that may hold `id`, in the order of probing.
    #[inline]
    fn probe(&self, id: TableId) -> impl Iterator<Item = &AtomicPtr<Table>> {
        let tables = self.tables();
        let first = (id.0.wrapping_mul(0x9e37_79b9) >> self.shift) as usize;
        (0..tables.len()).map(move |step| &tables[(first + step) & (tables.len() - 1)])
    }
}

impl Directory {
    pub fn new() -> Directory {
        Directory { slots: AtomicPtr::new(ptr::null_mut()), count: AtomicUsize::new(0) }
    }

    #[inline]
    fn slots(&self) -> Option<&Slots> {
        // SAFETY: null or published by `grow` after it was written, in the arena that our borrow borrows.
        // Acquire meets the Release in `grow`.
        unsafe { self.slots.load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    fn load(slot: &AtomicPtr<Table>) -> Option<&Table> {
        // SAFETY: null or published by `insert` after it was written, in the arena that the slot's borrow
        // borrows. Acquire meets the Release in `insert`.
        unsafe { slot.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the table `id`, if it was ever written.
    #[inline]
    pub fn find(&self, id: TableId) -> Option<&Table> {
        self.slots()?.probe(id).map_while(Self::load).find(|table| table.id == id)
    }

    /// Returns all tables, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Table> {
        self.slots().into_iter().flat_map(Slots::tables).filter_map(Self::load)
    }

    /// Returns the table `id`, which is added if necessary. For the writer.
    #[inline]
    pub fn find_or_add<'m>(&'m self, arena: &'m Arena, bump: &mut Bump, id: TableId) -> &'m Table {
        match self.find(id) {
            Some(table) => table,
            None => self.add(arena, bump, id),
        }
    }

    #[cold]
    fn add<'m>(&'m self, arena: &'m Arena, bump: &mut Bump, id: TableId) -> &'m Table {
        // Relaxed, in two steps: the writer meets its own stores.
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
        if self.slots().is_none_or(|slots| 2 * count >= slots.tables().len()) {
            self.grow(arena, bump);
        }
        let table = bump.place(arena, Table::new(id));
        insert(self.slots().expect("a directory was just made"), table);
        table
    }

    fn grow(&self, arena: &Arena, bump: &mut Bump) {
        let shift = self.slots().map_or(32 - FIRST_SLOTS_LOG2, |slots| slots.shift - 1);
        let count = 1 << (32 - shift);
        let tables = bump.room_for::<AtomicPtr<Table>>(arena, count);
        for i in 0..count {
            // SAFETY: fresh memory for `count` pointers.
            unsafe { tables.add(i).write(AtomicPtr::new(ptr::null_mut())) };
        }
        let slots = bump.place(arena, Slots { shift, tables });
        for table in self.all() {
            insert(slots, table);
        }
        // Release, for the Acquire in `slots`: after the pointers that it holds.
        self.slots.store(ptr::from_ref(slots).cast_mut(), Ordering::Release);
    }
}

/// Stores `table` in the first free slot of its probe sequence.
fn insert(slots: &Slots, table: &Table) {
    let free = slots.probe(table.id).find(|slot| Directory::load(slot).is_none());
    let free = free.expect("a directory is at most half full");
    // Release, for the Acquire in `load`: after the table.
    free.store(ptr::from_ref(table).cast_mut(), Ordering::Release);
}
