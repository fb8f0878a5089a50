//! Pages that readers keep pinned while their programs do what they like.

use std::sync::Arc;

/// Counts the pages that the readers of a budget keep at this moment. Each keeps the chunk of memory that it lies in,
/// also when another database of the budget needs memory, so they are limited.
#[derive(Debug, Default)]
pub(super) struct KeptPages(Arc<()>);

/// The right to keep one page. It ends when this is dropped.
#[derive(Debug)]
pub struct KeptPage(#[expect(dead_code, reason = "its drop counts")] Arc<()>);

impl KeptPages {
    /// Returns the right to keep one more page, unless `most` are kept. Threads that ask at once can exceed that by one
    /// each.
    #[inline]
    pub fn keep(&self, most: usize) -> Option<KeptPage> {
        (Arc::strong_count(&self.0) <= most).then(|| KeptPage(Arc::clone(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_page_can_be_kept_after_one_was_given_back() {
        let pages = KeptPages::default();
        let kept: Vec<_> = (0..3).map(|_| pages.keep(3).expect("there are three")).collect();
        assert!(pages.keep(3).is_none());
        drop(kept);
        assert!(pages.keep(1).is_some() && pages.keep(0).is_none());
    }
}
