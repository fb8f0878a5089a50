//! Memory that readers keep for their programs: pages whose records are lent in place.

use std::sync::Arc;

/// Counts the loans of a budget at this moment. A page that is lent keeps the chunk of memory that it lies in, also
/// when another database of the budget needs memory, so they are limited.
#[derive(Debug, Default)]
pub(super) struct Loans(Arc<()>);

/// The right to lend one page. It ends when this is dropped.
#[derive(Debug)]
pub struct Loan(#[expect(dead_code, reason = "its drop counts")] Arc<()>);

impl Loans {
    /// Returns the right to lend one more page, unless `most` are lent. Threads that ask at once can exceed that by one
    /// each.
    #[inline]
    pub fn lend(&self, most: usize) -> Option<Loan> {
        (Arc::strong_count(&self.0) <= most).then(|| Loan(Arc::clone(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_given_back_can_be_lent_again() {
        let loans = Loans::default();
        let lent: Vec<_> = (0..3).map(|_| loans.lend(3).expect("there are three")).collect();
        assert!(loans.lend(3).is_none());
        drop(lent);
        assert!(loans.lend(1).is_some() && loans.lend(0).is_none());
    }
}
