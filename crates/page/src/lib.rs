//! The page layout, its in-page allocator and its search (floor 1). It works on bytes only and does no I/O.
//!
//! ```text
//!   0        64            64 + 8 x count        cells_start                  page_bytes
//!   | header | slots ------> |        gap        | <------- cells, freed cells, a long prefix |
//! ```
//!
//! Leaves and inner pages share everything but the payload of a cell: a leaf's is a value, an inner page's is a
//! [`PagePtr`](base::PagePtr). All keys of a page begin with its *prefix*, which is stored once, in the header if it is
//! short. A slot holds the first four bytes after the prefix as a number, the *head*, so that a binary search rarely
//! touches a cell.
//!
//! Reading order: [`header`] (the byte table), [`view`] (reading a page), [`key`] (the keys of a leaf, one after
//! another), [`search`] (finding a key in it), [`verify`] (the check before anything else is called), [`alloc`] (free
//! bytes), [`edit`] (insert, replace, remove), [`slots`] (how edits move slots), [`split`] (split, merge, borrow),
//! [`compressed`] (pages stored in fewer bytes).
//!
//! # Rules
//! 1. Every key of a page begins with the page's prefix. An insert of a key that does not shortens the prefix first.
//! 2. Slots ascend strictly by key. An inner page's entry 0 has no key: it stands for minus infinity, and the parent
//!    knows its lower bound.
//! 3. Header, slots, gap, cells, freed cells and the prefix tile the page: every byte belongs to exactly one of them.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod alloc;
pub mod compressed;
mod copy;
pub mod edit;
pub mod header;
pub mod key;
pub mod search;
pub mod slots;
pub mod split;
pub mod verify;
pub mod view;

pub use base::{Large, LargeRef, Value};
pub use compressed::{Compressed, Compressor};
pub use edit::{EditCounters, NoRoom, PageMut};
pub use header::Kind;
pub use key::LeafKey;
pub use view::{InlineRecord, Page, Parts};
