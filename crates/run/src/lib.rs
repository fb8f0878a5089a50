//! A *run* (floor 3): a B+tree of immutable, checksummed pages.
//!
//! ```text
//!   Run { root, height } ──► inner page ──► inner page ──► leaf: records in key order
//!                            (16-byte PagePtr per child: unit, length, checksum, flags)
//! ```
//!
//! Pages never change once written, so readers need no lock: a reader with the descriptor of a run reads the same
//! records until its pages are released. A changed run is another run, which shares the unchanged pages.
//!
//! The modules, in this order; each uses only those before it:
//!
//! 1. `allocate`: places for new pages; `descriptor`: [`Run`].
//! 2. `compressing`: which leaves are compressed; [`large`]: values outside of pages.
//! 3. [`get`]: one key; [`cursor`]: many, in both directions; `leaf_run`: many in place.
//! 4. `drop`: retires subtrees without reading them; `context`: what a checkpoint reads and writes through.
//! 5. [`build`]: builds a whole run from records in order, or continues one.
//! 6. [`editor`]: the one writer: shadows pages, edits them in place, writes them back in key order.
//! 7. `cut`: removes a run's front.
//! 8. [`ranges`] and [`filter`]; [`resident`]: filters in memory; [`delta`]: a run that lies over others, with deletes,
//!    range deletes and a filter.
//! 9. `join`: deltas that follow one another made one; [`merge`]: several runs read as one; `explain`: the pages that a
//!    look-up reads.
//! 10. [`check`]: verifies everything; [`walk`]: visits every extent, for a copy.
//!
//! # Rules
//! 1. A child's level is its parent's less one; the root's level is the height less one. Every descent counts down, so
//!    that pointers in a hostile file cannot lead it in a circle.
//! 2. Entry `i` of an inner page covers the keys from its own key up to entry `i + 1`'s. Entry 0 has no key: its
//!    lower bound is the parent's.
//! 3. No page on disk is empty; an empty run has no root.
//! 4. A pointer has [`PagePtr::HAS_LARGE`](base::PagePtr::HAS_LARGE) exactly if a large value lies below.
//! 5. A leaf holds deletes only if the run's descriptor says that it may.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod allocate;
mod descriptor;
mod compressing;
pub mod large;
pub mod get;
pub mod cursor;
mod leaf_run;
mod drop;
mod write_context;
pub mod build;
pub mod editor;
mod cut;
pub mod ranges;
pub mod filter;
pub mod resident;
pub mod delta;
mod join;
pub mod merge;
mod explain;
pub mod check;
pub mod walk;

pub use allocate::Allocate;
pub use build::Builder;
pub use check::CheckReport;
pub use cursor::Cursor;
pub use delta::{Delta, DeltaBuilder, Said};
pub use descriptor::{MAX_HEIGHT, Run};
pub use editor::{Editor, Relocation};
pub use explain::Outline;
pub use filter::{BitsPerKey, Probe};
pub use get::{FirstWithPrefix, Leaf, PinnedRecord, RecordPosition};
pub use join::{Part, join};
pub use large::{Pieces, add_piece, read_large};
pub use leaf_run::LeafRun;
pub use merge::Merge;
pub use ranges::Ranges;
pub use resident::{Residence, Resident};
pub use write_context::WriteContext;
