//! Bytes that were taken from a budget.

use super::{Account, MemoryCategory};
use std::fmt;
use std::sync::Arc;

/// Bytes taken from a budget. Dropping the charge returns them. Parts can be split off and joined without access to the
/// budget, so reserved memory can be handed on piece by piece.
pub struct Charge {
    account: Arc<Account>,
    category: MemoryCategory,
    bytes: usize,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes, self.category.name())
    }
}

impl Charge {
    pub(super) fn new(account: Arc<Account>, category: MemoryCategory, bytes: usize) -> Charge {
        Charge { account, category, bytes }
    }

    /// Creates a charge of no bytes, for [`Charge::join`] to add to.
    pub fn none(account: &Arc<Account>, category: MemoryCategory) -> Charge {
        Charge { account: Arc::clone(account), category, bytes: 0 }
    }

    /// Returns the charge in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the account.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Splits off up to `bytes`.
    pub fn split(&mut self, bytes: usize) -> Charge {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Charge { account: Arc::clone(&self.account), category: self.category, bytes }
    }

    /// Adds `other`, which must have the same category and account.
    pub fn join(&mut self, mut other: Charge) {
        assert!(Arc::ptr_eq(&self.account, &other.account) && self.category == other.category);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Moves the charge to another category. Its bytes remain in use throughout.
    pub fn converted(self, category: MemoryCategory) -> Charge {
        let (account, from) = (Arc::clone(&self.account), self.category);
        let bytes = self.into_bytes();
        account.rebook(from, category, bytes);
        Charge { account, category, bytes }
    }

    /// Returns all but `bytes` to the budget.
    pub fn shrink_to(&mut self, bytes: usize) {
        let over = self.bytes.saturating_sub(bytes);
        drop(self.split(over));
    }

    /// Changes the charge to `bytes` if the budget allows it, asking pools to free memory as
    /// [`Account::charge_making_room`] does. Returns whether it did. Shrinking always succeeds.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.shrink_to(bytes);
            return true;
        };
        match self.account.charge_making_room(self.category, more) {
            Some(charge) => {
                self.join(charge);
                true
            }
            None => false,
        }
    }

    /// Consumes the charge without returning its bytes: the caller has recorded them.
    pub(super) fn into_bytes(mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.unbook(self.category, self.bytes);
        }
    }
}
