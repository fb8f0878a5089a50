//! Many layers shown as one: each live key once, with its newest value, in either direction.
//!
//! ```text
//!   upper layers, newest first:  own writes · own spilled runs · active memtable · sealed memtables, each above the
//!                                runs attached with it
//!   lower layer:                 the run                                              (most of the records)
//! ```
//!
//! A layer's entry hides the same key in every layer below it, and so does a *range tombstone* of a layer that covers
//! the key. What a layer says of a key that its own range tombstones cover is its own business: it reports the entry
//! as deleted if the range delete came after it.
//!
//! Layers that have nothing of a table are left out by the builder of the cursor; over no upper layer at all it adds
//! one test to a step of the run's cursor.
//!
//! Reading order: [`Layer`] here, [`cursor`] (the algorithm), [`shortcuts`] (over what is dead), [`layers`] and
//! [`run_layer`] (what stands behind the trait).

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

use base::Result;
use page::LargeRef;

/// What a layer says about a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// It has this value.
    Value(&'a [u8]),
    /// It has a value that lies in an extent of its own.
    Large(LargeRef),
    /// It is deleted, whatever lower layers say.
    Deleted,
}

/// The first and the end of a range tombstone; no end means to the end of the table.
pub type Span<'a> = (&'a [u8], Option<&'a [u8]>);

/// A cursor over one layer, in key order, each key once. A move answers whether it ended on an entry; after one that
/// did not, and after an error, the layer is off every entry and is moved next by a seek only.
pub trait Layer {
    /// To the first entry.
    fn seek_first(&mut self) -> Result<bool>;
    /// To the last entry.
    fn seek_last(&mut self) -> Result<bool>;
    /// To the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;
    /// To the last entry before `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<bool>;
    /// To the next entry.
    fn next(&mut self) -> Result<bool>;
    /// To the entry before.
    fn prev(&mut self) -> Result<bool>;
    /// The entry, unless the layer is off.
    fn entry(&self) -> Option<(&[u8], Item<'_>)>;

    /// The entry's key.
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|(key, _)| key)
    }
    /// A number of steps, `forward` or back, that are certain to succeed and to end before `key` in that direction. 0
    /// is always right; more saves the merge as many comparisons. At most one search in what is at hand.
    fn steps_before(&self, _key: &[u8], _forward: bool) -> u32 {
        0
    }
    /// Goes one entry on, `forward` or back, if that is at hand and has an [`Item::Value`]; else stays. False is always
    /// right.
    fn glide(&mut self, _forward: bool) -> bool {
        false
    }
    /// Key and value of the entry that a glide led to.
    #[inline]
    fn glided(&self) -> Option<(&[u8], &[u8])> {
        match self.entry() {
            Some((key, Item::Value(value))) => Some((key, value)),
            _ => None,
        }
    }
    /// Goes on over the entries behind this one, `most` or fewer, as far as that is cheap, perhaps over none, and shows
    /// them: the beginning of the key, its rest, and the value. Ends on the last one shown; answers how many were.
    fn run_on(&mut self, _most: u32, _each: impl FnMut(&[u8], &[u8], &[u8])) -> u32
    where
        Self: Sized,
    {
        0
    }
    /// Whether [`Layer::covering`] can ever answer: asked once per cursor.
    fn has_ranges(&self) -> bool {
        false
    }
    /// A range tombstone of this layer that covers `key`, and so hides it in lower layers.
    fn covering(&self, _key: &[u8]) -> Option<Span<'_>> {
        None
    }
}
