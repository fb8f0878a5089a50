//! Nodes of append slots under a permutation (after Masstree; Mao, Kohler and Morris 2012), the pointers to nodes, and
//! why their readers need neither locks nor retries.
//!
//! A node has [`SLOTS`] slots and one atomic word, the permutation, which says how many slots count and in which order.
//! A leaf's slot has a key's head and its newest record. An inner node's slot also has a child, and the key of its
//! record is the separator: the child holds the keys from its separator (the first child: from the lowest key) up to
//! the next one.
//!
//! What the one writer does to a node that readers may see:
//!
//! 1. **Append**: fill a slot that no permutation of this node ever named, then publish a permutation that
//!    names it.
//! 2. **Replace by two** (inner only): fill two such slots with copies of a child's halves, then publish a
//!    permutation that names both in the place of the child.
//! 3. **Newer version** (leaf only): store a record of the same key, whose chain leads to the old one, into a
//!    slot.
//! 4. **Newer copy** (inner only): store a child with the same keys or more, over the same range, into a
//!    slot.
//!
//! Separators ascend within a node. Searches do not look at the first child's separator, and keys below it may be
//! there. When that child is split, its left half's first key becomes the separator, so that the right half's is above.
//!
//! The writer does nothing else: no slot is used twice, no published permutation is wrong about a slot's key, nodes
//! that were split or copied stay unchanged, and the memory of nodes is not reused before the memtable is dropped.
//!
//! # Heads after a skip
//! Keys that share their first bytes would share their heads, and each comparison would wait for a key. A node
//! therefore skips [`Node::skip`] bytes of all keys. A node that is made between two separators only holds keys between
//! them and is only searched for such keys. These begin with the common prefix of the two separators, so the node may
//! skip it. Nodes at the tree's edges, including the root, have a separator on one side at most and skip nothing.
//!
//! The skip never changes during a node's life, and copies (4) keep it: a reader with an old permutation of the parent
//! comes to the copy with keys from the range that the first node in the slot was made for, which is no narrower.
//! Replacing by two may skip more: only permutations that name the new separator name the new slots.
//!
//! # What a reader sees
//! A reader at timestamp `at` must find exactly the records with `ts <= at`, and all of those were applied before it
//! began. The (node, permutation) pairs that it holds on its way down become *stale* as soon as the writer continues.
//! Going down from a stale pair still finds every such record in its place:
//! * the pair names each key that the node held when it was read, by (1) and (2) forever;
//! * the record in a leaf's slot is the one that was there or a newer version that leads to it (3);
//! * the child in an inner slot is the one that was there or a copy that holds at least its keys (4); a child that was
//!   replaced by two is not changed by that, and holds what it held.
//!
//! By induction over the levels the reader meets each key that was there when it began once, in order. It may meet more
//! keys (later ones, in parts that it had not yet read), but these have `ts > at` in all their versions and are
//! skipped. A cursor therefore keeps the pairs on its stack with an index into each and moves over those alone: it
//! never follows a link between siblings, and never rereads the permutation of a node on its stack.
//!
//! # Orderings
//! The writer stores permutations, records, children and roots with Release after everything that they lead
//! to; the readers' Acquire loads of the same words are the partners. Heads are plain data that a permutation
//! publishes: Relaxed. `newest` is stored before what it announces, and also published by that.

use crate::permutation::{Permutation, SLOTS};
use crate::record::{Header, Record, compare_behind_head};
use base::CommitTs;
use base::keys::head8;
use base::prefetch::prefetch;
use base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::array;
use std::cmp::Ordering as Order;
use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// The largest number of levels: an inner node gains at least four entries (15 slots) between its making and its split,
/// and 4^16 leaves exceed any memory.
pub(crate) const MAX_LEVELS: usize = 16;

/// A leaf, or the front of an inner node. Four cache lines.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Node {
    permutation: AtomicU64,
    /// The upper 56 bits: a timestamp at or after that of every record below. Only leaves and their parents keep it up
    /// to date, so that commits do not invalidate these lines of the upper levels in the readers' caches: see
    /// [`NodePtr::newest`]. The low byte: the skip, which never changes.
    newest_and_skip: AtomicU64,
    heads: [AtomicU64; SLOTS],
    records: [AtomicPtr<Header>; SLOTS],
}

/// An inner node. Seven cache lines.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Inner {
    node: Node,
    /// The number of slots that were ever named, or [`RETIRED`]. Only the writer uses it; Relaxed throughout.
    used: AtomicU64,
    children: [NodeSlot; SLOTS],
    /// Above the parents of leaves: a timestamp at or after that of every record below. It is in a line that look-ups
    /// do not read, because each commit writes it. The search for changes skips whole subtrees by it.
    newest_below: Line,
}

/// The number of slots that says that the node was replaced.
const RETIRED: u64 = u64::MAX;

/// A word in a cache line of its own.
#[repr(align(64))]
#[derive(Debug)]
struct Line(AtomicU64);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Node>() == 256 && size_of::<Inner>() == 448);

/// The longest prefix that a node skips: a byte holds it.
pub(crate) const MAX_SKIP: usize = u8::MAX as usize;

/// The parts of an entry of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'m> {
    /// The key's head after `skip` bytes.
    pub head: u64,
    pub skip: usize,
    pub record: Record<'m>,
    /// The child, in inner nodes only.
    pub child: Option<NodePtr<'m>>,
}

impl<'m> Entry<'m> {
    /// Converts the entry for a node that skips `skip` bytes, which the key has.
    #[inline]
    #[must_use]
    pub fn behind(self, skip: usize) -> Entry<'m> {
        match skip == self.skip {
            true => self,
            false => Entry { head: head8(&self.record.key()[skip..]), skip, ..self },
        }
    }
}

/// The bits of a timestamp in a node. They suffice for two thousand years of a million commits a second.
const TIMESTAMP_BITS: u32 = base::limits::TIMESTAMP_LIMIT.trailing_zeros() + 1;

/// Returns the word of a node for `newest` and `skip`.
#[inline]
fn pack(newest: CommitTs, skip: usize) -> u64 {
    assert!(newest.0 >> TIMESTAMP_BITS == 0 && skip <= MAX_SKIP, "a timestamp of 56 bits, a skip of 8");
    newest.0 << 8 | skip as u64
}

impl Node {
    /// Creates a leaf of at most [`SLOTS`] entries, none newer than `newest`, which skips the first `skip` bytes of all
    /// keys. It can also be the front of an inner node.
    pub fn with(entries: &[Entry<'_>], newest: CommitTs, skip: usize) -> Node {
        let head = |i| entries.get(i).map_or(0, |entry: &Entry<'_>| entry.behind(skip).head);
        let record = |i| entries.get(i).map_or(ptr::null_mut(), |entry: &Entry<'_>| entry.record.as_ptr());
        Node {
            permutation: AtomicU64::new(Permutation::identity(entries.len()).0),
            newest_and_skip: AtomicU64::new(pack(newest, skip)),
            heads: array::from_fn(|i| AtomicU64::new(head(i))),
            records: array::from_fn(|i| AtomicPtr::new(record(i))),
        }
    }

    /// Creates a leaf of the records of `ts` that `records` returns, at most [`SLOTS`], each with its head.
    #[inline]
    pub fn of_records<'m>(
        records: impl Iterator<Item = (u64, Record<'m>)>,
        ts: CommitTs,
        skip: usize,
    ) -> Node {
        let (mut heads, mut pointers, mut count) = ([0; SLOTS], [ptr::null_mut(); SLOTS], 0);
        for (slot, (head, record)) in records.enumerate() {
            (heads[slot], pointers[slot], count) = (head, record.as_ptr(), slot + 1);
        }
        Node {
            permutation: AtomicU64::new(Permutation::identity(count).0),
            newest_and_skip: AtomicU64::new(pack(ts, skip)),
            heads: heads.map(AtomicU64::new),
            records: pointers.map(AtomicPtr::new),
        }
    }

    #[inline]
    pub fn permutation(&self) -> Permutation {
        // Acquire meets `publish`: the slots that it names were filled before.
        Permutation(self.permutation.load(Ordering::Acquire))
    }

    #[inline]
    pub fn publish(&self, permutation: Permutation) {
        // Release, for the Acquire in `permutation`: after the slots that it names.
        self.permutation.store(permutation.0, Ordering::Release);
    }

    #[inline]
    pub fn newest(&self) -> CommitTs {
        // Relaxed: stored before the change is published; a thread that must see the change meets that Release, or
        // the store that showed it that the commit was applied.
        CommitTs(self.newest_and_skip.load(Ordering::Relaxed) >> 8)
    }

    /// Returns how many bytes all keys that are searched here have in common, which heads leave out.
    #[inline]
    pub fn skip(&self) -> usize {
        // Relaxed: as it was when the Release of a NodeSlot published the node.
        (self.newest_and_skip.load(Ordering::Relaxed) & MAX_SKIP as u64) as usize
    }

    /// Records that a record of `ts` is about to be published below. The writer alone calls it, so that the two steps
    /// need not be atomic.
    #[inline]
    pub fn stamp(&self, ts: CommitTs) {
        if self.newest() < ts {
            // Relaxed: the Release that publishes the change comes after, and publishes this too.
            self.newest_and_skip.store(pack(ts, self.skip()), Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn head(&self, slot: usize) -> u64 {
        // Relaxed: stored before the permutation that names the slot, which readers load with Acquire.
        self.heads[slot].load(Ordering::Relaxed)
    }

    /// Returns the newest record of the key in `slot`, which a permutation of this node names.
    #[inline]
    pub fn record(&self, slot: usize) -> Record<'_> {
        // SAFETY: slots are filled, from records of this memtable, before a permutation names them, and only
        // ever with such (crate invariant: one writer holds the nodes and records of one memtable). Acquire:
        // the record was written before this pointer to it.
        let record = unsafe { Record::from_ptr(self.records[slot].load(Ordering::Acquire)) };
        record.expect("a named slot is filled")
    }

    /// Fills a slot that was never named.
    #[inline]
    pub fn fill(&self, slot: usize, entry: &Entry<'_>) {
        self.fill_with(slot, entry.behind(self.skip()).head, entry.record);
    }

    /// Fills a slot that was never named with `record`. `head` is the key's head after the bytes that the node skips.
    #[inline]
    pub fn fill_with(&self, slot: usize, head: u64, record: Record<'_>) {
        // Relaxed: `publish` releases it with the permutation that names the slot; a named slot's head stays.
        self.heads[slot].store(head, Ordering::Relaxed);
        self.set_record(slot, record);
    }

    #[inline]
    pub fn set_record(&self, slot: usize, record: Record<'_>) {
        // Release, for the Acquire in `record`: after the record that it leads to.
        self.records[slot].store(record.as_ptr(), Ordering::Release);
    }

    /// Returns the place of `key` among the entries, or the place to insert it. Takes four steps over heads, without a
    /// branch that depends on them; keys are compared only where heads are equal.
    #[inline]
    pub fn search(&self, permutation: Permutation, key: &[u8]) -> Result<usize, usize> {
        let skip = self.skip();
        let key = &key[skip..];
        let head = head8(key);
        let count = permutation.len();
        let mut place = 0;
        for step in [8, 4, 2, 1] {
            // After the last place a permutation names slot 0, so that the load is harmless.
            let less = self.head(permutation.slot(place + step - 1)) < head;
            place = select_unpredictable(less & (place + step <= count), place + step, place);
        }
        let same = |place: usize| place < count && self.head(permutation.slot(place)) == head;
        if !same(place) {
            return Err(place);
        }
        let run = if same(place + 1) { count } else { place + 1 };
        self.search_run(permutation, place..run, (head, key), skip)
    }

    /// Does [`Node::search`] among places that begin with one or more of the head `head`. It halves the places, because
    /// each comparison of keys may wait for memory. `key` lacks the `skip` bytes that the node skips.
    #[inline]
    fn search_run(
        &self,
        permutation: Permutation,
        run: Range<usize>,
        (head, key): (u64, &[u8]),
        skip: usize,
    ) -> Result<usize, usize> {
        let Range { start: mut low, end: mut high } = run;
        while low < high {
            let middle = (low + high) / 2;
            let slot = permutation.slot(middle);
            let order = match self.head(slot) == head {
                true => compare_behind_head(key, &self.record(slot).key()[skip..]),
                false => Order::Less,
            };
            match order {
                Order::Less => high = middle,
                Order::Equal => return Ok(middle),
                Order::Greater => low = middle + 1,
            }
        }
        Err(low)
    }

    /// Returns the place of the child that covers `key`, in an inner node.
    #[inline]
    pub fn covering(&self, permutation: Permutation, key: &[u8]) -> usize {
        match self.search(permutation, key) {
            Ok(place) => place,
            Err(place) => place.saturating_sub(1),
        }
    }

    /// Prefetches the records of all entries, for a reader that is about to visit them one by one.
    #[inline]
    pub fn prefetch_records(&self, permutation: Permutation) {
        for place in 0..permutation.len() {
            // Relaxed: the pointer is not followed.
            prefetch(self.records[permutation.slot(place)].load(Ordering::Relaxed));
        }
    }
}

impl Inner {
    /// The bytes that look-ups read: all but the last line.
    pub const LOOKED_AT_BYTES: usize = offset_of!(Inner, newest_below);

    /// Returns a timestamp at or after that of every record below this node, which is above the parents of leaves.
    #[inline]
    pub fn newest_below(&self) -> CommitTs {
        // Relaxed: as `Node::newest`.
        CommitTs(self.newest_below.0.load(Ordering::Relaxed))
    }

    /// Records, above the parents of leaves, that a record of `ts` is about to be published below. See [`Node::stamp`].
    #[inline]
    pub fn stamp_below(&self, ts: CommitTs) {
        if self.newest_below() < ts {
            // Relaxed, in two steps: as `Node::stamp`.
            self.newest_below.0.store(ts.0, Ordering::Relaxed);
        }
    }

    /// Creates an inner node of at most [`SLOTS`] entries, each with its child; otherwise like [`Node::with`].
    pub fn with(entries: &[Entry<'_>], newest: CommitTs, skip: usize) -> Inner {
        Inner {
            node: Node::with(entries, newest, skip),
            used: AtomicU64::new(entries.len() as u64),
            children: array::from_fn(|i| NodeSlot::new(entries.get(i).and_then(|entry| entry.child))),
            newest_below: Line(AtomicU64::new(newest.0)),
        }
    }

    #[inline]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the child in `slot`, which a permutation of this node names.
    #[inline]
    pub fn child(&self, slot: usize) -> NodePtr<'_> {
        self.children[slot].load().expect("a named slot is filled")
    }

    /// Stores a child with at least the keys of the present one.
    pub fn set_child(&self, slot: usize, child: NodePtr<'_>) {
        self.children[slot].store(child);
    }

    /// Fills a slot that was never named, and returns it. There must be one left.
    pub fn append(&self, entry: &Entry<'_>) -> usize {
        // Relaxed: only the writer reads `used`.
        let slot = self.used.load(Ordering::Relaxed) as usize;
        assert!(slot < SLOTS, "an inner node has a slot left");
        self.used.store(slot as u64 + 1, Ordering::Relaxed);
        self.set_child(slot, entry.child.expect("inner entries have children"));
        self.node.fill(slot, entry);
        slot
    }

    /// Notes that the node was replaced by others. Readers that are inside it stay there.
    pub fn retire(&self) {
        // Relaxed: the writer's own, as in `append`.
        self.used.store(RETIRED, Ordering::Relaxed);
    }

    /// Returns whether the node was not replaced.
    #[inline]
    pub fn is_live(&self) -> bool {
        // Relaxed: the writer's own, as in `append`.
        self.used.load(Ordering::Relaxed) != RETIRED
    }

    /// Returns how many slots [`Inner::append`] still has.
    pub fn room(&self) -> usize {
        // Relaxed: the writer's own, as in `append`.
        SLOTS - self.used.load(Ordering::Relaxed) as usize
    }
}

/// The low bits of the address of a node, which hold its level.
const LEVEL_MASK: usize = align_of::<Node>() - 1;
const _: () = assert!(MAX_LEVELS <= LEVEL_MASK);

/// A node of a memtable that is borrowed for `'m`, and its level (leaves: 0) in the low bits of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodePtr<'m> {
    tagged: NonNull<Node>,
    memtable: PhantomData<&'m Node>,
}

// SAFETY: as good as a `&'m Node`, which holds nothing but atomics; records are reached through them as
// records are.
unsafe impl Send for NodePtr<'_> {}
// SAFETY: as above.
unsafe impl Sync for NodePtr<'_> {}

impl<'m> NodePtr<'m> {
    pub fn leaf(leaf: &'m Node) -> NodePtr<'m> {
        NodePtr { tagged: NonNull::from(leaf), memtable: PhantomData }
    }

    /// Returns a pointer to an inner node at `level`, which is above 0.
    pub fn inner(inner: &'m Inner, level: usize) -> NodePtr<'m> {
        assert!(0 < level && level < MAX_LEVELS, "a tree of {level} levels");
        let tagged = NonNull::from(inner).cast::<Node>().map_addr(|addr| addr | level);
        NodePtr { tagged, memtable: PhantomData }
    }

    #[inline]
    pub fn level(self) -> usize {
        self.tagged.addr().get() & LEVEL_MASK
    }

    #[inline]
    fn untagged(self) -> *const Node {
        self.tagged.as_ptr().map_addr(|addr| addr & !LEVEL_MASK)
    }

    /// Returns the node; for an inner node its front.
    #[inline]
    pub fn node(self) -> &'m Node {
        // SAFETY: made from a reference that lived for 'm, plus the level, which is taken off again; a Node
        // is the front of an Inner, which is repr(C).
        unsafe { &*self.untagged() }
    }

    /// Returns the inner node, or `None` for a leaf.
    #[inline]
    pub fn as_inner(self) -> Option<&'m Inner> {
        // SAFETY: a level above 0 says that it was made from an Inner, by `inner`; else as in `node`.
        (self.level() > 0).then(|| unsafe { &*self.untagged().cast::<Inner>() })
    }

    /// Returns a timestamp at or after that of every record below.
    #[inline]
    pub fn newest(self) -> CommitTs {
        match self.as_inner() {
            Some(inner) if self.level() > 1 => inner.newest_below(),
            _ => self.node().newest(),
        }
    }

    /// Records in the node that a record of `ts` is about to be published below. The writer alone calls it.
    #[inline]
    pub fn stamp(self, ts: CommitTs) {
        match self.as_inner() {
            Some(inner) if self.level() > 1 => inner.stamp_below(ts),
            _ => self.node().stamp(ts),
        }
    }

    /// Prefetches all lines of the node at once, because a search would wait for one after the other.
    #[inline]
    pub fn prefetch(self) {
        let bytes = if self.level() > 0 { Inner::LOOKED_AT_BYTES } else { size_of::<Node>() };
        for offset in (0..bytes).step_by(64) {
            prefetch(self.untagged().wrapping_byte_add(offset));
        }
    }
}

/// The word in which a [`NodePtr`] is published: an inner node's child, or a table's root.
#[derive(Debug)]
pub(crate) struct NodeSlot(AtomicPtr<Node>);

impl NodeSlot {
    pub fn new(node: Option<NodePtr<'_>>) -> NodeSlot {
        NodeSlot(AtomicPtr::new(node.map_or(ptr::null_mut(), |node| node.tagged.as_ptr())))
    }

    /// Returns the node. Acquire: what the node holds was written before it was published here.
    #[inline]
    pub fn load(&self) -> Option<NodePtr<'_>> {
        // The lifetime is the slot's borrow: slots lie in the same memtable as the nodes that they lead to
        // (crate invariant: one writer holds the nodes of one memtable).
        let tagged = NonNull::new(self.0.load(Ordering::Acquire))?;
        Some(NodePtr { tagged, memtable: PhantomData })
    }

    pub fn store(&self, node: NodePtr<'_>) {
        // Release, for the Acquire in `load`: after all that the node holds.
        self.0.store(node.tagged.as_ptr(), Ordering::Release);
    }
}
