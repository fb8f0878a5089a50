//! What a transaction has read, and so what must be unchanged when it commits.
//!
//! 1. A read of one key, found or not, is that key.
//! 2. A read of a range is an interval that grows while its cursor moves: it reaches to the last key returned, for
//!    the keys in between were seen to be absent, and to the bound of the scan once the cursor ran into that.
//! 3. Recording is an append: keys lie end to end in one buffer per table; a range has two places in a second one,
//!    overwritten in place while the cursor moves. Nothing is allocated but by the amortised growth of these.
//! 4. The keys recorded for one table are bounded: past the limit, neighbours in key order are joined into
//!    intervals. That can only add conflicts, with writes between two keys that were read, and never lose one.

use base::TableId;
use std::ops::Bound;

/// The number of keys of one table above which neighbours are joined: a few MiB of memory, and a few tens of
/// milliseconds of validation.
const DEFAULT_KEY_LIMIT: usize = 1 << 17;

/// How many neighbours become one interval.
const JOINED: usize = 16;

/// The reads of one transaction. Empty ones own no memory.
///
/// ```
/// use base::TableId;
/// use std::ops::Bound;
/// let mut reads = txn::ReadSet::new();
/// reads.key(TableId(16), b"one");
/// // A cursor was sought to "a" and found "apple"; then it moved on to "banana".
/// let scan = reads.range(TableId(16), b"a", Bound::Included(b"apple"));
/// reads.extend_high(scan, Bound::Included(b"banana"));
/// assert_eq!(reads.ranges_of(TableId(16)).collect::<Vec<_>>(), [(&b"a"[..], Bound::Included(&b"banana"[..]))]);
/// ```
#[derive(Debug)]
pub struct ReadSet {
    tables: Vec<TableReads>,
    key_limit: usize,
    /// An earlier transaction's emptied buffers.
    spare: Option<TableReads>,
}

/// Names a range of one [`ReadSet`] until that is cleared.
#[derive(Clone, Copy, Debug)]
pub struct RangeToken {
    table: u32,
    range: u32,
}

#[derive(Debug)]
struct TableReads {
    table: TableId,
    key_bytes: Vec<u8>,
    /// Where each key ends in `key_bytes`; it begins where its predecessor ends.
    key_ends: Vec<usize>,
    ranges: Vec<Range>,
    range_bytes: Vec<u8>,
    /// Intervals made of neighbouring keys: start and inclusive end.
    joined: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Default for TableReads {
    fn default() -> Self {
        TableReads {
            table: TableId::CATALOG,
            key_bytes: Vec::new(),
            key_ends: Vec::new(),
            ranges: Vec::new(),
            range_bytes: Vec::new(),
            joined: Vec::new(),
        }
    }
}

/// An interval whose bounds lie in `range_bytes`.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: Place,
    high: Bound<Place>,
}

/// A bound's bytes, with room to be overwritten by a longer one.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: usize,
    len: u32,
    room: u32,
}

impl Default for ReadSet {
    fn default() -> Self {
        ReadSet::new()
    }
}

impl ReadSet {
    /// Nothing read yet. Allocates nothing.
    pub fn new() -> Self {
        ReadSet { tables: Vec::new(), key_limit: DEFAULT_KEY_LIMIT, spare: None }
    }

    /// Joins neighbouring keys once more than `keys` keys of one table were read (at least 16).
    #[must_use]
    pub fn with_key_limit(self, keys: usize) -> Self {
        ReadSet { key_limit: keys.max(JOINED), ..self }
    }

    /// Records that `key` was looked up, found or not. O(1) amortised.
    #[inline]
    pub fn key(&mut self, table: TableId, key: &[u8]) {
        let limit = self.key_limit;
        let at = self.table_index(table);
        let reads = &mut self.tables[at];
        reads.key_bytes.extend_from_slice(key);
        reads.key_ends.push(reads.key_bytes.len());
        if reads.key_ends.len() + reads.joined.len() > limit {
            reads.join_neighbours();
        }
    }

    /// Records that everything from `low` on to `high` was read, and gives a token by which a moving cursor extends
    /// that. A cursor sought to `s` that found `k` has read `s ..= k`; one that found nothing, `s ..` its bound;
    /// one sought to the end that found `k`, `k ..` unbounded.
    pub fn range(&mut self, table: TableId, low: &[u8], high: Bound<&[u8]>) -> RangeToken {
        let at = self.table_index(table);
        let reads = &mut self.tables[at];
        let low = append(&mut reads.range_bytes, low);
        let high = high.map(|key| append(&mut reads.range_bytes, key));
        reads.ranges.push(Range { low, high });
        RangeToken { table: at as u32, range: (reads.ranges.len() - 1) as u32 }
    }

    /// The cursor moved forward to `high` (`Included`), or into the end of its scan (`Excluded` its bound, or
    /// `Unbounded`). A bound below the present one changes nothing. A copy of the key, amortised.
    #[inline]
    pub fn extend_high(&mut self, token: RangeToken, high: Bound<&[u8]>) {
        let reads = &mut self.tables[token.table as usize];
        let range = &mut reads.ranges[token.range as usize];
        let (old, inclusive) = match range.high {
            Bound::Unbounded => return,
            Bound::Included(place) => (place, true),
            Bound::Excluded(place) => (place, false),
        };
        let old_key = slice(&reads.range_bytes, old);
        range.high = match high {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) if key > old_key || (key == old_key && !inclusive) => {
                Bound::Included(overwrite(&mut reads.range_bytes, old, key))
            }
            Bound::Excluded(key) if key > old_key => {
                Bound::Excluded(overwrite(&mut reads.range_bytes, old, key))
            }
            _ => return,
        };
    }

    /// The cursor moved back to `low`, or into the start of its scan. A bound above the present one changes
    /// nothing. A copy of the key, amortised.
    #[inline]
    pub fn extend_low(&mut self, token: RangeToken, low: &[u8]) {
        let reads = &mut self.tables[token.table as usize];
        let range = &mut reads.ranges[token.range as usize];
        if low < slice(&reads.range_bytes, range.low) {
            range.low = overwrite(&mut reads.range_bytes, range.low, low);
        }
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The tables read, in the order of their first read.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|reads| reads.table)
    }

    /// The keys read of `table`, in the order of reading; those that were joined are in [`ReadSet::ranges_of`].
    pub fn keys_of(&self, table: TableId) -> impl Iterator<Item = &[u8]> {
        self.reads_of(table).into_iter().flat_map(TableReads::keys)
    }

    /// The ranges read of `table`, each as its first key and its end.
    pub fn ranges_of(&self, table: TableId) -> impl Iterator<Item = (&[u8], Bound<&[u8]>)> {
        self.reads_of(table).into_iter().flat_map(|reads| {
            let scanned = reads.ranges.iter().map(|range| {
                let high = range.high.map(|place| slice(&reads.range_bytes, place));
                (slice(&reads.range_bytes, range.low), high)
            });
            let joined = reads.joined.iter().map(|(low, high)| (&low[..], Bound::Included(&high[..])));
            scanned.chain(joined)
        })
    }

    /// Bytes of memory in use, for the memory budget.
    pub fn bytes(&self) -> usize {
        let of_table = |reads: &TableReads| {
            reads.key_bytes.len()
                + reads.range_bytes.len()
                + size_of_val(&reads.key_ends[..])
                + size_of_val(&reads.ranges[..])
                + reads.joined.iter().map(|(low, high)| low.len() + high.len() + 48).sum::<usize>()
        };
        self.tables.iter().map(of_table).sum()
    }

    /// Forgets everything, and keeps small buffers for the next transaction, so that one that reads a few keys of
    /// one table allocates nothing.
    pub fn clear(&mut self) {
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
        self.tables.iter().find(|reads| reads.table == table)
    }

    /// The index of `table`'s reads, made if need be. Transactions read few tables, and the last one again most
    /// often.
    #[inline]
    fn table_index(&mut self, table: TableId) -> usize {
        match self.tables.iter().rposition(|reads| reads.table == table) {
            Some(at) => at,
            None => {
                let reads = self.spare.take().unwrap_or_default();
                self.tables.push(TableReads { table, ..reads });
                self.tables.len() - 1
            }
        }
    }
}

impl TableReads {
    /// Buffers worth keeping: 64 KiB of each kind at most.
    fn is_small(&self) -> bool {
        const KEPT_BYTES: usize = 64 << 10;
        self.key_bytes.capacity().max(self.range_bytes.capacity()) <= KEPT_BYTES
            && self.key_ends.capacity() * size_of::<usize>() <= KEPT_BYTES
            && self.ranges.capacity() * size_of::<Range>() <= KEPT_BYTES
    }

    fn clear(&mut self) {
        self.key_bytes.clear();
        self.key_ends.clear();
        self.ranges.clear();
        self.range_bytes.clear();
        self.joined = Vec::new();
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.key_ends.iter().copied());
        starts.zip(&self.key_ends).map(|(start, &end)| &self.key_bytes[start..end])
    }

    /// Sorts all keys and earlier intervals and makes every [`JOINED`] neighbours one interval, so that their number
    /// falls to a sixteenth. O(n log n), once for every n keys read.
    fn join_neighbours(&mut self) {
        let mut items: Vec<(&[u8], &[u8])> = self.keys().map(|key| (key, key)).collect();
        items.extend(self.joined.iter().map(|(low, high)| (&low[..], &high[..])));
        items.sort_unstable();
        let join = |group: &[(&[u8], &[u8])]| {
            let highest = group.iter().map(|item| item.1).max().expect("a chunk is not empty");
            (group[0].0.to_vec(), highest.to_vec())
        };
        self.joined = items.chunks(JOINED).map(join).collect();
        self.key_bytes.clear();
        self.key_ends.clear();
    }
}

#[inline]
fn slice(bytes: &[u8], place: Place) -> &[u8] {
    &bytes[place.offset..][..place.len as usize]
}

fn append(bytes: &mut Vec<u8>, key: &[u8]) -> Place {
    let offset = bytes.len();
    bytes.extend_from_slice(key);
    Place { offset, len: key.len() as u32, room: key.len() as u32 }
}

/// Puts `key` where `place` is if there is room, else at the end with twice the room it needs.
#[inline]
fn overwrite(bytes: &mut Vec<u8>, place: Place, key: &[u8]) -> Place {
    let len = key.len() as u32;
    if len <= place.room {
        bytes[place.offset..][..key.len()].copy_from_slice(key);
        return Place { len, ..place };
    }
    let offset = bytes.len();
    bytes.extend_from_slice(key);
    bytes.resize(offset + 2 * key.len(), 0);
    Place { offset, len, room: 2 * len }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::seams::Random;

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

    #[test]
    fn joining_forgets_nothing_and_bounds_the_count() {
        let mut random = Random::seeded(3);
        let mut reads = ReadSet::new().with_key_limit(50);
        let keys: Vec<_> = (0..2000).map(|_| random.below(1 << 20).to_string().into_bytes()).collect();
        for key in &keys {
            reads.key(T, key);
            assert!(reads.keys_of(T).count() + reads.ranges_of(T).count() <= 50);
        }
        assert!(keys.iter().all(|key| covers(&reads, key)));
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
    fn clearing_forgets() {
        let mut reads = ReadSet::new();
        reads.key(T, b"a");
        assert!(!reads.is_empty() && reads.bytes() > 0);
        reads.clear();
        assert!(reads.is_empty() && !covers(&reads, b"a"));
    }
}
