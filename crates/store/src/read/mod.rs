//! Reads: a snapshot, one record of it, many records in order, and the bytes of a large value.
//!
//! `merge` puts layers of records into one order without knowing a database; the other modules give it the layers of a
//! view.

pub mod merge;
pub mod snapshot;
pub(crate) mod handle;
pub(crate) mod used;
pub(crate) mod resolve;
pub(crate) mod value_ref;
pub(crate) mod get;
pub(crate) mod beginning;
pub(crate) mod first;
pub(crate) mod kept_span;
pub mod scan;
pub(crate) mod located;
pub(crate) mod value_reader;
pub(crate) mod resident;
pub(crate) mod shortcut;
pub(crate) mod recorder;
mod elsewhere;
