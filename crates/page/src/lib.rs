//! Pando, floor 1: the one page layout, its in-page allocator and its search; bytes only, no I/O.
//!
//! ```text
//!   0        64            64 + 8 x count        cells_start                  page_bytes
//!   | header | slots ------> |        gap        | <------- cells, freed cells, a long prefix |
//! ```
//!
//! Leaves and inner pages share everything but the payload of a cell: a leaf's is a value, an inner page's is a
//! [`PagePtr`](base::PagePtr). All keys of a page begin with its *prefix*, which is stored once, in the header if it
//! is short; a slot holds the first four bytes after it as a number, the *head*, so that a binary search rarely
//! touches a cell.
//!
//! Reading order: [`header`] (the byte table), [`view`] (reading a page), [`key`] (the keys of a leaf, one after
//! another), [`search`] (finding a key in it), [`verify`] (what must hold before anything else is called), [`alloc`]
//! (where the free bytes are), [`edit`] (insert, replace, remove), [`slots`] (how slots move then), [`split`] (split,
//! merge, borrow), [`large`] (values and references to large ones), [`compressed`] (the form of a page that is stored
//! in less).
//!
//! # Rules
//! 1. Every key of a page begins with the page's prefix. An insert of a key that does not shortens it first.
//! 2. Slots ascend strictly by key. An inner page's entry 0 has no key: it is minus infinity, and the parent
//!    knows its lower bound.
//! 3. Header, slots, gap, cells, freed cells and the prefix tile the page: no byte belongs to two of them, and
//!    none to nobody.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod alloc;
pub mod compressed;
mod copy;
pub mod edit;
pub mod header;
pub mod key;
pub mod large;
pub mod search;
pub mod slots;
pub mod split;
pub mod verify;
pub mod view;

pub use base::LargeRef;
pub use compressed::{Compressed, Compressor};
pub use edit::{EditCounters, NoRoom, PageMut};
pub use header::Kind;
pub use key::LeafKey;
pub use large::Value;
pub use view::{Page, Parts};
