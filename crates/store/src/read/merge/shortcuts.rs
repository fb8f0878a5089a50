//! What spares a cursor a walk over what is dead.
//!
//! A cursor passes over entries that are deleted, hidden by a range delete, or expired. There may be any number of them
//! before the next live one: in a queue all that was taken since the last checkpoint. A *walk* is the part of a move
//! that passes over them. Once it has passed `FIRST_ASK`, and then each time it has passed as many again as it had,
//! it asks [`Shortcuts::ahead`] where it may go on instead; and a walk of `WORTH_NOTING` entries or more is noted
//! when it ends, so that the next one need not be made. So each dead entry is walked over a few times, not once a move.

use super::Item;
use base::Result;

/// A walk over so many costs less than the question.
pub(super) const FIRST_ASK: u32 = 8;

/// A walk over fewer may be made again.
pub(super) const WORTH_NOTING: u32 = 32;

/// Where a walk may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Where it is.
    Here,
    /// Forward at the first entry at or after `bound`, back at the last one before; `None`: at the end.
    Beyond {
        /// See above.
        bound: Option<Vec<u8>>,
        /// The layers of the transaction's own may have something before that.
        but_own: bool,
    },
}

/// What is known of dead entries. All that it has by itself: nothing is.
pub trait Shortcuts {
    /// Whether values may have expired: asked for once.
    fn may_expire(&self) -> bool {
        false
    }
    /// Whether this one has.
    fn has_expired(&self, _item: Item<'_>) -> Result<bool> {
        Ok(false)
    }
    /// A walk that passed a few comes to `key`.
    fn set_out(&mut self, _key: &[u8]) {}
    /// The walk comes to `key`; `stop`: what lies there and beyond is not asked for.
    fn ahead(&mut self, _key: &[u8], _forward: bool, _stop: Option<&[u8]>) -> Ahead {
        Ahead::Here
    }
    /// A walk passed so many entries one by one.
    fn walked(&mut self, _entries: u32) {}
    /// From where the walk set out up to `key`, and if there is none up to `stop`, all is dead.
    fn arrived(&mut self, _key: Option<&[u8]>, _forward: bool, _stop: Option<&[u8]>) {}
}

impl Shortcuts for () {}
