//! Compressing leaves when a builder closes them, and deciding where to close them.
//!
//! A compressed leaf takes whole units, so the gain depends on where it ends: 16 KiB that compress to 9 take as much as
//! 12. So leaves are not filled to the end, but only so far that their compressed form just fills its units:
//! 1. The builder learns from the previous leaves how well records compress (`Fill::learn`), because neighbours are
//!    alike.
//! 2. For each number of units fewer than a page has, this gives how many bytes of records would fill them. Of those
//!    that a page can hold, the builder takes the number of units that stores most bytes a unit, and of equals the
//!    larger one, whose leaves are fuller in memory.
//! 3. A leaf that was misjudged takes one more unit. So a margin is kept: it grows with each such leaf, and shrinks a
//!    little with each other one, until about one in thirty is misjudged.
//!
//! If a unit gains less than an eighth, leaves are filled to the end: memory is worth more than that.
//!
//! So one compression a leaf suffices, and no record is ever removed from a leaf again. The reasons are in
//! docs/decisions/0027-compressed-leaves.md.

use base::limits::UNIT_BYTES;
use page::{Compressor, PageMut};

/// Compresses leaves when they become full.
pub(crate) struct Compressing {
    compressor: Compressor,
    fill: Fill,
    /// The stored forms of the full leaves, and the end of each.
    stored: Vec<u8>,
    ends: Vec<usize>,
}

impl Compressing {
    pub fn new(page_bytes: usize) -> Self {
        let (stored, ends) = (Vec::new(), Vec::new());
        Compressing { compressor: Compressor::default(), fill: Fill::new(page_bytes), stored, ends }
    }

    /// Returns whether a leaf may have this many bytes in use.
    #[inline]
    pub fn has_room(&self, used_bytes: usize) -> bool {
        used_bytes <= self.fill.most_bytes
    }

    /// Compresses a full leaf, and learns from it.
    pub fn close(&mut self, leaf: &mut PageMut<'_>) {
        let used_bytes = leaf.as_page().used_bytes();
        let compressed = self.compressor.compress(leaf, &mut self.stored);
        self.fill.learn(used_bytes, compressed.compressed_bytes);
        self.ends.push(self.stored.len());
    }

    /// Returns the units that full leaf `at` takes.
    pub fn units(&self, at: usize) -> u64 {
        ((self.ends[at] - self.begin(at)) / UNIT_BYTES) as u64
    }

    /// Returns the bytes to write for full leaf `at`.
    pub fn stored_mut(&mut self, at: usize) -> &mut [u8] {
        let begin = self.begin(at);
        &mut self.stored[begin..self.ends[at]]
    }

    /// Returns the bytes to write for `count` full leaves from leaf `from` on.
    pub fn stored_of(&self, from: usize, count: usize) -> &[u8] {
        &self.stored[self.begin(from)..self.begin(from + count)]
    }

    /// Removes the full leaves, which were written.
    pub fn clear(&mut self) {
        self.stored.clear();
        self.ends.clear();
    }

    fn begin(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// The unit of ratios, gains and margins: a thousandth.
const WHOLE: u64 = 1000;
/// The least gain of a unit: what it must store, in thousandths of its bytes.
const LEAST_GAIN: u64 = WHOLE + WHOLE / 8;
const FIRST_MARGIN: u64 = 20;
const MOST_MARGIN: u64 = 150;
const LEAST_MARGIN: u64 = 5;
/// The amount that a misjudged leaf adds to the margin; any other takes one thousandth away.
const MARGIN_STEP: u64 = 30;

/// How full leaves should be.
#[derive(Debug)]
struct Fill {
    page_bytes: usize,
    /// The ratio of bytes in use to compressed bytes of the last leaves; 0 if it is unknown.
    ratio: u64,
    margin: u64,
    /// The intended compressed length; `None` if leaves are filled.
    aim_bytes: Option<usize>,
    /// The bytes in use beyond which a leaf is closed.
    most_bytes: usize,
}

impl Fill {
    fn new(page_bytes: usize) -> Self {
        Fill { page_bytes, ratio: 0, margin: FIRST_MARGIN, aim_bytes: None, most_bytes: page_bytes }
    }

    /// Learns from a leaf of `used_bytes` that was compressed to `compressed_bytes`.
    fn learn(&mut self, used_bytes: usize, compressed_bytes: usize) {
        if let Some(aim) = self.aim_bytes {
            self.margin = match compressed_bytes > aim {
                true => (self.margin + MARGIN_STEP).min(MOST_MARGIN),
                false => (self.margin - 1).max(LEAST_MARGIN),
            };
        }
        let ratio = used_bytes as u64 * WHOLE / compressed_bytes as u64;
        self.ratio = if self.ratio == 0 { ratio } else { (self.ratio * 3 + ratio) / 4 };
        self.choose();
    }

    fn choose(&mut self) {
        let reachable = self.ratio * (WHOLE - self.margin) / WHOLE;
        let mut best = LEAST_GAIN;
        (self.aim_bytes, self.most_bytes) = (None, self.page_bytes);
        for stored_bytes in (UNIT_BYTES..self.page_bytes).step_by(UNIT_BYTES) {
            let reached_bytes = (stored_bytes as u64 * reachable / WHOLE) as usize;
            let most_bytes = reached_bytes.min(self.page_bytes);
            let gain = most_bytes as u64 * WHOLE / stored_bytes as u64;
            // A difference of a thousandth is rounding.
            if gain + 1 >= best {
                best = gain;
                self.most_bytes = most_bytes;
                self.aim_bytes = (reached_bytes <= self.page_bytes).then_some(stored_bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_end_where_their_units_do() {
        for (ratio, units) in [(1100, 4), (1250, 3), (1500, 2), (2000, 2), (2500, 1), (3900, 1), (5000, 1)] {
            let mut fill = Fill::new(4 * UNIT_BYTES);
            for _ in 0..100 {
                let used = fill.most_bytes;
                fill.learn(used, used * 1000 / ratio);
            }
            let compressed = fill.most_bytes * 1000 / ratio;
            assert_eq!(compressed.div_ceil(UNIT_BYTES), units, "ratio {ratio}");
            let gain = fill.most_bytes * 1000 / (units * UNIT_BYTES);
            let wanted = if units == 4 { 1000 } else { ratio.min(4000) * 98 / 100 };
            assert!(gain >= wanted, "ratio {ratio}: a unit holds {gain} thousandths");
        }
    }

    #[test]
    fn the_margin_follows_the_leaves() {
        let mut random = base::env::Random::seeded(7);
        let mut fill = Fill::new(4 * UNIT_BYTES);
        let (mut used, mut units) = (0, 0);
        for _ in 0..2000 {
            let most = fill.most_bytes;
            let compressed = most * 1000 / (1950 + random.below(100) as usize);
            fill.learn(most, compressed);
            used += most;
            units += compressed.div_ceil(UNIT_BYTES).min(4);
        }
        let gain = used * 1000 / (units * UNIT_BYTES);
        assert!(gain > 1_850, "of 2000 thousandths {gain}");
    }
}
