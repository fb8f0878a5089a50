//! A delta that is not committed yet, and what is known of it without reading it.

use super::extents::Extents;
use run::Delta;
use space::Extent;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A delta that is not committed yet.
#[derive(Debug)]
pub(crate) struct Spilled {
    pub delta: Delta,
    pub(super) bounds: Bounds,
    /// What of the delta was read before it was written.
    pub reads: Reads,
    /// The size class of the delta: the number of merges that led to it.
    pub(super) level: u32,
    /// The owners of its pages. Joined deltas share them.
    pub(super) pages: Vec<Arc<Extents>>,
    /// The owners of the large values that it may refer to.
    pub(super) values: Vec<Arc<Extents>>,
    /// The large values among these that merges have dropped.
    pub(super) garbage: Vec<Extent>,
    /// The pages among these that joins have left out: all inner pages of the parts. An extent has pages of one level.
    pub(super) left: Vec<Extent>,
    /// Its memory, once it belongs to a transaction's spills.
    pub(super) counted: Option<Counted>,
}

/// Memory that is part of a sum as long as this exists.
#[derive(Debug)]
pub(super) struct Counted {
    sum: Arc<AtomicUsize>,
    bytes: usize,
}

impl Counted {
    fn new(sum: &Arc<AtomicUsize>, bytes: usize) -> Self {
        sum.fetch_add(bytes, Ordering::SeqCst);
        Counted { sum: Arc::clone(sum), bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// The bounds of the keys of deltas.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// A key that is not after the delta's first record.
    pub first: Vec<u8>,
    /// The greatest key of the delta and of the table's older ones; `None`: unknown, because a range delete may cover
    /// greater keys.
    pub last: Option<Vec<u8>>,
}

/// What of a delta counts as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Nothing,
    Records,
    /// The range deletes, too: they have hidden records that were read, and that a merge has dropped.
    Everything,
}

impl Spilled {
    /// Notes that it is newer than `older`, the newest delta of its table so far, if there is any, and adds its memory
    /// to `sum`.
    pub fn over(mut self, older: Option<&Arc<Spilled>>, sum: &Arc<AtomicUsize>) -> Arc<Spilled> {
        let extents = self.garbage.len() + self.left.len();
        let bytes = size_of::<Spilled>() + self.delta.ranges.bytes() + size_of::<Extent>() * extents;
        self.counted = Some(Counted::new(sum, bytes));
        if let Some(older) = older {
            let last = self.bounds.last.take().zip(older.bounds.last.as_ref());
            self.bounds.last = last.map(|(own, last)| own.max(last.clone()));
        }
        Arc::new(self)
    }

    /// Returns whether `key` and all greater keys are after the writes of this delta and of the table's older ones.
    #[inline]
    pub fn is_before(&self, key: &[u8]) -> bool {
        self.bounds.last.as_ref().is_some_and(|last| key > &last[..])
    }

    /// Returns whether its keys are after those of `older`, the next older delta, and neither has range deletes.
    pub fn follows(&self, older: &Spilled) -> bool {
        self.bounds.last.is_some() && older.is_before(&self.bounds.first)
    }

    /// Returns the owners of its extents.
    pub fn owners(&self) -> impl Iterator<Item = &Arc<Extents>> {
        self.pages.iter().chain(&self.values)
    }

    /// Returns the first units of extents that its owners have and it does not need.
    pub fn dropped(&self) -> impl Iterator<Item = u64> {
        self.garbage.iter().chain(&self.left).map(|extent| extent.unit)
    }
}
