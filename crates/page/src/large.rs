//! The contents of a leaf's entry: a value, a reference to a value outside the page, or a deletion.

use base::LargeRef;

/// The contents of a leaf's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// A reference to the value.
    Large(LargeRef),
    /// The key is deleted, whatever older runs contain. It occurs only in runs that lie over others: see
    /// `run::Run::deletes`.
    Deleted,
}
