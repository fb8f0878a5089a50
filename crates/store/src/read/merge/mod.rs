//! Many layers shown as one: each live key once, with its newest value, in either direction.
//!
//! ```text
//!   upper layers, newest first:  own writes · own spilled runs · active memtable · sealed memtables, each above the
//!                                runs attached with it
//!   lower layer:                 the run                                              (most of the records)
//! ```
//!
//! A layer's entry hides the same key in every layer below it, and so does a *range tombstone* of a layer that covers
//! the key. A layer applies its range tombstones to its own entries itself: it reports an entry as deleted if the range
//! delete came after it.
//!
//! The builder of the cursor leaves out layers that have nothing of a table. Without upper layers, the merged cursor
//! adds one test to a step of the run's cursor.
//!
//! Reading order: [`Layer`] here, [`cursor`] (the algorithm), [`shortcuts`] (around dead entries), [`layers`] and
//! [`run_layer`] (the implementations of the trait).

pub mod cursor;
pub mod delta_layer;
pub mod layers;
pub mod run_layer;
pub mod shortcuts;

pub use cursor::Merged;
pub use delta_layer::DeltaLayer;
pub use layers::{MemtableLayer, Upper};
pub use run_layer::RunLayer;
pub use shortcuts::{Ahead, Shortcuts};

use base::{Result, Value};
use run::LeafRun;

/// The first key and the end of a range tombstone; no end means to the end of the table.
pub type Span<'a> = (&'a [u8], Option<&'a [u8]>);

/// A cursor over one layer, in key order, each key once. A move returns whether it ended on an entry. After one that
/// did not, and after an error, the layer is off every entry, and only a seek may move it next.
pub trait Layer {
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<bool>;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<bool>;
    /// Moves to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;
    /// Moves to the last entry before `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<bool>;
    /// Moves to the next entry.
    fn next(&mut self) -> Result<bool>;
    /// Moves to the previous entry.
    fn prev(&mut self) -> Result<bool>;
    /// Returns the entry, unless the layer is off.
    fn entry(&self) -> Option<(&[u8], Value<'_>)>;

    /// Returns the entry's key.
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|(key, _)| key)
    }
    /// Returns a number of steps, `forward` or back and `most` or fewer, that are certain to succeed and to end before
    /// `key` in that direction. 0 is always correct; a larger number saves the merge as many comparisons. It takes at
    /// most one search in memory, whose cost grows with the result.
    fn steps_before(&self, _key: &[u8], _forward: bool, _most: u32) -> u32 {
        0
    }
    /// Moves one entry on, `forward` or back, if that entry is in memory and has a [`Value::Inline`]; otherwise stays.
    /// Returning false is always correct.
    fn step_in_leaf(&mut self, _forward: bool) -> bool {
        false
    }
    /// Returns key and value of the entry that [`Layer::step_in_leaf`] led to.
    #[inline]
    fn stepped(&self) -> Option<(&[u8], &[u8])> {
        match self.entry() {
            Some((key, Value::Inline(value))) => Some((key, value)),
            _ => None,
        }
    }
    /// Moves over the entries after this one, or before it, `most` or fewer and up to `limit` in that direction, as far
    /// as that is cheap (possibly none), and passes them to `each`: the beginning of the key, its rest, and the
    /// value. It ends on the last one passed, and returns their number.
    fn run<const FORWARD: bool>(
        &mut self,
        _limit: Option<&[u8]>,
        _most: u32,
        _each: impl FnMut(&[u8], &[u8], &[u8]),
    ) -> u32
    where
        Self: Sized,
    {
        0
    }
    /// Moves forward over many entries, where [`Layer::run`] would, and lends them and those that are certain to
    /// follow, up to `limit`; `certain`, which is `most` or more, bounds all of them. `None`: it stays.
    fn lend_run(&mut self, _limit: Option<&[u8]>, _most: u32, _certain: u32) -> Option<LeafRun> {
        None
    }
    /// Returns whether [`Layer::covering`] can ever return a tombstone: asked once per cursor.
    fn has_ranges(&self) -> bool {
        false
    }
    /// Returns a range tombstone of this layer that covers `key`, and so hides it in lower layers.
    fn covering(&self, _key: &[u8]) -> Option<Span<'_>> {
        None
    }
}
