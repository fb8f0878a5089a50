//! The memtable (floor 3), which holds committed changes until a checkpoint has merged them into pages.
//!
//! ```text
//!   Writer ──put/delete/delete_range──► Memtable ◄──get/cursor/changed_since── any number of readers
//!                                          ▼
//!            directory: table id ──► Table ──► tree of nodes ──► newest record ──► older ──► older
//!                                      └─────► range deletes, a tree of edges as of each commit
//! ```
//!
//! There is one writer, who holds the [`Writer`]. Readers take no lock, never wait and write nothing. Everything is
//! insert-only and lies in one arena that is freed as a whole. So what a reader was shown stays in its place for as
//! long as the memtable lives.
//!
//! The files, in this order; each uses only those before it:
//!
//! 1. `idle`: memory that merged memtables left. `arena`: the memory of one.
//! 2. `record`: one version of one key.
//! 3. `ranges`: range deletes as a tree of edges.
//! 4. `permutation` and `node`: the append slots, the pointers to nodes, and why readers need no lock.
//! 5. `search`: down the tree.
//! 6. `hint`: places that were searched before. `insert`: one key at a time, and splits; `link`: the keys of a commit;
//!    `bulk`: sorted loads.
//! 7. `table`: the tree and the range deletes of each table, found by its id.
//! 8. `cursor`: keys in order; `changed`: the queries of validation.
//! 9. `stage`: memory for commits to come. `memtable` and `writer`: the public types. `staged`: what a commit does
//!    before the writer has its turn.
#![deny(missing_docs)]

mod idle;
mod arena;
mod record;
mod ranges;
mod permutation;
mod node;
mod search;
mod hint;
mod insert;
mod link;
mod bulk;
mod table;
mod stage;
mod cursor;
mod changed;
mod memtable;
mod writer;
mod staged;

pub use cursor::Cursor;
pub use idle::IdleChunks;
pub use memtable::Memtable;
pub use ranges::{Fragment, Ranges, Span};
pub use staged::Staged;
pub use writer::Writer;
