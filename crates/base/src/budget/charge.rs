//! Bytes that were taken from a budget.

use super::{Account, Holder};
use std::fmt;
use std::sync::Arc;

/// Bytes that somebody holds; dropping it gives them back. Parts can be split off and joined without a look at the
/// budget, so that whoever reserved memory can hand it on piece by piece.
pub struct Charge {
    account: Arc<Account>,
    holder: Holder,
    bytes: usize,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes, self.holder.name())
    }
}

impl Charge {
    pub(super) fn new(account: Arc<Account>, holder: Holder, bytes: usize) -> Charge {
        Charge { account, holder, bytes }
    }

    /// No bytes, for [`Charge::join`] to add to.
    pub fn none(account: &Arc<Account>, holder: Holder) -> Charge {
        Charge { account: Arc::clone(account), holder, bytes: 0 }
    }

    /// How many bytes it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whose bytes they are.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Takes up to `bytes` out of it.
    pub fn split(&mut self, bytes: usize) -> Charge {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Charge { account: Arc::clone(&self.account), holder: self.holder, bytes }
    }

    /// Adds `other`, which is of the same holder of the same account.
    pub fn join(&mut self, mut other: Charge) {
        assert!(Arc::ptr_eq(&self.account, &other.account) && self.holder == other.holder);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let over = self.bytes.saturating_sub(bytes);
        drop(self.split(over));
    }

    /// Makes it `bytes` if the budget, with what pools can give back, allows that; answers whether. Shrinking always
    /// succeeds. As [`Account::charge_making_room`].
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.shrink_to(bytes);
            return true;
        };
        match self.account.charge_making_room(self.holder, more) {
            Some(charge) => {
                self.join(charge);
                true
            }
            None => false,
        }
    }

    /// Forgets it: whoever calls has made a note of the bytes.
    pub(super) fn into_bytes(mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.unbook(self.holder, self.bytes);
        }
    }
}
