//! Changes: the log of a live database, decoded into the operations of each commit, for programs that follow it.
//!
//! 1. A [`Feed`] holds a position in the log (`state/feeds.rs` documents what that keeps), and moves from commit to
//!    commit. It never passes the newest visible commit, so it shows nothing that a power loss could undo.
//! 2. A [`Change`] is one commit: its number, its time, and its operations in an order in which they can be applied.
//!    Data that a record only refers to, such as a large value or an attached run, is read from the data file.
//! 3. [`Operations`] are read one after the other. The memory is the record, a page for each level of a tree, and a
//!    piece of a large value while it is read.
//! 4. A [`Consumer`] has a name, and a position that outlives the process.
//!
//! `crate::write::repeat` is the receiving side: a transaction that repeats a change in another database.

mod change;
mod consumer;
mod feed;
mod guard;
mod operations;
mod value;

pub use crate::state::names::{TableChange, TableInfo};
pub use change::Change;
pub use consumer::{Consumer, ConsumerInfo};
pub use feed::Feed;
pub use operations::{Operation, Operations};
pub use value::{ChangeValue, ChangeValueReader};
