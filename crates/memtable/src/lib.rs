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
//! The files, in this order; each uses only those before it:
//!
//! 1. `arena`: the memory.
//! 2. `record`: one version of one key, and what it says ([`Found`]).
//! 3. `ranges`: range deletes as a tree of edges.
//! 4. `permutation` and `node`: the append slots, the pointers to nodes, and why readers need no lock.
//! 5. `search`: down the tree.
//! 6. `insert`: one key at a time, and splits; `bulk`: sorted loads.
//! 7. `table`: the tree and the range deletes of each table, found by its id.
//! 8. `cursor`: keys in order; `changed`: what validation asks.
//! 9. `memtable` and `writer`: the public face.
#![deny(missing_docs)]

mod arena;
mod record;
mod ranges;
mod permutation;
mod node;
mod search;
mod insert;
mod bulk;
mod table;
mod cursor;
mod changed;
mod memtable;
mod writer;

pub use cursor::Cursor;
pub use memtable::Memtable;
pub use ranges::{Fragment, Ranges, Span};
pub use record::Found;
pub use writer::Writer;
