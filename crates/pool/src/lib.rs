//! The page pool (floor 2): the pages of the data file that are in memory.
//!
//! ```text
//!   read(guard, ptr) ──► table: unit → frame ──► frame: checksum as in ptr? ──► PageRef (borrows the guard's epoch)
//!                          │ miss                   │ no
//!                          └────────► fault: one thread reads and verifies, others wait ──► PageRef (holds a Pin)
//!                                       │ needs a frame
//!                                       └─► free list, else grow by a chunk, else evict (S3-FIFO)
//! ```
//! Reading order: [`pool`] (hits, faults, admission), `table` (unit to frame, without locks), `frames` (pins, and when
//! a frame may be written again), `hints` (where a child was last found), `chunk` (the memory of frames), `policy`
//! (which page is evicted), `ledger` (what may be allocated), `growth` (how far the pool grows), `huge` (huge or small
//! memory pages), [`stored`] (reading a page from the file), `exhausted` (the error without a free frame).
#![deny(missing_docs)]

mod chunk;
mod exhausted;
mod huge;
mod fault;
mod frames;
mod growth;
mod hints;
mod ledger;
mod policy;
pub mod pool;
pub mod stored;
mod table;

pub use exhausted::is_exhausted;
pub use frames::Pin;
pub use hints::{Hint, Hints};
pub use ledger::Loan;
pub use pool::{PageRef, Pool, PoolStats};
