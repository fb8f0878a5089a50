//! Floor 2: the page pool.
//!
//! ```text
//!   read(guard, ptr) ──► table: unit → frame ──► frame: checksum as in ptr? ──► PageRef (borrows the guard's epoch)
//!                          │ miss                   │ no
//!                          └────────► fault: one thread reads and verifies, others wait ──► PageRef (holds a Pin)
//!                                       │ needs a frame
//!                                       └─► free list, else grow by a chunk, else evict (S3-FIFO)
//! ```
//! Reading order: [`pool`] (hits, faults, admission), `table` (unit to frame, without locks), `frames` (pins, and when
//! a frame may be written again), `hints` (where a child was found last), `chunk` (the memory of frames), `policy`
//! (which page goes), `ledger` (what may be allocated), `growth` (how far it grows), `huge` (by what memory pages),
//! [`stored`] (a page from the file), [`memory`] (many pages at once, for who edits them).
#![deny(missing_docs)]

mod chunk;
mod huge;
mod fault;
mod frames;
mod growth;
mod hints;
mod ledger;
pub mod memory;
mod policy;
pub mod pool;
pub mod stored;
mod table;

pub use frames::Pin;
pub use hints::{Hint, Hints};
pub use ledger::Loan;
pub use pool::{PageRef, Pool, PoolStats};
