//! What a leaf's entry holds: a value, a reference to one that lies outside the page, or that there is none.

use base::LargeRef;

/// What a leaf's entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// Where the value is.
    Large(LargeRef),
    /// The key is deleted, whatever older runs say. In runs that lie over others alone: see `run::Run::deletes`.
    Deleted,
}
