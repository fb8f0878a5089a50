//! The reads of one table.

use super::{Cost, JOINED, RangeToken};
use base::TableId;
use std::cmp::Ordering;
use std::ops::Bound;

#[derive(Debug)]
pub(super) struct TableReads {
    pub table: TableId,
    key_bytes: Vec<u8>,
    /// The end of each key in `key_bytes`; a key begins at the end of its predecessor.
    key_ends: Vec<usize>,
    ranges: Vec<Range>,
    range_bytes: Vec<u8>,
    /// The vacant places in `ranges`.
    vacant: Vec<u32>,
    /// Intervals made of neighbours, in order.
    joined: Vec<Interval>,
}

/// An interval whose bounds lie in `range_bytes`.
#[derive(Clone, Copy, Debug)]
struct Range {
    state: State,
    low: Place,
    high: Bound<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A cursor may still extend it, so it keeps its place.
    Open,
    Closed,
    /// It was closed and moved to `joined`.
    Vacant,
}

/// The bytes of a bound, with room for a longer one.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: usize,
    len: u32,
    room: u32,
}

#[derive(Debug)]
struct Interval {
    low: Vec<u8>,
    high: Bound<Vec<u8>>,
}

/// A borrowed interval.
type Lent<'r> = (&'r [u8], Bound<&'r [u8]>);

impl Default for TableReads {
    fn default() -> Self {
        TableReads {
            table: TableId::CATALOG,
            key_bytes: Vec::new(),
            key_ends: Vec::new(),
            ranges: Vec::new(),
            range_bytes: Vec::new(),
            vacant: Vec::new(),
            joined: Vec::new(),
        }
    }
}

impl TableReads {
    /// Records `key`. Returns by how many bytes the set has grown.
    #[inline]
    pub fn key(&mut self, key: &[u8]) -> usize {
        self.key_bytes.extend_from_slice(key);
        self.key_ends.push(self.key_bytes.len());
        key.len() + size_of::<usize>()
    }

    /// Removes `key` if it was recorded last. Returns by how many bytes the set has shrunk, or `None` if it was not.
    #[inline]
    pub fn take_last(&mut self, key: &[u8]) -> Option<usize> {
        let (&end, others) = self.key_ends.split_last()?;
        let start = others.last().copied().unwrap_or(0);
        if self.key_bytes[start..end] != *key {
            return None;
        }
        self.key_bytes.truncate(start);
        self.key_ends.pop();
        Some(key.len() + size_of::<usize>())
    }

    /// Adds an open range. Returns its place, and by how many bytes the set has grown.
    pub fn range(&mut self, low: &[u8], high: Bound<&[u8]>) -> (u32, usize) {
        let before = self.range_bytes.len();
        let low = append(&mut self.range_bytes, low);
        let high = high.map(|key| append(&mut self.range_bytes, key));
        let range = Range { state: State::Open, low, high };
        let bytes = self.range_bytes.len() - before + size_of::<Range>();
        match self.vacant.pop() {
            Some(at) => {
                self.ranges[at as usize] = range;
                (at, bytes)
            }
            None => {
                self.ranges.push(range);
                ((self.ranges.len() - 1) as u32, bytes)
            }
        }
    }

    /// Extends the range upwards. Returns by how many bytes the set has grown.
    #[inline]
    pub fn extend_high(&mut self, token: RangeToken, high: Bound<&[u8]>) -> usize {
        let before = self.range_bytes.len();
        let range = &mut self.ranges[token.range as usize];
        let old = range.high.map(|place| slice(&self.range_bytes, place));
        if let (true, Bound::Included(place) | Bound::Excluded(place)) =
            (reaches_beyond(high, old), range.high)
        {
            range.high = high.map(|key| overwrite(&mut self.range_bytes, place, key));
        }
        self.range_bytes.len() - before
    }

    /// Extends the range downwards. Returns by how many bytes the set has grown.
    #[inline]
    pub fn extend_low(&mut self, token: RangeToken, low: &[u8]) -> usize {
        let before = self.range_bytes.len();
        let range = &mut self.ranges[token.range as usize];
        if low < slice(&self.range_bytes, range.low) {
            range.low = overwrite(&mut self.range_bytes, range.low, low);
        }
        self.range_bytes.len() - before
    }

    pub fn close(&mut self, token: RangeToken) {
        self.ranges[token.range as usize].state = State::Closed;
    }

    /// Returns the keys, in the order of reading.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.key_ends.iter().copied());
        starts.zip(&self.key_ends).map(|(start, &end)| &self.key_bytes[start..end])
    }

    pub fn ranges(&self) -> impl Iterator<Item = Lent<'_>> {
        let scanned = self.ranges.iter().filter(|range| range.state != State::Vacant);
        scanned.map(|range| self.lent(range)).chain(self.joined.iter().map(Interval::lent))
    }

    fn lent(&self, range: &Range) -> Lent<'_> {
        let high = range.high.map(|place| slice(&self.range_bytes, place));
        (slice(&self.range_bytes, range.low), high)
    }

    /// Returns what the reads take. Vacant places do not count: the cursor that was opened last has the last place and
    /// is mostly open, so they stay until it is closed, and joining more would not free them. The next ranges take
    /// them.
    pub fn cost(&self) -> Cost {
        let ranges = self.ranges.len() - self.vacant.len();
        let buffers = self.key_bytes.len() + self.range_bytes.len();
        let places = size_of_val(&self.key_ends[..]) + ranges * size_of::<Range>();
        let joined: usize = self.joined.iter().map(Interval::bytes).sum();
        let items = self.key_ends.len() + ranges + self.joined.len();
        Cost { bytes: buffers + places + joined, items }
    }

    /// Returns whether nothing more can be joined.
    pub fn is_joined(&self) -> bool {
        let closed = self.ranges.iter().filter(|range| range.state == State::Closed).count();
        self.key_ends.len() + closed + self.joined.len() <= 1
    }

    /// Sorts all keys, closed ranges and earlier intervals and makes every [`JOINED`] neighbours one interval, so that
    /// their number falls to a sixteenth. O(n log n).
    pub fn join_neighbours(&mut self) {
        let mut items: Vec<Lent<'_>> = self.keys().map(|key| (key, Bound::Included(key))).collect();
        let closed = self.ranges.iter().filter(|range| range.state == State::Closed);
        items.extend(closed.map(|range| self.lent(range)));
        items.extend(self.joined.iter().map(Interval::lent));
        items.sort_unstable_by_key(|(low, _)| *low);
        self.joined = items.chunks(JOINED).map(Interval::around).collect();
        self.key_bytes.clear();
        self.key_ends.clear();
        self.keep_open_ranges();
    }

    /// Frees the places of closed ranges. Open ranges keep their places.
    fn keep_open_ranges(&mut self) {
        let old = std::mem::take(&mut self.range_bytes);
        let last = self.ranges.iter().rposition(|range| range.state == State::Open);
        self.ranges.truncate(last.map_or(0, |last| last + 1));
        self.vacant.clear();
        for (at, range) in (0..).zip(&mut self.ranges) {
            if range.state == State::Open {
                let mut moved = |place| append(&mut self.range_bytes, slice(&old, place));
                (range.low, range.high) = (moved(range.low), range.high.map(&mut moved));
            } else {
                range.state = State::Vacant;
                self.vacant.push(at);
            }
        }
    }

    /// Returns whether the buffers are small enough to keep: 64 KiB of each kind at most.
    pub fn is_small(&self) -> bool {
        const KEPT_BYTES: usize = 64 << 10;
        self.key_bytes.capacity().max(self.range_bytes.capacity()) <= KEPT_BYTES
            && self.key_ends.capacity() * size_of::<usize>() <= KEPT_BYTES
            && self.ranges.capacity() * size_of::<Range>() <= KEPT_BYTES
    }

    pub fn clear(&mut self) {
        self.key_bytes.clear();
        self.key_ends.clear();
        self.ranges.clear();
        self.range_bytes.clear();
        self.vacant.clear();
        self.joined = Vec::new();
    }
}

impl Interval {
    /// Returns the interval from the first of `items`, which are in the order of their starts, to the furthest end.
    fn around(items: &[Lent<'_>]) -> Interval {
        let further = |a, b| if reaches_beyond(b, a) { b } else { a };
        let high = items.iter().map(|item| item.1).reduce(further).expect("a chunk is not empty");
        Interval { low: items[0].0.to_vec(), high: high.map(<[u8]>::to_vec) }
    }

    fn lent(&self) -> Lent<'_> {
        (&self.low, self.high.as_ref().map(|key| &key[..]))
    }

    fn bytes(&self) -> usize {
        let high = match &self.high {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
        };
        size_of::<Self>() + self.low.len() + high
    }
}

/// Returns whether the end `new` is after the end `old`.
fn reaches_beyond(new: Bound<&[u8]>, old: Bound<&[u8]>) -> bool {
    let (old, has_its_key) = match old {
        Bound::Unbounded => return false,
        Bound::Included(key) => (key, true),
        Bound::Excluded(key) => (key, false),
    };
    match new {
        Bound::Unbounded => true,
        Bound::Excluded(key) => key > old,
        Bound::Included(key) => match key.cmp(old) {
            Ordering::Less => false,
            Ordering::Equal => !has_its_key,
            Ordering::Greater => true,
        },
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

/// Writes `key` to `place` if there is room, else to the end of `bytes`, with twice the room it needs.
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
