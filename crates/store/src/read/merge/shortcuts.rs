//! Shortcuts around dead entries for a cursor.
//!
//! A cursor skips entries that are deleted, hidden by a range delete, or expired. There may be any number of them
//! before the next live one: in a queue, everything that was taken since the last checkpoint. A *walk* is the part of a
//! move that skips them. Once it has passed `FIRST_ASK`, and then each time that number has doubled, it asks
//! [`Shortcuts::ahead`] where it may continue instead. A walk of `WORTH_NOTING` entries or more is recorded when it
//! ends, so that the next one can be avoided. So each dead entry is walked over a few times, not once in each move.

use base::{Result, Value};

/// A walk over this many entries costs less than the question.
pub(super) const FIRST_ASK: u32 = 8;

/// A walk over fewer entries may be repeated.
pub(super) const WORTH_NOTING: u32 = 32;

/// The place where a walk may continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// The present place.
    Here,
    /// Forward at the first entry at or after `bound`, back at the last one before; `None`: at the end.
    Beyond {
        /// The bound of the dead entries.
        bound: Option<Vec<u8>>,
        /// Whether layers of the transaction's own may have an entry before that.
        but_own: bool,
    },
}

/// The known ranges of dead entries. The default implementation knows none.
pub trait Shortcuts {
    /// Returns whether values may have expired; asked once.
    fn may_expire(&self) -> bool {
        false
    }
    /// Returns whether this value has expired.
    fn has_expired(&self, _item: Value<'_>) -> Result<bool> {
        Ok(false)
    }
    /// Notes that a walk that passed a few entries reached `key`.
    fn set_out(&mut self, _key: &[u8]) {}
    /// Returns where the walk, which reached `key`, may continue; entries at and beyond `stop` do not matter.
    fn ahead(&mut self, _key: &[u8], _forward: bool, _stop: Option<&[u8]>) -> Ahead {
        Ahead::Here
    }
    /// Notes the number of entries that a walk passed one by one.
    fn walked(&mut self, _entries: u32) {}
    /// Notes that all entries from the start of the walk up to `key` (without one, up to `stop`) are dead.
    fn arrived(&mut self, _key: Option<&[u8]>, _forward: bool, _stop: Option<&[u8]>) {}
}

impl Shortcuts for () {}
