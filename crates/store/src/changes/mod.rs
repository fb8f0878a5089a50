//! Changes: the log of a live database, decoded to what each commit did, for those who follow it.
//!
//! 1. A [`Feed`] holds a place in the log (`state/feeds.rs` says what that keeps), and goes from commit to commit. It
//!    never goes past the newest visible commit, so it shows nothing that a power loss could take back.
//! 2. A [`Change`] is one commit: its number, its time, and its operations in an order in which they can be repeated.
//!    What a record only names, as a large value or an attached run, is read from the data file.
//! 3. [`Operations`] are read one after the other. Memory: the record, a page for each level of a tree, and a piece of
//!    a large value while it is read.
//!
//! 4. A [`Consumer`] has a name, and a place that outlives the process.
//!
//! `crate::write::repeat` is the other end: a transaction that repeats a change in another database.

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
