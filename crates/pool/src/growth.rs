//! The growth of a pool: up to its share as pages come, beyond it only where more memory is worth having.
//!
//! Memtables and checkpoints take the memory beyond the share back when they need it, by [`crate::Pool::give`]. They
//! fill and empty all the time. A pool that took all free memory would gain and lose chunks all the time, too, and
//! every chunk that is freed evicts pages and costs a look at all frames. So a chunk beyond the share has a *price*, in
//! pages that came back soon after they were evicted: the faults that a larger pool would have saved. A scan or a merge
//! does not pay it, because its pages do not come back.
//!
//! The price begins at one page for each frame of the chunk. It doubles when memory beyond the share is taken back, and
//! falls by a quarter with each chunk that is bought. So a pool that frees as often as it grows soon pays the highest
//! price.

/// The highest price, in pages for each frame.
const HIGHEST: u64 = 64;
/// The least part of the share by which memory beyond it is freed, so that looks at all frames are few.
const GIVEN_PARTS: usize = 16;

/// The price of the next chunk of a pool, and what it has paid.
#[derive(Debug)]
pub(crate) struct Growth {
    share_bytes: usize,
    /// The number of pages that came back since they last bought a chunk.
    returned: u64,
    /// The price in 1/16 of a page for each frame of a chunk, so that it can fall by a quarter.
    price: u64,
}

const PAGE: u64 = 16;

impl Growth {
    pub(crate) fn new(share_bytes: usize) -> Self {
        Growth { share_bytes, returned: 0, price: PAGE }
    }

    /// Records that a page was loaded that had been evicted recently.
    pub(crate) fn page_returned(&mut self) {
        self.returned += 1;
    }

    /// Returns whether a pool of `used_bytes` may have another chunk of `frames` frames.
    pub(crate) fn allows(&self, used_bytes: usize, frames: usize) -> bool {
        used_bytes < self.share_bytes || self.returned * PAGE >= self.price * frames as u64
    }

    /// Records that the pool has grown to `used_bytes`.
    pub(crate) fn grown(&mut self, used_bytes: usize) {
        if used_bytes > self.share_bytes {
            self.returned = 0;
            self.price = (self.price - self.price / 4).max(PAGE);
        }
    }

    /// Returns how much of `used_bytes` to free for a caller that must have `bytes`.
    pub(crate) fn gift(&self, used_bytes: usize, bytes: usize) -> usize {
        let beyond = used_bytes.saturating_sub(self.share_bytes);
        bytes.max(beyond.min(self.share_bytes / GIVEN_PARTS))
    }

    /// Records that chunks were freed for a caller that must have them, when the pool had `used_bytes`.
    pub(crate) fn given(&mut self, used_bytes: usize) {
        if used_bytes > self.share_bytes {
            self.returned = 0;
            self.price = (self.price * 2).min(HIGHEST * PAGE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many pages must come back before a pool of 150 bytes with a share of 100 may have another 10 frames.
    fn price(growth: &mut Growth) -> usize {
        let paid = (0..10_000).find(|_| {
            let allowed = growth.allows(150, 10);
            growth.page_returned();
            allowed
        });
        paid.expect("some price is paid in the end")
    }

    #[test]
    fn the_share_is_free_and_more_is_paid_for() {
        let mut growth = Growth::new(100);
        assert!(growth.allows(0, 10) && growth.allows(99, 10) && !growth.allows(100, 10));
        growth.grown(100);
        assert_eq!(price(&mut growth), 10);
        growth.grown(160);
        assert_eq!(price(&mut growth), 10, "what was paid is spent");
    }

    #[test]
    fn a_gift_from_beyond_the_share_is_not_too_small() {
        let growth = Growth::new(160);
        assert_eq!(growth.gift(160, 7), 7);
        assert_eq!(growth.gift(165, 1), 5, "all that is beyond");
        assert_eq!(growth.gift(200, 1), 10, "a part of the share at least");
    }

    #[test]
    fn what_is_taken_back_costs_more_the_next_time() {
        let mut growth = Growth::new(100);
        growth.given(100);
        assert_eq!(price(&mut growth), 10, "of its share it gives for nothing");
        let prices = [150; 7].map(|used_bytes| {
            growth.given(used_bytes);
            price(&mut growth)
        });
        assert_eq!(prices, [20, 40, 80, 160, 320, 640, 640]);
        growth.grown(150);
        assert_eq!(price(&mut growth), 480);
        (0..40).for_each(|_| growth.grown(150));
        assert_eq!(price(&mut growth), 10);
    }
}
