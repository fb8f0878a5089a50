//! Pando, floor 3: a *run* is a B+tree of immutable, checksummed pages.
//!
//! ```text
//!   Run { root, height } ──► inner page ──► inner page ──► leaf: records in key order
//!                            (16-byte PagePtr per child: unit, length, checksum, flags)
//! ```
//!
//! Pages never change once written, so readers need no lock: a holder of the descriptor of a run reads the same
//! records for ever, until its pages are released. A changed run is another run that shares the pages that stayed
//! the same.
//!
//! Reading order: [`Run`] (the descriptor), [`get`] (one key), [`cursor`] (many, both ways), [`editor`] (the one
//! writer: shadows pages, edits them in place, writes them back in key order), [`build`] (a whole run, from records in
//! order, or more of them behind those it has), `compressing` (its leaves), `drop` (of subtrees, unread), `cut` (of a
//! front), [`check`], [`walk`] (every extent, for a copy). A [`delta`] is a run that lies over others, with deletes,
//! [`ranges`] of them and a [`filter`]; [`merge`] reads several as one.
//!
//! # Rules
//! 1. A child's level is its parent's less one; the root's level is the height less one. Every descent counts down,
//!    so that no pointer in a hostile file leads round in a circle.
//! 2. Entry `i` of an inner page covers the keys from its own key up to entry `i + 1`'s. Entry 0 has no key: its
//!    lower bound is the parent's.
//! 3. No page on disk is empty; an empty run has no root.
//! 4. A pointer carries [`PagePtr::HAS_LARGE`](base::PagePtr::HAS_LARGE) exactly if a large value lies below.
//! 5. A leaf holds deletes only if the run's descriptor says that it may.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod build;
pub mod check;
mod compressing;
pub mod cursor;
mod cut;
pub mod delta;
mod descriptor;
mod drop;
pub mod editor;
mod explain;
pub mod filter;
pub mod get;
pub mod large;
pub mod merge;
pub mod ranges;
mod site;
pub mod walk;

pub use build::{Allocate, Builder};
pub use check::CheckReport;
pub use cursor::Cursor;
pub use delta::{Delta, DeltaBuilder, Said};
pub use descriptor::{MAX_HEIGHT, Run};
pub use editor::{Editor, Relocation};
pub use explain::Outline;
pub use filter::{BitsPerKey, Probe};
pub use get::{Leaf, PinnedRecord, Spot};
pub use large::{Pieces, read_large};
pub use merge::Merge;
pub use ranges::Ranges;
pub use site::Site;
