//! Pointers to nodes, which know their level, and where they are published.

use crate::node::{Inner, MAX_LEVELS, Node};
use base::CommitTs;
use base::prefetch::prefetch;
use base::sync::atomic::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// Nodes have this many levels' worth of low pointer bits to spare.
const LEVEL_MASK: usize = align_of::<Node>() - 1;
const _: () = assert!(MAX_LEVELS <= LEVEL_MASK);

/// A node of a memtable that is borrowed for `'m`, and its level (leaves: 0) in the low bits of the address.
#[derive(Clone, Copy, Debug)]
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

    /// An inner node at `level`, which is above 0.
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

    /// The node; of an inner one its front.
    #[inline]
    pub fn node(self) -> &'m Node {
        // SAFETY: made from a reference that lived for 'm, plus the level, which is taken off again; a Node
        // is the front of an Inner, which is repr(C).
        unsafe { &*self.untagged() }
    }

    /// The inner node; `None` for a leaf.
    #[inline]
    pub fn as_inner(self) -> Option<&'m Inner> {
        // SAFETY: a level above 0 says that it was made from an Inner, by `inner`; else as in `node`.
        (self.level() > 0).then(|| unsafe { &*self.untagged().cast::<Inner>() })
    }

    /// No record below is newer.
    #[inline]
    pub fn newest(self) -> CommitTs {
        match self.as_inner() {
            Some(inner) if self.level() > 1 => inner.newest_below(),
            _ => self.node().newest(),
        }
    }

    /// As [`Node::stamp`].
    #[inline]
    pub fn stamp(self, ts: CommitTs) {
        match self.as_inner() {
            Some(inner) if self.level() > 1 => inner.stamp_below(ts),
            _ => self.node().stamp(ts),
        }
    }

    /// Fetches all lines of the node side by side, where a search would wait for one after the other.
    #[inline]
    pub fn prefetch(self) {
        let bytes = if self.level() > 0 { Inner::LOOKED_AT_BYTES } else { size_of::<Node>() };
        for offset in (0..bytes).step_by(64) {
            prefetch(self.untagged().wrapping_byte_add(offset));
        }
    }
}

/// Where a [`NodePtr`] is published: an inner node's child, a table's root.
#[derive(Debug)]
pub(crate) struct NodeSlot(AtomicPtr<Node>);

impl NodeSlot {
    pub fn new(node: Option<NodePtr<'_>>) -> NodeSlot {
        NodeSlot(AtomicPtr::new(node.map_or(ptr::null_mut(), |node| node.tagged.as_ptr())))
    }

    /// Acquire: what the node holds was written before it was published here.
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
