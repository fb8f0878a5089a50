//! The space map (floor 2): the used and free units of the data file.
//!
//! Reading order: [`root`] (what the superblock stores), `chunk` (32,768 units as bits), [`map`] (retire, release,
//! revert), `place` (where units are handed out), `save` (the written form, copy-on-write), `reached` (what readers
//! keep), `trim` (returning space to the file system), [`firm`] (space that is guaranteed on a full disk), [`check`]
//! (the comparison of the map with what is reachable).
//!
//! A unit is in one of three states:
//!
//! ```text
//!            allocate                    retire                    release
//!   free ───────────────► used ──────────────────────► retired ───────────────► free
//!     ▲                    │    (saved as free already,            (its checkpoint is safe
//!     └────────────────────┘     but not handed out)                and nobody reads it)
//!          free_unused
//! ```
#![deny(missing_docs)]

pub mod check;
mod chunk;
pub mod firm;
pub mod map;
mod named;
mod place;
mod reached;
pub mod root;
mod save;
#[cfg(test)]
mod tests;
mod trim;

pub use check::{CheckReport, SavedMap};
pub use firm::Firm;
pub use map::{Space, SpaceStats};
pub use named::NamedNeed;
pub use root::{Extent, SpaceRoot};
pub use trim::Trim;
