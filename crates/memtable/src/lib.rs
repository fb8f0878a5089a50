//! Floor 3: the memtable, where committed changes live until a checkpoint has merged them into pages.
//!
//! ```text
//!   Writer ──put/delete/delete_range──► Memtable ◄──get/cursor/changed_since── any number of readers
//!                                          ▼
//!            directory: table id ──► Table ──► tree of nodes ──► newest record ──► older ──► older
//!                                      └─────► range deletes, a tree of edges as of each commit
//! ```
//!
//! One writer, who holds the [`Writer`]; readers take no lock, wait for nobody and write nothing. Everything
//! is insert-only and lies in one arena that is freed whole, so that what a reader was shown stays where it
//! is for as long as the memtable lives.
//!
//! Reading order: `arena` (memory), `record` (one version of one key), `node` (the append slots and the
//! permutation, and why readers need no lock), `pointer`, `search` (down the tree), `insert` (splits), `bulk`
//! (sorted loads), `ranges` (range deletes), `table` (both by table), `cursor`, `changed` (what validation
//! asks), `memtable` and `writer` (the public face).
#![deny(missing_docs)]

mod arena;
mod bulk;
mod changed;
mod cursor;
mod insert;
mod memtable;
mod node;
mod pointer;
mod ranges;
mod record;
mod search;
mod table;
mod writer;

pub use cursor::Cursor;
pub use memtable::{Found, Memtable};
pub use ranges::{Fragment, Ranges, Span};
pub use writer::Writer;
