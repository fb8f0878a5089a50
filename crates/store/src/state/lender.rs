//! The number of pages whose records are lent in place.

use std::sync::Arc;

/// Counts the pages that a store has lent at this moment. A pool whose frames are all pinned can read nothing, so they
/// are limited.
#[derive(Debug, Default)]
pub(crate) struct Lender(Arc<()>);

/// The right to lend one page. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Loan(#[expect(dead_code, reason = "its drop counts")] Arc<()>);

impl Lender {
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
        let lender = Lender::default();
        let loans: Vec<_> = (0..3).map(|_| lender.lend(3).expect("there are three")).collect();
        assert!(lender.lend(3).is_none());
        drop(loans);
        assert!(lender.lend(1).is_some() && lender.lend(0).is_none());
    }
}
