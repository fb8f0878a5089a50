//! The read set: what a transaction has read, and so what must be unchanged when it commits.
//!
//! 1. A read of one key, found or not, is recorded as that key.
//! 2. A read of a range is recorded as an interval that grows while its cursor moves. It reaches to the last key
//!    returned, because the keys in between were seen to be absent, and to the bound of the scan once the cursor has
//!    reached that.
//! 3. Recording is an append: keys lie end to end in one buffer per table; a range has two places in a second one,
//!    overwritten in place while the cursor moves. Nothing is allocated except by the amortised growth of these
//!    buffers.
//! 4. The memory is bounded: past the limit, neighbours in key order are joined into intervals. That can only add
//!    conflicts, with writes between two keys that were read, and never lose one. Ranges of open cursors are not
//!    joined.

mod table;

use crate::positions::Positions;
use base::TableId;
use std::ops::Bound;
use table::TableReads;

/// The number of keys and ranges above which neighbours are joined even if they are short: a few tens of milliseconds
/// of validation.
const MOST_ITEMS: usize = 1 << 17;

/// The number of neighbours that become one interval.
const JOINED: usize = 16;

/// The reads of one transaction. An empty set owns no memory.
///
/// ```
/// use base::TableId;
/// use std::ops::Bound;
/// let mut reads = pando_txn::ReadSet::new();
/// reads.key(TableId(16), b"one");
/// // A cursor was sought to "a" and found "apple"; then it moved on to "banana".
/// let scan = reads.range(TableId(16), b"a", Bound::Included(b"apple"));
/// reads.extend_high(scan, Bound::Included(b"banana"));
/// reads.close(scan);
/// assert_eq!(reads.ranges_of(TableId(16)).collect::<Vec<_>>(), [(&b"a"[..], Bound::Included(&b"banana"[..]))]);
/// ```
#[derive(Debug)]
pub struct ReadSet {
    tables: Vec<TableReads>,
    positions: Positions,
    /// The memory that `tables` takes.
    cost: Cost,
    limit_bytes: usize,
    /// Whether its reads are validated at snapshot isolation, too.
    is_required: bool,
    /// The emptied buffers of an earlier transaction.
    spare: Option<TableReads>,
}

/// The memory that reads take.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    bytes: usize,
    items: usize,
}

/// A handle of a range in one [`ReadSet`], valid until it is [closed](ReadSet::close) or the set is cleared.
#[derive(Clone, Copy, Debug)]
pub struct RangeToken {
    table: u32,
    range: u32,
}

impl Default for ReadSet {
    fn default() -> Self {
        ReadSet::new()
    }
}

impl ReadSet {
    /// The size in bytes at which the set is full, unless [`ReadSet::set_limit_bytes`] changes it.
    pub const FIRST_LIMIT_BYTES: usize = 32 << 10;

    /// Creates an empty set. Allocates nothing.
    pub fn new() -> Self {
        ReadSet {
            tables: Vec::new(),
            positions: Positions::default(),
            cost: Cost::default(),
            limit_bytes: ReadSet::FIRST_LIMIT_BYTES,
            is_required: false,
            spare: None,
        }
    }

    /// Records that `key` was looked up, found or not. O(1) amortised.
    #[inline]
    pub fn key(&mut self, table: TableId, key: &[u8]) {
        let at = self.table_index(table);
        self.cost.bytes += self.tables[at].key(key);
        self.cost.items += 1;
    }

    /// Removes the last record of a key of `table`, if it is one of `key`; there may be others of it. Returns whether
    /// it did. Call it before a write of the key that is validated as a read, too. O(1).
    #[inline]
    pub fn take_last(&mut self, table: TableId, key: &[u8]) -> bool {
        let at = self.position(table);
        let Some(bytes) = at.and_then(|at| self.tables[at].take_last(key)) else { return false };
        self.cost.bytes -= bytes;
        self.cost.items -= 1;
        true
    }

    /// Records that everything from `low` to `high` was read. Returns a token with which a moving cursor extends the
    /// range. A cursor sought to `s` that found `k` has read `s ..= k`; one that found nothing has read from `s` to its
    /// bound; one sought to the end that found `k` has read from `k` on, unbounded.
    pub fn range(&mut self, table: TableId, low: &[u8], high: Bound<&[u8]>) -> RangeToken {
        let at = self.table_index(table);
        let (range, bytes) = self.tables[at].range(low, high);
        self.cost.bytes += bytes;
        self.cost.items += 1;
        RangeToken { table: at as u32, range }
    }

    /// Makes the set count at snapshot isolation, too. Such a transaction puts only those ranges into its set that must
    /// not change; if it spills, also the keys that it has read, which can only cause conflicts that were not needed.
    pub fn require(&mut self) {
        self.is_required = true;
    }

    /// Returns whether the set counts at snapshot isolation, too.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// Extends the range when its cursor moved forward to `high` (`Included`), or into the end of its scan (`Excluded`
    /// its bound, or `Unbounded`). A bound below the present one changes nothing. Costs a copy of the key, amortised.
    #[inline]
    pub fn extend_high(&mut self, token: RangeToken, high: Bound<&[u8]>) {
        self.cost.bytes += self.tables[token.table as usize].extend_high(token, high);
    }

    /// Extends the range when its cursor moved back to `low`, or into the start of its scan. A bound above the present
    /// one changes nothing. Costs a copy of the key, amortised.
    #[inline]
    pub fn extend_low(&mut self, token: RangeToken, low: &[u8]) {
        self.cost.bytes += self.tables[token.table as usize].extend_low(token, low);
    }

    /// Closes the range: its cursor moves no more, so it may be joined with others.
    pub fn close(&mut self, token: RangeToken) {
        self.tables[token.table as usize].close(token);
    }

    /// Returns whether the set is full: call [`ReadSet::set_limit_bytes`] or [`ReadSet::join`].
    #[inline]
    pub fn is_full(&self) -> bool {
        self.cost.bytes > self.limit_bytes || self.cost.items > MOST_ITEMS
    }

    /// Returns whether a higher limit would help. If not, the set is full because validation would take too long.
    pub fn is_short_of_bytes(&self) -> bool {
        self.cost.items <= MOST_ITEMS
    }

    /// Returns the size in bytes at which the set is full. While neighbours are joined, it takes up to four times as
    /// much.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Sets [`ReadSet::limit_bytes`].
    pub fn set_limit_bytes(&mut self, bytes: usize) {
        self.limit_bytes = bytes;
    }

    /// Joins neighbours, until half of the limit is free again or nothing is left to join: then each table has one
    /// interval and the ranges of open cursors. If these take more than half, the limit is doubled, so that not every
    /// further read joins again. O(n log n), and amortised O(log n) for each read since the last time.
    #[cold]
    pub fn join(&mut self) {
        self.join_to_half();
        self.limit_bytes = self.limit_bytes.max(2 * self.cost.bytes);
    }

    fn join_to_half(&mut self) {
        loop {
            self.tables.iter_mut().for_each(TableReads::join_neighbours);
            let costs = self.tables.iter().map(TableReads::cost);
            let add = |a: Cost, b: Cost| Cost { bytes: a.bytes + b.bytes, items: a.items + b.items };
            self.cost = costs.fold(Cost::default(), add);
            let is_enough = self.cost.bytes <= self.limit_bytes / 2 && self.cost.items <= MOST_ITEMS / 2;
            if is_enough || self.tables.iter().all(TableReads::is_joined) {
                return;
            }
        }
    }

    /// Returns whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns the tables that were read, in the order of their first read.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|reads| reads.table)
    }

    /// Returns the keys read of `table`, in the order of reading. Joined keys are in [`ReadSet::ranges_of`].
    pub fn keys_of(&self, table: TableId) -> impl Iterator<Item = &[u8]> {
        self.reads_of(table).into_iter().flat_map(TableReads::keys)
    }

    /// Returns the ranges read of `table`, each as its first key and its end.
    pub fn ranges_of(&self, table: TableId) -> impl Iterator<Item = (&[u8], Bound<&[u8]>)> {
        self.reads_of(table).into_iter().flat_map(TableReads::ranges)
    }

    /// Removes all reads, and keeps small buffers for the next transaction, so that one that reads a few keys of one
    /// table allocates nothing.
    pub fn clear(&mut self) {
        (self.cost, self.limit_bytes) = (Cost::default(), ReadSet::FIRST_LIMIT_BYTES);
        self.is_required = false;
        self.positions.clear();
        self.tables.truncate(1);
        match self.tables.first_mut() {
            Some(reads) if reads.is_small() => {
                reads.clear();
                self.spare = self.tables.pop();
            }
            _ => self.tables.clear(),
        }
    }

    fn reads_of(&self, table: TableId) -> Option<&TableReads> {
        self.position(table).map(|at| &self.tables[at])
    }

    /// Returns the index of `table`'s reads. Transactions read few tables, and mostly the last one again.
    #[inline]
    fn position(&self, table: TableId) -> Option<usize> {
        self.positions.find(&self.tables, table, |reads| reads.table)
    }

    /// Returns the index of `table`'s reads, after adding the table if necessary.
    #[inline]
    fn table_index(&mut self, table: TableId) -> usize {
        match self.position(table) {
            Some(at) => at,
            None => {
                let mut reads = self.spare.take().unwrap_or_default();
                reads.table = table;
                self.tables.push(reads);
                self.positions.note_last(&self.tables, |reads| reads.table);
                self.tables.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    const T: TableId = TableId(16);

    fn covers(reads: &ReadSet, key: &[u8]) -> bool {
        let in_range = |(low, high): (&[u8], Bound<&[u8]>)| {
            low <= key
                && match high {
                    Bound::Included(high) => key <= high,
                    Bound::Excluded(high) => key < high,
                    Bound::Unbounded => true,
                }
        };
        reads.keys_of(T).any(|read| read == key) || reads.ranges_of(T).any(in_range)
    }

    /// Returns the bytes that the set takes, counted anew.
    fn bytes(reads: &ReadSet) -> usize {
        reads.tables.iter().map(|reads| reads.cost().bytes).sum()
    }

    #[test]
    fn joining_forgets_nothing_and_bounds_the_bytes() {
        let mut random = Random::seeded(3);
        for key_bytes in [4, 40, 600] {
            let mut reads = ReadSet::new();
            reads.set_limit_bytes(8 << 10);
            let (mut seen, mut open) = (Vec::new(), Vec::new());
            for step in 0..4000 {
                let mut key = random.below(1 << 30).to_be_bytes()[4..].to_vec();
                key.resize(key_bytes, 7);
                if random.below(3) > 0 {
                    reads.key(T, &key);
                } else {
                    // A scan that ends at once, except for one in a hundred, which continues to the end.
                    let scan = reads.range(T, &key, Bound::Included(&key));
                    if step % 100 == 0 { open.push((scan, key.clone())) } else { reads.close(scan) }
                }
                seen.push(key);
                assert_eq!(reads.cost.bytes, bytes(&reads));
                if reads.is_full() {
                    reads.join();
                    let held: usize = open.iter().map(|(_, key): &(_, Vec<u8>)| 100 + 2 * key.len()).sum();
                    assert!(bytes(&reads) <= (4 << 10) + held, "{} with {held} open", bytes(&reads));
                }
            }
            for (scan, mut key) in open {
                key[0] |= 0x80;
                reads.extend_high(scan, Bound::Included(&key));
                seen.push(key);
            }
            assert!(seen.iter().all(|key| covers(&reads, key)));
            assert!(!covers(&reads, &[0xff; 5]), "not everything is an answer");
        }
    }

    /// A set is full where a range is added, which is open then.
    #[test]
    fn many_short_scans_are_joined_no_further_than_they_have_to() {
        let mut reads = ReadSet::new();
        let limit = 64 << 10;
        reads.set_limit_bytes(limit);
        for n in 0..100_000_u64 {
            let key = (n * 10).to_be_bytes();
            let scan = reads.range(T, &key, Bound::Included(&key));
            assert_eq!(reads.cost.bytes, bytes(&reads));
            if reads.is_full() {
                reads.join();
                assert!(reads.cost.bytes <= limit / 2, "{} bytes after {n} scans", reads.cost.bytes);
                assert!(reads.ranges_of(T).count() > 20, "{} intervals", reads.ranges_of(T).count());
            }
            reads.close(scan);
        }
        assert_eq!(reads.limit_bytes, limit);
        assert!((0..100_000_u64).step_by(7).all(|n| covers(&reads, &(n * 10).to_be_bytes())));
    }

    #[test]
    fn what_cannot_be_joined_is_not_tried_again_and_again() {
        let mut reads = ReadSet::new();
        reads.set_limit_bytes(1 << 10);
        let mut joins = 0;
        for table in 0..2_000 {
            reads.key(TableId(16 + table), &[7; 100]);
            if reads.is_full() {
                reads.join();
                joins += 1;
            }
        }
        assert!((2..=12).contains(&joins), "an interval a table, joined {joins} times");
    }

    #[test]
    fn the_furthest_end_is_that_of_the_interval() {
        let ends: [Bound<&[u8]>; 4] =
            [Bound::Included(b"m"), Bound::Excluded(b"z"), Bound::Included(b"z"), Bound::Unbounded];
        for most in 1..=ends.len() {
            let mut reads = ReadSet::new();
            for &end in &ends[..most] {
                let scan = reads.range(T, b"a", end);
                reads.close(scan);
            }
            reads.join();
            assert_eq!(reads.ranges_of(T).collect::<Vec<_>>(), [(&b"a"[..], ends[most - 1])]);
        }
    }

    #[test]
    fn a_range_only_grows() {
        let mut reads = ReadSet::new();
        let other = reads.range(T, b"x", Bound::Unbounded);
        let scan = reads.range(T, b"f", Bound::Excluded(b"g"));
        reads.extend_high(scan, Bound::Included(b"fz"));
        assert!(covers(&reads, b"fz") && !covers(&reads, b"g"));
        reads.extend_high(scan, Bound::Included(b"g"));
        reads.extend_high(scan, Bound::Excluded(b"g"));
        assert!(covers(&reads, b"g") && !covers(&reads, b"g0"));
        reads.extend_high(scan, Bound::Included(b"hhhhhhhhh"));
        reads.extend_low(scan, b"e");
        reads.extend_low(scan, b"ee");
        assert!(covers(&reads, b"e") && covers(&reads, b"hhhhhhhhh") && !covers(&reads, b"i"));
        reads.extend_high(other, Bound::Included(b"y"));
        assert!(covers(&reads, b"zzz"));
        reads.extend_high(scan, Bound::Unbounded);
        assert!(covers(&reads, b"w"));
    }

    #[test]
    fn a_place_is_used_again_and_the_open_ones_are_not() {
        let mut reads = ReadSet::new();
        let tokens: Vec<_> = (0..10_u8).map(|n| reads.range(T, &[n], Bound::Excluded(&[n]))).collect();
        tokens.iter().step_by(2).for_each(|&token| reads.close(token));
        reads.join();
        let again: Vec<_> = (20..25_u8).map(|n| reads.range(T, &[n], Bound::Excluded(&[n]))).collect();
        for (token, n) in tokens.iter().skip(1).step_by(2).zip([1_u8, 3, 5, 7, 9]) {
            reads.extend_high(*token, Bound::Included(&[n, 1]));
            let extended = (&[n][..], Bound::Included(&[n, 1][..]));
            assert!(reads.ranges_of(T).any(|range| range == extended), "{n}");
        }
        assert!(again.iter().all(|token| token.range < 9), "the five places of those that were closed");
    }

    #[test]
    fn only_the_last_key_of_a_table_is_taken_back() {
        let other = TableId(17);
        let mut reads = ReadSet::new();
        assert!(!reads.take_last(T, b"a"));
        for (table, key) in [(T, &b"a"[..]), (T, b"b"), (T, b"a"), (other, b"c"), (other, b"")] {
            reads.key(table, key);
        }
        assert!(!reads.take_last(T, b"b"), "another key was looked up since");
        assert!(reads.take_last(T, b"a") && !reads.take_last(T, b"a"));
        assert!(reads.take_last(other, b"") && reads.take_last(other, b"c") && !reads.take_last(other, b"c"));
        assert_eq!(reads.keys_of(T).collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!((reads.cost.bytes, reads.cost.items), (bytes(&reads), 2));
        reads.join();
        assert!(!reads.take_last(T, b"b"), "it is a part of an interval");
    }

    #[test]
    fn clearing_forgets() {
        let mut reads = ReadSet::new();
        reads.key(T, b"a");
        assert!(!reads.is_empty() && bytes(&reads) > 0);
        reads.clear();
        assert!(reads.is_empty() && !covers(&reads, b"a"));
    }
}
